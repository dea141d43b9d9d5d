//! The program learns.

use std::process::Command;

#[test]
fn the_loss_falls() {
    let output = Command::new(env!("CARGO_BIN_EXE_minimal"))
        .output()
        .unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let losses = text.lines().map(|line| line.rsplit(' ').next().unwrap());
    let losses: Vec<f32> = losses.map(|loss| loss.parse().unwrap()).collect();
    assert_eq!(losses.len(), 6, "{text}");
    assert!(losses[5] < 0.05 * losses[0], "{text}");
}
