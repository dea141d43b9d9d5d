//! Thousands of steps leave the memory as it is.

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
            Ok(Completion::ignored_with("memory is read from /proc"))
        }
    })
}

/// Bytes of memory that this process has in use, without the pages of its program, which come as they are read.
fn in_use() -> Result<u64, String> {
    let memory = fs::read_to_string("/proc/self/smaps_rollup").map_err(text)?;
    let line = memory.lines().find(|line| line.starts_with("Anonymous:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    Ok(1024 * kilobytes.ok_or("no line of anonymous memory")?)
}

/// Each of these is a step of its own kind: streaming; a sequence with lengths; training.
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
        let block = gru.take().expect("it was put back");
        let x = Tensor::<3>::ones([n, t, i], &device);
        let gradients = block.forward(x, None).0.mean().backward();
        let gradients = GradientsParams::from_grads(gradients, &block);
        gru = Some(optimizer.step(1e-3, block, gradients));
    })
}

/// Fails where the second half of the steps takes memory: threads and allocator have settled by then.
fn flat(name: &str, steps: usize, mut step: impl FnMut()) -> Result<(), String> {
    (0..steps / 2).for_each(|_| step());
    let before = in_use()?;
    (0..steps / 2).for_each(|_| step());
    let more = in_use()?.saturating_sub(before);
    if more <= ALLOWED {
        Ok(())
    } else {
        Err(format!(
            "{name}: {more} bytes more in the last half of {steps} steps"
        ))
    }
}
