//! Blocks prepared for inference: the results of the block, of a block with rounded weights, or of steps.

mod precision;

use super::{
    backends::TestBackend,
    runs::{expect_shape, tensor, values},
};
use burn::{
    module::{Module, ModuleMapper, Param},
    tensor::{DType, Device, Distribution, Tensor},
};
use gru_op::{GruBlock, GruBlockConfig, Precision, PreparedGru, Reset, SequenceOptions, Update};
use gru_testkit::{
    close::{Tolerance, share},
    panics::panics,
    random::SplitMix64,
};
use libtest_mimic::Trial;

const N: usize = 3;
const T: usize = 6;
const I: usize = 5;
const H: usize = 37;

type Test = fn(&Device) -> Result<(), String>;
type Call = (&'static str, SequenceOptions<3>);

/// Tests of the CPU backends.
const ON_CPU: &[(&str, Test)] = &[
    ("long-calls", long_calls),
    ("bf16", precision::bf16),
    ("int8", precision::int8),
    ("stream", stream),
    ("snapshot", snapshot),
    ("autodiff", autodiff),
    ("misuse", misuse),
];

pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for &backend in backends {
        let id = |test: &str| format!("prepared/{test}/{}", backend.name);
        trials.push(backend.trial(id("full"), full));
        if ["flex", "ndarray"].contains(&backend.name) {
            for &(test, run) in ON_CPU {
                trials.push(backend.trial(id(test), run));
            }
            // ndarray has no half precision.
            if backend.name == "flex" {
                trials.push(backend.trial(id("half"), precision::half));
            }
        } else {
            trials.push(backend.trial(id("refused"), precision::refused));
        }
    }
    trials
}

/// Every convention that a block has.
fn configs() -> Vec<GruBlockConfig> {
    let config = GruBlockConfig::new(I, H);
    let mut other = config.layer_options();
    other.spec.reset = Reset::BeforeMatmul;
    other.spec.update = Update::Takes;
    other.zoneout = 0.25;
    other.spec.clip_gates = Some(0.8);
    vec![
        config.clone(),
        config
            .clone()
            .with_num_layers(2)
            .with_per_layer(vec![config.layer_options(), other])
            .with_dropout(0.5)
            .with_recurrent_dropout(0.5)
            .with_batch_first(false),
        config.clone().with_num_layers(2).with_bidirectional(true),
        config.with_reverse(true).with_bias(false),
    ]
}

/// A sequence of `t` steps, and named options with each kind of padding. The values are the same on all devices.
fn calls(config: &GruBlockConfig, t: usize, device: &Device) -> (Tensor<3>, Vec<Call>) {
    let layers = config.layer_count();
    let mut source = SplitMix64(1);
    let mut random = |shape: [usize; 3]| {
        let values: Vec<f64> = (0..shape.iter().product())
            .map(|_| source.uniform(1.0))
            .collect();
        tensor::<3>(&values, shape, device, DType::F32)
    };
    let (first, second) = if config.batch_first { (N, t) } else { (t, N) };
    let x = random([first, second, I]);
    // True for this share of the steps.
    let mut flags = |share: f64| {
        let values = random([first, second, 1]).squeeze_dim::<2>(2);
        values.lower_elem(2.0 * share - 1.0)
    };
    let (starts, mask, mask_with_starts, starts_with_mask) =
        (flags(0.4), flags(0.6), flags(0.6), flags(0.3));
    let options = SequenceOptions::new;
    let all = vec![
        ("plain", options()),
        ("state", options().state(random([layers, N, H]))),
        ("lengths", options().lengths(&[t, 0, 2]).starts(starts)),
        ("mask", options().mask(mask)),
        (
            "starts",
            options()
                .mask(mask_with_starts)
                .starts(starts_with_mask)
                .state(random([layers, N, H]))
                .start_state(random([layers, 1, H])),
        ),
    ];
    (x, all)
}

