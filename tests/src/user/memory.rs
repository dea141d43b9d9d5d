//! Memory use stays constant over thousands of steps.

use super::{child, text};
use burn::{
    optim::{GradientsParams, SgdConfig},
    tensor::{Device, Tensor},
};
use gru_convert::{keras, onnx, pytorch};
use gru_op::{
    GruBlockConfig, Precision, SequenceOptions, gru_gates, tensorflow::gru_block_cell_grad,
};
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

/// Streaming, a sequence with lengths, training, and functions on an autodiff device whose results are constants: Burn
/// frees what they record at the next backward pass, so they record nothing.
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
    constants(&device)?;
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

fn constants(device: &Device) -> Result<(), String> {
    fn leaf<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
        Tensor::ones(shape, device).require_grad()
    }
    let (n, t, i, h) = (2, 3, 3, 32);
    let gru = GruBlockConfig::new(i, h).init(device);
    let (x, state) = (leaf([n, t, i], device), leaf([1, n, h], device));
    flat("gates", 1_000, || {
        gru.gates(x.clone(), SequenceOptions::new().state(state.clone()));
    })?;
    let (weights, spec) = (gru.layers[0].weights(), gru.layers[0].spec);
    let (rows, steps) = (leaf([n, h], device), leaf([n, t], device).greater_elem(0));
    flat("gru_gates", 1_000, || {
        let options = SequenceOptions::new()
            .mask(steps.clone())
            .state(rows.clone());
        let options = options.starts(steps.clone()).start_state(rows.clone());
        gru_gates(x.clone(), &weights, &spec, options);
    })?;
    flat("prepare", 1_000, || drop(gru.prepare(Precision::Full)))?;
    flat("exporters", 1_000, || {
        for export in [pytorch::export, keras::export] {
            let _ = export(&gru, "").expect("both systems have this GRU");
        }
        onnx::model(&gru, Default::default()).expect("ONNX has this GRU");
    })?;
    let (x, u) = (leaf([n, i], device), &rows);
    let (w_ru, w_c) = (leaf([i + h, 2 * h], device), leaf([i + h, h], device));
    let (b_ru, b_c) = (leaf([2 * h], device), leaf([h], device));
    flat("gru_block_cell_grad", 1_000, || {
        let (w_ru, w_c, b_ru, b_c) = (w_ru.clone(), w_c.clone(), b_ru.clone(), b_c.clone());
        let [h_prev, r, u, c, d_h] = [u, u, u, u, u].map(Tensor::clone);
        gru_block_cell_grad(x.clone(), h_prev, w_ru, w_c, b_ru, b_c, r, u, c, d_h);
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
