//! Recorded graphs of a GPU: `burn::tensor::capture`, and replays with new inputs in the same buffers. A replay has the
//! bits of a plain call.

use super::{
    backends::TestBackend,
    runs::{expect, random, values},
};
use burn::tensor::{Bool, Device, Tensor, capture};
use gru_op::{GruBlock, GruBlockConfig, SequenceOptions};
use libtest_mimic::Trial;
use std::cell::RefCell;

type Test = fn(&Device) -> Result<(), String>;

const TESTS: &[(&str, Test)] = &[
    ("forward", |device| {
        let block = block(device);
        replays(device, true, |x| outputs(block.forward(x, None)))
    }),
    ("lengths", |device| {
        let block = block(device);
        let options = || SequenceOptions::new().lengths(&[T, 2, 0]);
        // Lengths are uploaded, which a recording does not allow.
        replays(device, false, |x| outputs(block.forward_with(x, options())))
    }),
    ("mask-and-starts", |device| {
        let block = block(device);
        let [mask, starts] = ["mask", "starts"].map(|name| flags(name, device));
        let options = || {
            SequenceOptions::new()
                .mask(mask.clone())
                .starts(starts.clone())
        };
        replays(device, true, |x| outputs(block.forward_with(x, options())))
    }),
    ("gradients", |device| {
        let block = block(&device.clone().autodiff());
        replays(device, true, |x| gradients(&block, x))
    }),
    ("step", step),
];

const N: usize = 3;
const T: usize = 4;
const I: usize = 5;
const H: usize = 9;

pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    // Other backends run the closure again.
    let of_gpu = backends.iter().filter(|backend| backend.slow);
    let trials = of_gpu.flat_map(|backend| {
        let trial = |&(name, test): &(&str, Test)| {
            backend.trial(format!("graph/{name}/{}", backend.name), test)
        };
        TESTS.iter().map(trial)
    });
    trials.collect()
}

fn block(device: &Device) -> GruBlock {
    let config = GruBlockConfig::new(I, H).with_num_layers(2);
    config.with_bidirectional(true).init(device)
}

fn flags(name: &str, device: &Device) -> Tensor<2, Bool> {
    random::<2>(name, [N, T], device).greater_elem(0.0)
}

fn outputs((y, state): (Tensor<3>, Tensor<3>)) -> Vec<Tensor<1>> {
    vec![y.flatten(0, 2), state.flatten(0, 2)]
}

/// Of the sum of the squares, with respect to the input and all parameters.
fn gradients(block: &GruBlock, x: Tensor<3>) -> Vec<Tensor<1>> {
    let x = Tensor::from_inner(x).require_grad();
    let (y, state) = block.forward(x.clone(), None);
    let of = (y.square().sum() + state.square().sum()).backward();
    let mut all = vec![x.grad(&of).expect("a gradient of x").flatten(0, 2)];
    for layer in &block.layers {
        let of_weight = |weight: Tensor<2>| weight.grad(&of).expect("a gradient").flatten(0, 1);
        all.extend([layer.w_ih.val(), layer.w_hh.val()].map(of_weight));
        let biases = [&layer.b_ih, &layer.b_hh].into_iter().flatten();
        all.extend(biases.map(|bias| bias.val().grad(&of).expect("a gradient")));
    }
    all
}

/// Compares replays with plain calls. Two graphs take turns. Without a recorded graph, a replay runs the closure again.
fn replays(
    device: &Device,
    is_recorded: bool,
    run: impl Fn(Tensor<3>) -> Vec<Tensor<1>>,
) -> Result<(), String> {
    let inputs = ["a", "b"].map(|name| RefCell::new(random::<3>(name, [N, T, I], device)));
    let run = &run;
    let mut graphs = inputs
        .each_ref()
        .map(|x| capture(device, move || run(x.borrow().clone())));
    for round in 0..3 {
        for (k, (x, graph)) in inputs.iter().zip(&mut graphs).enumerate() {
            expect("recorded", graph.is_hardware(), is_recorded)?;
            let new = random::<3>(&format!("{round} {k}"), [N, T, I], device);
            x.borrow_mut()
                .inplace(|x| x.slice_assign([0..N, 0..T, 0..I], new.clone()));
            // SAFETY: all tensors of the closure are alive, and only this thread uses them.
            let got = unsafe { graph.replay() }.clone();
            for (got, expected) in got.into_iter().zip(run(new)) {
                expect("replay", &values(got)[..], &values(expected)[..])?;
            }
        }
    }
    Ok(())
}

/// A stream, whose state stays in its buffer.
fn step(device: &Device) -> Result<(), String> {
    let gru = GruBlockConfig::new(I, H).with_num_layers(2).init(device);
    let x = RefCell::new(random::<2>("x", [N, I], device));
    let state = RefCell::new(Tensor::<3>::zeros([2, N, H], device));
    let whole = [0..2, 0..N, 0..H];
    let set = |new: Tensor<3>| {
        state
            .borrow_mut()
            .inplace(|s| s.slice_assign(whole.clone(), new))
    };
    let mut graph = capture(device, || {
        let (y, new) = gru.step(x.borrow().clone(), Some(state.borrow().clone()));
        set(new);
        y
    });
    let mut expected = Tensor::<3>::zeros([2, N, H], device);
    // The closure ran before.
    set(expected.clone());
    for t in 0..T {
        let new = random::<2>(&t.to_string(), [N, I], device);
        x.borrow_mut()
            .inplace(|x| x.slice_assign([0..N, 0..I], new.clone()));
        // SAFETY: all tensors of the closure are alive, and only this thread uses them.
        let got = unsafe { graph.replay() }.clone();
        let (y, next) = gru.step(new, Some(expected));
        expect("y", &values(got)[..], &values(y)[..])?;
        let got = values(state.borrow().clone());
        expect("state", &got[..], &values(next.clone())[..])?;
        expected = next;
    }
    Ok(())
}
