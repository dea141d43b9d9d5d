//! The program learns, and the loaded model adds up a stream.

use std::process::Command;

#[test]
fn the_loss_falls_and_the_stream_is_added_up() {
    let output = Command::new(env!("CARGO_BIN_EXE_minimal"))
        // The program saves the model to its working directory.
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .output()
        .unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let numbers: Vec<f32> = text
        .lines()
        .map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
        .collect();
    let (losses, sums) = numbers.split_at(6);
    assert!(losses[5] < 0.05 * losses[0], "{text}");
    assert_eq!(sums.len(), 4, "{text}");
    for (sum, expected) in sums.iter().zip([0.5, 0.25, 1.0, 1.5]) {
        assert!((sum - expected).abs() < 0.2, "{text}");
    }
}
