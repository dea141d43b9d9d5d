//! Memory use stays constant over thousands of steps.

use super::{child, text};
use burn::{
    optim::{GradientsParams, SgdConfig},
    tensor::{Device, Tensor},
};
use gru_op::{GruBlockConfig, SequenceOptions};
use libtest_mimic::{Completion, Failed, Trial};
use std::fs;

/// More than this in half of the steps is a leak: the state of one step is 256 bytes.
const ALLOWED: u64 = 1 << 16;

pub fn trial() -> Trial {
    Trial::ignorable_test("user/memory-stays/flex", || {
        if cfg!(target_os = "linux") {
            child::run("memory").map_err(Failed::from)?;
            Ok(Completion::Completed)
        } else {
            Ok(Completion::ignored_with("this test reads /proc"))
        }
    })
}

/// Bytes of anonymous memory of this process. The pages of the program file are not included, because
/// the system loads them on demand.
fn in_use() -> Result<u64, String> {
    let memory = fs::read_to_string("/proc/self/smaps_rollup").map_err(text)?;
    let line = memory.lines().find(|line| line.starts_with("Anonymous:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    Ok(1024 * kilobytes.ok_or("expected a line with anonymous memory")?)
}

/// Three kinds of steps: streaming, a sequence with lengths, and training.
pub fn role() -> Result<(), String> {
    let plain = Device::flex();
    let device = plain.clone().autodiff();
    let (n, t, i, h) = (2, 3, 3, 32);
    let gru = GruBlockConfig::new(i, h).with_num_layers(2).init(&plain);
    let mut state = None;
    flat("streaming", 10_000, || {
        state = Some(gru.step(Tensor::ones([n, i], &plain), state.take()).1);
    })?;
    flat("lengths", 2_000, || {
        let x = Tensor::<3>::ones([n, t, i], &plain);
        gru.forward_with(x, SequenceOptions::new().lengths(&[3, 1]));
    })?;
    let mut gru = Some(GruBlockConfig::new(i, h).init(&device));
    let sgd = SgdConfig::new();
    let mut optimizer = sgd.init();
    flat("training", 2_000, || {
        let block = gru.take().expect("every step puts the block back");
        let x = Tensor::<3>::ones([n, t, i], &device);
        let gradients = block.forward(x, None).0.mean().backward();
        let gradients = GradientsParams::from_grads(gradients, &block);
        gru = Some(optimizer.step(1e-3, block, gradients));
    })
}

/// Fails if memory grows in the second half of the steps, after threads and allocator have settled.
fn flat(name: &str, steps: usize, mut step: impl FnMut()) -> Result<(), String> {
    (0..steps / 2).for_each(|_| step());
    let before = in_use()?;
    (0..steps / 2).for_each(|_| step());
    let more = in_use()?.saturating_sub(before);
    if more <= ALLOWED {
        Ok(())
    } else {
        Err(format!(
            "{name}: memory grew by {more} bytes in the second half of {steps} steps"
        ))
    }
}
