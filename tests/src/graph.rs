//! Recorded graphs of a GPU: `burn::tensor::capture`, and replays with new inputs in the same buffers. A replay has the
//! bits of a plain call. `capture` gets the device without autodiff, also for a backward pass.

use super::{
    backends::TestBackend,
    runs::{expect, random, values},
};
use burn::{
    module::{Module, ModuleMapper, ModuleVisitor, Param},
    nn::gru::GruConfig,
    optim::{AdamConfig, GradientsParams, SgdConfig},
    tensor::{Bool, Device, Tensor, capture},
};
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
    ("autodiff-device", |device| {
        let device = device.clone().autodiff();
        let block = block(&device);
        let x = || random::<3>("x", [N, T, I], &device);
        let graph = capture(&device, || block.forward(x(), None));
        // Autodiff does not pass a recording on.
        expect("recorded", graph.is_hardware(), false)
    }),
    ("random-numbers", random_numbers),
    ("step", step),
    ("training", training),
    ("optimizer", |device| {
        let trained = &device.clone().autodiff();
        let burn = GruConfig::new(I, H, true).init(trained);
        repeats_a_step(device, burn, |gru, x| gru.forward(x, None))?;
        repeats_a_step(device, block(trained), |gru, x| gru.forward(x, None).0)
    }),
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

/// A replay repeats the random numbers of its recording.
fn random_numbers(device: &Device) -> Result<(), String> {
    let trained = device.clone().autodiff();
    let x = random::<3>("x", [N, T, I], &trained);
    let config = GruBlockConfig::new(I, H).with_num_layers(2);
    for config in [config.clone().with_dropout(0.5), config.with_zoneout(0.5)] {
        let block = config.init(&trained);
        let mut graph = capture(device, || block.forward(x.clone(), None).0.inner());
        expect("recorded", graph.is_hardware(), true)?;
        // SAFETY: all tensors of the closure are alive, and only this thread uses them.
        let [first, second] = [(); 2].map(|()| values(unsafe { graph.replay() }.clone()));
        expect("second replay", &second[..], &first[..])?;
        if values(block.forward(x.clone(), None).0) == first {
            return Err("plain call: expected other random numbers".into());
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

/// The gradients are recorded. The optimizer's parameters are written into the recorded buffers. All parameters have the
/// bits of plain steps.
fn training(device: &Device) -> Result<(), String> {
    let trained = &device.clone().autodiff();
    let (x, block) = (random::<3>("x", [N, T, I], trained), block(trained));
    let gradients = |block: &GruBlock| {
        let loss = block.forward(x.clone(), None).0.square().sum();
        GradientsParams::from_grads(loss.backward(), block)
    };
    let parameters = |block: &GruBlock| {
        let all = block.weights().into_iter().map(|of| {
            let weights = [of.w_ih, Some(of.w_hh)].map(|w| w.map(values));
            (weights, [of.b_ih, of.b_hh].map(|b| b.map(values)))
        });
        all.collect::<Vec<_>>()
    };
    let mut adam = AdamConfig::new().init();
    let mut plain = block.clone();
    let mut expected = Vec::new();
    for _ in 0..3 {
        let of = gradients(&plain);
        plain = adam.step(0.1, plain, of);
        expected.push(parameters(&plain));
    }
    let mut adam = AdamConfig::new().init();
    let recorded = RefCell::new(Some(block));
    let block = || recorded.borrow().clone().expect("a block");
    let mut graph = capture(device, || gradients(&block()));
    expect("recorded", graph.is_hardware(), true)?;
    for expected in expected {
        // SAFETY: all tensors of the closure are alive, and only this thread uses them.
        let of = unsafe { graph.replay() };
        let of = Collect::of(&block(), Some(of));
        let new = Collect::of(&adam.step(0.1, block(), of), None);
        // The only owner writes in place.
        let alone = recorded.take().expect("a block");
        recorded.replace(Some(alone.map(&mut Write(new))));
        expect("parameters", &parameters(&block())[..], &expected[..])?;
    }
    Ok(())
}

/// The parameters of a block, or their gradients.
struct Collect<'a> {
    gradients: Option<&'a GradientsParams>,
    tensors: GradientsParams,
}

impl<'a> Collect<'a> {
    fn of(block: &GruBlock, gradients: Option<&'a GradientsParams>) -> GradientsParams {
        let tensors = GradientsParams::new();
        let mut all = Self { gradients, tensors };
        block.visit(&mut all);
        all.tensors
    }
}

impl ModuleVisitor for Collect<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let tensor = match self.gradients {
            Some(all) => all.get(param.id).expect("all have a gradient"),
            None => param.val().inner(),
        };
        self.tensors.register::<D>(param.id, tensor);
    }
}

/// Writes new parameters into the buffers of the old ones.
struct Write(GradientsParams);

impl ModuleMapper for Write {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let new = self.0.get::<D>(param.id).expect("the same parameters");
        param.map(|old| {
            let all = old.dims().map(|size| 0..size);
            Tensor::from_inner(old.inner().slice_assign(all, new)).require_grad()
        })
    }
}

/// An optimizer makes new parameters in other buffers. So a graph with a whole step repeats this step, for Burn's `Gru` as
/// for a `GruBlock`.
fn repeats_a_step<M: Module>(
    device: &Device,
    model: M,
    forward: impl Fn(&M, Tensor<3>) -> Tensor<3>,
) -> Result<(), String> {
    let x = random::<3>("x", [N, T, I], &device.clone().autodiff());
    // All models are kept, because a replay uses their buffers.
    let models = RefCell::new(vec![model]);
    let mut sgd = SgdConfig::new().init();
    let mut step = || {
        let model = models.borrow().last().expect("a model").clone();
        let loss = forward(&model, x.clone()).square().sum();
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        let new = sgd.step(0.01, model, gradients);
        models.borrow_mut().push(new);
        loss.inner()
    };
    let mut graph = capture(device, &mut step);
    expect("recorded", graph.is_hardware(), true)?;
    // SAFETY: all tensors of the closure are alive, and only this thread uses them.
    let losses = [(); 3].map(|()| values(unsafe { graph.replay() }.clone())[0]);
    expect("loss", &losses[..], &[losses[0]; 3][..])?;
    drop(graph);
    let next = values(step())[0];
    if next < losses[0] {
        Ok(())
    } else {
        let most = losses[0];
        Err(format!(
            "loss of the next step: expected less than {most}, got {next}"
        ))
    }
}