/// Returns the largest difference. It is not relative, because no result is above 1.
fn close(
    what: &str,
    got: (Tensor<3>, Tensor<3>),
    expected: (Tensor<3>, Tensor<3>),
    most: f64,
) -> Result<f64, String> {
    let mut largest = 0.0f64;
    for (name, got, expected) in [("y", got.0, expected.0), ("state", got.1, expected.1)] {
        let name = format!("{what}, {name}");
        expect_shape(&name, &got, expected.dims())?;
        let expected = values(expected);
        // `share` accepts NaN for NaN.
        if expected.iter().any(|v| v.is_nan()) {
            return Err(format!("{name}: the expected result has NaN"));
        }
        largest = largest.max(most * share(&name, &values(got), &expected, most)?);
    }
    Ok(largest)
}

/// Compares all calls of a prepared block with a block. Returns the largest difference, which is at most `most`, and
/// for steps at least rounding: there a block reads its weights in place, and adds in another order.
fn compare(
    prepared: &PreparedGru,
    block: &GruBlock,
    config: &GruBlockConfig,
    device: &Device,
    most: f64,
) -> Result<f64, String> {
    let (x, calls) = calls(config, T, device);
    let mut largest = close(
        "forward",
        prepared.forward(x.clone(), None),
        block.forward(x.clone(), None),
        most,
    )?;
    for (name, options) in calls {
        let got = prepared.forward_with(x.clone(), options.clone());
        let expected = block.forward_with(x.clone(), options);
        let difference = close(name, got, expected, most)?;
        largest = largest.max(difference);
    }
    let x = Tensor::<2>::random([T + 2, I], Distribution::Default, device);
    let run = |(y, state): (Tensor<2>, Tensor<3>)| (y.unsqueeze::<3>(), state);
    let lengths = [T, 0, 2];
    let got = run(prepared.forward_packed(x.clone(), &lengths, None));
    let expected = run(block.forward_packed(x, &lengths, None));
    largest = largest.max(close("packed", got, expected, most)?);
    if !config.bidirectional && !config.reverse {
        let x = Tensor::<2>::random([N, I], Distribution::Default, device);
        let mut states = [None, None];
        for _ in 0..3 {
            let (y, state) = prepared.step(x.clone(), states[0].take());
            let (expected_y, expected) = block.step(x.clone(), states[1].take());
            let got = (y.unsqueeze(), state.clone());
            let expected_step = (expected_y.unsqueeze(), expected.clone());
            let most = most.max(Tolerance::F32.forward);
            let difference = close("step", got, expected_step, most)?;
            largest = largest.max(difference);
            states = [Some(state), Some(expected)];
        }
    }
    Ok(largest)
}

/// The bits of the block, except in steps.
fn full(device: &Device) -> Result<(), String> {
    for config in configs() {
        let block = config.init(device);
        let prepared = block.prepare(Precision::Full);
        compare(&prepared, &block, &config, device, 0.0)?;
        // Two biases that are always added are stored as one.
        let stored = config.with_recurrent_bias(false).init(device).num_params();
        if prepared.bytes() < 4 * stored {
            return Err(format!(
                "expected 4 bytes for each parameter, got {}",
                prepared.bytes()
            ));
        }
    }
    Ok(())
}

/// A block of several layers prepares itself for a long call in inference. On an autodiff device it calls the
/// operator for each layer, with the same bits.
fn long_calls(device: &Device) -> Result<(), String> {
    let autodiff = device.clone().autodiff();
    for config in configs() {
        // Frozen, so that nothing is random.
        let block = config.init(&autodiff).freeze();
        let inference = block.valid();
        // Blocks of two layers prepare themselves for the longer sequence only.
        for t in [100, 160] {
            let (x, options) = calls(&config, t, device);
            let (x_of_layers, options_of_layers) = calls(&config, t, &autodiff);
            for ((name, options), (_, of_layers)) in options.into_iter().zip(options_of_layers) {
                let got = inference.forward_with(x.clone(), options);
                let expected = block.forward_with(x_of_layers.clone(), of_layers);
                close(&format!("{name}, {t} steps"), got, expected, 0.0)?;
            }
            let lengths = [t, 0, N * t - t];
            let packed = |x: Tensor<3>| x.reshape([N * t, I]);
            let run = |(y, state): (Tensor<2>, Tensor<3>)| (y.unsqueeze::<3>(), state);
            let got = run(inference.forward_packed(packed(x), &lengths, None));
            let expected = run(block.forward_packed(packed(x_of_layers), &lengths, None));
            close(&format!("packed, {t} steps"), got, expected, 0.0)?;
        }
    }
    Ok(())
}

