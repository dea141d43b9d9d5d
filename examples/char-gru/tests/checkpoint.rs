//! Which checkpoints are loaded. Burn loads an optimizer on its default device, which may be a GPU.

use burn::tensor::{Device, read_sync};
use char_gru::checkpoint::Checkpoint;
use char_gru::data::Text;
use char_gru::train::{Settings, Trainer};
use clap::Parser;

#[test]
fn only_a_state_of_the_run_is_loaded() {
    let text = Text::new(&"abcd ".repeat(40), 2, 8).unwrap();
    let settings = "char-gru --embed=4 --hidden=6 --layers=2 --batch=2 --seq=8";
    let settings = Settings::parse_from(settings.split(' '));
    let new = || Trainer::new(settings.clone(), text.clone(), &[Device::flex()]);
    let mut trainer = new();
    for _ in 0..3 {
        read_sync(trainer.step()).unwrap();
    }
    let saved = trainer.save().unwrap();
    let loads = |change: fn(&mut Checkpoint)| {
        let mut saved = saved.clone();
        change(&mut saved);
        new().load(saved).is_ok()
    };
    assert!(loads(|_| {}));
    let changes: [fn(&mut Checkpoint); 11] = [
        |c| c.settings.seed += 1,
        |c| c.text += 1,
        |c| c.progress.steps[1].step = usize::MAX,
        |c| c.progress.steps[1].loss = f32::INFINITY,
        |c| c.progress.steps.clear(),
        |c| c.progress.validations.push((2, -1.0)),
        |c| c.numbers.truncate(12), // without moments
        |c| c.numbers[0].truncate(1),
        |c| c.numbers[0][0] = f32::NAN,
        |c| c.numbers[13][0] = f32::INFINITY,
        |c| drop(c.numbers.pop()),
    ];
    for (k, change) in changes.into_iter().enumerate() {
        assert!(!loads(change), "{k}");
    }
}
