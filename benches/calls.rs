//! Calls of one step, whose instructions and allocations `tools/slow calls` counts.

use std::hint::black_box;

use burn::tensor::{DType, Device, Tensor};
use gru_op::{GruBlockConfig, Precision};

use crate::{
    layer::{Layer, Program},
    problem::{Problem, Shape},
};

/// Runs `count` calls: `SHAPE-step`, `SHAPE-prepared` or `SHAPE-train`.
pub fn run(name: &str, count: usize) -> Result<(), String> {
    let wrong = || format!("{name}: expected SHAPE-step, SHAPE-prepared or SHAPE-train");
    let (shape, call) = name.split_once('-').ok_or_else(wrong)?;
    let shape = Shape::find(shape).ok_or_else(wrong)?;
    let device = Device::flex();
    let [n, _, i, h, layers, _] = shape.sizes;
    let (x, state) = (
        Tensor::<2>::ones([n, i], &device),
        Tensor::<3>::ones([layers, n, h], &device),
    );
    let gru = GruBlockConfig::new(i, h).with_num_layers(layers);
    let gru = gru.init(&device);
    let call: Box<dyn Fn()> = match call {
        "step" => Box::new(|| drop(black_box(gru.step(x.clone(), Some(state.clone()))))),
        "prepared" => {
            let gru = gru.prepare(Precision::Full);
            let (x, state) = (&x, &state);
            Box::new(move || drop(black_box(gru.step(x.clone(), Some(state.clone())))))
        }
        "train" => {
            let problem = Problem::new(shape);
            let layer = Layer::new(&problem, Program::Block, true, &device, DType::F32);
            Box::new(move || layer.call())
        }
        _ => return Err(wrong()),
    };
    (0..count).for_each(|_| call());
    Ok(())
}