/// A stream gives the numbers of a sequence.
fn stream(device: &Device) -> Result<(), String> {
    let config = GruBlockConfig::new(I, H).with_num_layers(2);
    let config = config.with_batch_first(false).with_zoneout(0.1);
    for precision in [Precision::Full, Precision::Bf16, Precision::Int8] {
        let prepared = config.init(device).prepare(precision);
        let (x, _) = calls(&config, T, device);
        let (y, _) = prepared.forward(x.clone(), None);
        let x: Vec<f32> = values(x).into_iter().map(|v| v as f32).collect();
        let mut stream = prepared.stream(N);
        let mut got = Vec::new();
        for x in x.chunks_exact(N * I) {
            got.extend(stream.step(x).iter().copied().map(f64::from));
        }
        let (name, most) = (format!("{precision:?}"), Tolerance::F32.forward);
        share(&name, &got, &values(y), most)?;
    }
    Ok(())
}

/// The prepared block does not follow the block.
fn snapshot(device: &Device) -> Result<(), String> {
    let config = &configs()[0];
    for precision in [Precision::Full, Precision::Bf16, Precision::Int8] {
        let block = config.init(device);
        let prepared = block.prepare(precision);
        let (x, _) = calls(config, T, device);
        let before = prepared.forward(x.clone(), None);
        // A call of the changed block replaces what its layers keep between calls.
        let changed = block.map(&mut Double);
        changed.forward(x.clone(), None);
        close(
            "after",
            prepared.forward(x.clone(), None),
            before.clone(),
            0.0,
        )?;
        let other = changed.prepare(precision).forward(x, None);
        if close("another block", other, before, 1e-3).is_ok() {
            return Err("expected other results of doubled weights".into());
        }
    }
    Ok(())
}

struct Double;

impl ModuleMapper for Double {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|tensor| tensor * 2.0)
    }
}

/// A block in training is prepared for the device below. Its inputs may not be under autodiff.
fn autodiff(device: &Device) -> Result<(), String> {
    let config = &configs()[1];
    let autodiff = device.clone().autodiff();
    let block = config.init(&autodiff);
    let prepared = block.prepare(Precision::Full);
    compare(&prepared, &block.valid(), config, device, 0.0)?;
    let x = calls(config, T, &autodiff).0;
    panics(
        || prepared.forward(x, None),
        "x must be on a device without autodiff",
    )?;
    let x = Tensor::<2>::zeros([N, I], &autodiff);
    panics(|| prepared.step(x, None), "pass x.inner()")
}

fn misuse(device: &Device) -> Result<(), String> {
    let [config, .., reverse] = &configs()[..] else {
        return Err("expected several configurations".into());
    };
    let prepared = config.init(device).prepare(Precision::Int8);
    let x = || tensor(&vec![0.0; N * T * I], [N, T, I], device, DType::F32);
    let says = format!("the last dimension of x must be [{I}], got [{}]", I - 1);
    let short = Tensor::zeros([N, T, I - 1], device);
    panics(|| prepared.forward(short, None), &says)?;
    let says = "x must have the dtype of the prepared block, expected F32, got F64";
    panics(|| prepared.forward(x().cast(DType::F64), None), says)?;
    let says = "PreparedGru::forward_packed: the sum of lengths must be M = 3, got 4";
    let packed = Tensor::zeros([3, I], device);
    panics(|| prepared.forward_packed(packed, &[4], None), says)?;
    let reverse = reverse.init(device).prepare(Precision::Bf16);
    let says = "expected the forward direction in every layer, got reverse";
    let one = || Tensor::zeros([N, I], device);
    panics(
        || reverse.step(one(), None),
        &format!("PreparedGru::step: {says}"),
    )?;
    panics(
        || reverse.stream(1),
        &format!("PreparedGru::stream: {says}"),
    )
}
