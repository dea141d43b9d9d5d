//! Invalid calls panic before any work. The panic names the operation, the expected shape and the actual
//! shape.

use super::backends::TestBackend;
use burn::{
    module::{Module, Param},
    tensor::{DType, Device, Tensor},
};
use gru_op::{
    Activation, Activations, GruBlockConfig, GruLayer, GruSpec, GruWeights, Layout, Precision,
    SequenceOptions, Update, gru_cell, gru_sequence, gru_sequence_with,
    mps_graph::{self, GruDescriptor},
    restart,
    tensorflow::{self, gru_block_cell, gru_block_cell_grad},
};
use gru_testkit::panics::panic_text;
use libtest_mimic::Trial;

const N: usize = 2;
const T: usize = 3;
const I: usize = 4;
const H: usize = 5;

/// An invalid call, and texts that its panic must contain.
struct Misuse {
    id: &'static str,
    call: Box<dyn FnOnce() + Send>,
    says: &'static [&'static str],
}

fn descriptor(change: impl FnOnce(&mut GruDescriptor)) -> GruDescriptor {
    let mut descriptor = GruDescriptor::new(Update::Keeps);
    change(&mut descriptor);
    descriptor
}

fn zeros<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    Tensor::zeros(shape, &Device::flex())
}

fn weights() -> GruWeights {
    GruWeights::new(zeros([I, 3 * H]), zeros([H, 3 * H]))
        .with_b_ih(zeros([3 * H]))
        .with_b_hh(zeros([3 * H]))
}

/// The arguments of a valid call. Each misuse changes one of them.
struct Call {
    x: Tensor<3>,
    h0: Option<Tensor<2>>,
    w: GruWeights,
    spec: GruSpec,
}

fn sequence(change: impl FnOnce(&mut Call)) {
    let mut call = Call {
        x: zeros([N, T, I]),
        h0: Some(zeros([N, H])),
        w: weights(),
        spec: GruSpec::default(),
    };
    change(&mut call);
    gru_sequence(call.x, call.h0, &call.w, &call.spec);
}

/// A valid call with one changed option.
fn with(change: impl FnOnce(SequenceOptions<2>) -> SequenceOptions<2>) {
    let options = change(SequenceOptions::new());
    gru_sequence_with(zeros([N, T, I]), &weights(), &GruSpec::default(), options);
}

macro_rules! misuse {
    ($id:literal, $call:expr, $($says:literal),+) => {
        Misuse { id: $id, call: Box::new(|| {
            let _ = $call;
        }), says: &[$($says),+] }
    };
}

fn all() -> Vec<Misuse> {
    fn block() -> gru_op::GruBlock {
        GruBlockConfig::new(I, H).init(&Device::flex())
    }
    /// Two layers. `change` modifies the second layer.
    fn changed(change: impl FnOnce(&mut GruLayer)) -> gru_op::GruBlock {
        let config = GruBlockConfig::new(I, H).with_num_layers(2);
        let mut block = config.init(&Device::flex());
        change(&mut block.layers[1]);
        block
    }
    vec![
        misuse!(
            "lengths-count",
            with(|o| o.lengths(&[1])),
            "gru_sequence_with: lengths [N] must be [2], got [1]"
        ),
        misuse!(
            "lengths-too-long",
            with(|o| o.lengths(&[3, 4])),
            "gru_sequence_with: lengths[1] must be at most T, expected 0 to 3, got 4"
        ),
        misuse!(
            "steps-shape",
            with(|o| o.mask(zeros([T, N]).greater_elem(1))),
            "gru_sequence_with: mask [N, T] must be [2, 3], got [3, 2]"
        ),
        misuse!(
            "mask-shape",
            with(|o| o.recurrent_mask(zeros([N, H + 1]))),
            "gru_sequence_with: recurrent_mask [N, H] must be [2, 5], got [2, 6]"
        ),
        misuse!(
            "zoneout-shape",
            with(|o| o.zoneout(zeros([N, T, 2]))),
            "gru_sequence_with: zoneout [N, T, H] or [N, T, 1] must be [2, 3, 5], got [2, 3, 2]"
        ),
        misuse!(
            "starts-shape",
            with(|o| o.starts(zeros([T, N]).greater_elem(1))),
            "gru_sequence_with: starts [N, T] must be [2, 3], got [3, 2]"
        ),
        misuse!(
            "start-state-without-starts",
            with(|o| o.start_state(zeros([N, H]))),
            "gru_sequence_with: start_state requires starts, expected a tensor, got none"
        ),
        misuse!(
            "start-state-shape",
            with(|o| o
                .starts(zeros([N, T]).greater_elem(1))
                .start_state(zeros([3, H]))),
            "gru_sequence_with: start_state [N, H] or [1, H] must be [2, 5], got [3, 5]"
        ),
        misuse!(
            "block-start-state-shape",
            block().forward_with(
                zeros([N, T, I]),
                SequenceOptions::new()
                    .starts(zeros([N, T]).greater_elem(1))
                    .start_state(zeros([2, 1, H]))
            ),
            "GruBlock::forward_with: start_state [L·D, N, H] or [L·D, 1, H] must be [1, 1, 5], got [2, 1, 5]"
        ),
        misuse!(
            "starts-after",
            gru_op::starts_after(
                zeros([N, T]).greater_elem(1),
                zeros([N + 1]).greater_elem(1)
            ),
            "starts_after: first [N] must be [2], got [3]; dones [N, T] is [2, 3]"
        ),
        misuse!(
            "restart",
            gru_op::restart(zeros([1, N, H]), zeros([T]).greater_elem(1), None),
            "restart: starts [N] must be [2], got [3]; state [L·D, N, H] is [1, 2, 5]"
        ),
        misuse!(
            "mask-dtype",
            with(|o| o.recurrent_mask(zeros([N, H]).cast(DType::F64))),
            "gru_sequence_with: recurrent_mask must have the dtype of x, expected F32, got F64"
        ),
        misuse!(
            "projected-features",
            sequence(|c| c.w.w_ih = None),
            "gru_sequence: the last dimension of x, 3H without w_ih, must be [15], got [4]"
        ),
        misuse!(
            "block-lengths",
            block().forward_with(zeros([N, T, I]), SequenceOptions::new().lengths(&[3, 9])),
            "GruBlock::forward_with: lengths[1] must be at most T, expected 0 to 3, got 9"
        ),
        misuse!(
            "reverse-and-bidirectional",
            GruBlockConfig::new(I, H)
                .with_reverse(true)
                .with_bidirectional(true)
                .init(&Device::flex()),
            "GruBlockConfig: expected reverse or bidirectional, got both"
        ),
        misuse!(
            "per-layer",
            {
                let config = GruBlockConfig::new(I, H).with_num_layers(3);
                let options = config.layer_options();
                config
                    .with_per_layer(vec![options; 2])
                    .init(&Device::flex())
            },
            "GruBlockConfig: per_layer must be empty or have one entry for each layer and \
             direction, expected 3, got 2"
        ),
        misuse!(
            "step-recurrent-dropout",
            {
                let device = Device::flex().autodiff();
                let config = GruBlockConfig::new(I, H).with_recurrent_dropout(0.5);
                config
                    .init(&device)
                    .step(Tensor::zeros([N, I], &device), None)
            },
            "GruBlock::step: recurrent dropout is drawn once per sequence, expected 0 in training, \
             got 0.5"
        ),
        misuse!(
            "block-cell-weights",
            gru_block_cell(
                zeros([N, I]),
                zeros([N, H]),
                zeros([I + H, H]),
                zeros([I + H, H]),
                zeros([2 * H]),
                zeros([H])
            ),
            "gru_block_cell: w_ru [I+H, 2H] must be [9, 10], got [9, 5]"
        ),
        misuse!(
            "block-cell-saved",
            gru_block_cell_grad(
                zeros([N, I]),
                zeros([N, H]),
                zeros([I + H, 2 * H]),
                zeros([I + H, H]),
                zeros([2 * H]),
                zeros([H]),
                zeros([N, H]),
                zeros([N - 1, H]),
                zeros([N, H]),
                zeros([N, H])
            ),
            "gru_block_cell_grad: u [N, H] must be [2, 5], got [1, 5]"
        ),
        misuse!(
            "block-cell-weights-rows",
            tensorflow::weights(zeros([H, 2 * H]), zeros([H, H]), zeros([2 * H]), zeros([H])),
            "tensorflow::weights: w_c [I+H, H] must have more rows than columns, got [5, 5]"
        ),
        misuse!(
            "tensorflow-weights",
            tensorflow::weights(
                zeros([I + H, 2 * H]),
                zeros([I + H, H]),
                zeros([H]),
                zeros([H])
            ),
            "tensorflow::weights: b_ru [2H] must be [10], got [5]; w_c is [9, 5]"
        ),
        misuse!(
            "mps-weights-direction",
            mps_graph::weights(
                &zeros::<3>([2, 3 * H, H]).into(),
                None,
                None,
                None,
                &GruDescriptor::new(Update::Keeps)
            ),
            "mps_graph::weights: recurrent_weight must be [3H, H] without bidirectional, got [2, 15, 5]"
        ),
        misuse!(
            "mps-weights-input",
            mps_graph::weights(
                &zeros::<2>([3 * H, H]).into(),
                Some(&zeros([H, I])),
                None,
                None,
                &GruDescriptor::new(Update::Keeps)
            ),
            "mps_graph::weights: input_weight [D·3H, I] must be [15, 4], got [5, 4]"
        ),
        misuse!(
            "mps-recurrent-weight",
            mps_graph::gru(
                zeros([T, N, 3 * H]),
                zeros::<2>([3 * H, H]),
                None,
                None,
                None,
                None,
                None,
                &descriptor(|d| d.bidirectional = true)
            ),
            "mps_graph::gru: recurrent_weight must be [2, 3H, H] with bidirectional, got [15, 5]"
        ),
        misuse!(
            "mps-secondary-bias",
            mps_graph::gru(
                zeros([T, N, 3 * H]),
                zeros::<2>([3 * H, H]),
                None,
                None,
                None,
                None,
                Some(zeros([3 * H])),
                &descriptor(|d| d.reset_after = true)
            ),
            "mps_graph::gru: secondary_bias [D·H] must be [5], got [15]"
        ),
        misuse!(
            "mps-z-state",
            mps_graph::gru_gradients(
                zeros([T, N, 3 * H]),
                zeros::<2>([3 * H, H]),
                zeros([T, N, H]),
                zeros([T, N, H]),
                zeros([T, N, H]),
                None,
                None,
                None,
                None,
                None,
                None,
                &GruDescriptor::new(Update::Keeps)
            ),
            "mps_graph::gru_gradients: z_state [T, N, D·3H] must be [3, 2, 15], got [3, 2, 5]"
        ),
        misuse!(
            "x-features",
            sequence(|c| c.x = zeros([N, T, I + 1])),
            "gru_sequence: w_ih [I, 3H] must be [5, 15], got [4, 15]",
            "x [N, T, I] is [2, 3, 5]"
        ),
        misuse!(
            "h0-batch",
            sequence(|c| c.h0 = Some(zeros([N + 1, H]))),
            "gru_sequence: h0 [N, H] must be [2, 5], got [3, 5]"
        ),
        misuse!(
            "h0-batch-time-major",
            with(|o| o.state(zeros([N, H])).layout(Layout::TimeMajor)),
            "gru_sequence_with: h0 [N, H] must be [3, 5], got [2, 5]",
            "x [T, N, I] is [2, 3, 4]"
        ),
        misuse!(
            "h0-hidden",
            sequence(|c| c.h0 = Some(zeros([N, H + 1]))),
            "gru_sequence: h0 [N, H] must be [2, 5], got [2, 6]"
        ),
        misuse!(
            "w_hh-not-three-gates",
            sequence(|c| c.w.w_hh = zeros([H, 4 * H])),
            "gru_sequence: w_hh must be [H, 3H], got [5, 20]"
        ),
        misuse!(
            "w_ih-hidden",
            sequence(|c| c.w.w_ih = Some(zeros([I, 3 * H + 3]))),
            "gru_sequence: w_ih [I, 3H] must be [4, 15], got [4, 18]"
        ),
        misuse!(
            "b_ih",
            sequence(|c| c.w.b_ih = Some(zeros([H]))),
            "gru_sequence: b_ih [3H] must be [15], got [5]"
        ),
        misuse!(
            "b_hh",
            sequence(|c| c.w.b_hh = Some(zeros([3 * H + 1]))),
            "gru_sequence: b_hh [3H] must be [15], got [16]"
        ),
        misuse!(
            "dtype",
            sequence(|c| c.w.w_hh = c.w.w_hh.clone().cast(DType::F64)),
            "gru_sequence: w_hh must have the dtype of x, expected F32, got F64"
        ),
        #[allow(deprecated)]
        Misuse {
            id: "device",
            call: Box::new(|| sequence(|c| c.h0 = Some(Tensor::zeros([N, H], &Device::ndarray())))),
            says: &[
                "gru_sequence: h0 must be on the device of x",
                "Flex",
                "NdArray",
            ],
        },
        misuse!(
            "overflow",
            sequence(|c| {
                c.h0 = None;
                c.x = zeros([1, 1, 1]).expand([1usize << 40, 1 << 20, 1]);
                c.w.w_ih = Some(zeros([1, 3 * H]));
            }),
            "gru_sequence: a buffer of",
            "does not fit in memory"
        ),
        misuse!(
            "overflow-without-rows",
            sequence(|c| {
                c.h0 = None;
                c.x = zeros([0, 1 << 58, I]);
            }),
            "gru_sequence: a buffer of [0, 288230376151711744, 20] elements does not fit in memory"
        ),
        misuse!(
            "cell-batch",
            {
                gru_cell(
                    zeros([N, I]),
                    Some(zeros([N + 1, H])),
                    &weights(),
                    &GruSpec::default(),
                );
            },
            "gru_cell: h [N, H] must be [2, 5], got [3, 5]"
        ),
        misuse!(
            "clip",
            sequence(|c| c.spec.clip_gates = Some(0.0)),
            "GruSpec: clip_gates must be positive, expected > 0, got 0"
        ),
        misuse!(
            "activation",
            sequence(|c| {
                c.spec.activations = Activations {
                    candidate: Activation::Elu { alpha: -1.0 },
                    ..Activations::default()
                }
            }),
            "GruSpec: candidate activation Elu { alpha: -1.0 }: alpha must be finite and not"
        ),
        misuse!(
            "block-features",
            {
                block().forward(zeros([N, T, I + 1]), None);
            },
            "GruBlock::forward: the last dimension of x must be [4], got [5]"
        ),
        misuse!(
            "block-state",
            {
                block().forward(zeros([N, T, I]), Some(zeros([2, N, H])));
            },
            "GruBlock::forward: state [L·D, N, H] must be [1, 2, 5], got [2, 2, 5]"
        ),
        misuse!(
            "block-state-dtype",
            block().forward(zeros([N, T, I]), Some(zeros([1, N, H]).cast(DType::F64))),
            "GruBlock::forward: state must have the dtype of x, expected F32, got F64"
        ),
        #[allow(deprecated)]
        Misuse {
            id: "block-state-device",
            call: Box::new(|| {
                let state = Tensor::zeros([1, N, H], &Device::ndarray());
                let options = SequenceOptions::new().lengths(&[1, 2]).state(state);
                block().forward_with(zeros([N, T, I]), options);
            }),
            says: &["GruBlock::forward_with: state must be on the device of x"],
        },
        misuse!(
            "step-state-dtype",
            block().step(zeros([N, I]), Some(zeros([1, N, H]).cast(DType::F64))),
            "GruBlock::step: state must have the dtype of x, expected F32, got F64"
        ),
        misuse!(
            "block-weight-dtype",
            changed(|layer| layer.w_hh = layer.w_hh.clone().map(|w| w.cast(DType::F64)))
                .forward(zeros([N, T, I]), None),
            "GruBlock::forward: layers.1.w_hh must have the dtype of x, expected F32, got F64"
        ),
        #[allow(deprecated)]
        Misuse {
            id: "block-weight-device",
            call: Box::new(|| {
                changed(|layer| *layer = layer.clone().to_device(&Device::ndarray()))
                    .forward(zeros([N, T, I]), None);
            }),
            says: &[
                "GruBlock::forward: layers.1.w_ih must be on the device of x",
                "Flex",
                "NdArray",
            ],
        },
        misuse!(
            "block-weight-shape",
            changed(|layer| layer.w_hh = Param::from_tensor(zeros([H, 2 * H])))
                .forward(zeros([N, T, I]), None),
            "GruBlock::forward: layers.1.w_hh must be [H, 3H], got [5, 10]"
        ),
        misuse!(
            "block-bias-shape",
            changed(|layer| layer.b_ih = Some(Param::from_tensor(zeros([H]))))
                .step(zeros([N, I]), None),
            "GruBlock::step: layers.1.b_ih [3H] must be [15], got [5]",
            "layers.1.w_hh [H, 3H] is [5, 15]"
        ),
        misuse!(
            "gates-weight-dtype",
            changed(|layer| layer.w_ih = layer.w_ih.clone().map(|w| w.cast(DType::F64)))
                .gates(zeros([N, T, I]), None),
            "GruBlock::gates: layers.1.w_ih must have the dtype of x, expected F32, got F64"
        ),
        misuse!(
            "checkpointing",
            sequence(|c| {
                let device = Device::flex().autodiff();
                c.x = Tensor::zeros([N, T, I], &device);
                c.w.w_hh = Tensor::zeros([H, 3 * H], &device.gradient_checkpointing());
            }),
            "gru_sequence: w_hh must have the gradient checkpointing of x, expected Disabled, got \
             Balanced"
        ),
        misuse!(
            "checkpointing-beside-constants",
            sequence(|c| {
                let device = Device::flex().autodiff();
                c.w.w_ih = Some(Tensor::zeros([I, 3 * H], &device));
                c.h0 = Some(Tensor::zeros([N, H], &device.gradient_checkpointing()));
            }),
            "gru_sequence: h0 must have the gradient checkpointing of w_ih, expected Disabled, got \
             Balanced"
        ),
        misuse!(
            "checkpointing-of-the-steps",
            with(|o| {
                let device = Device::flex().autodiff();
                let mask = Tensor::<2>::zeros([N, T], &device).greater_elem(1);
                let state = Tensor::zeros([N, H], &device.gradient_checkpointing());
                o.mask(mask).state(state)
            }),
            "gru_sequence_with: mask must have the gradient checkpointing of h0, \
             expected Balanced, got Disabled"
        ),
        misuse!(
            "block-checkpointing",
            {
                let device = Device::flex().autodiff();
                let block = GruBlockConfig::new(I, H).init(&device);
                let x = Tensor::zeros([N, T, I], &device.gradient_checkpointing());
                block.forward(x, None)
            },
            "GruBlock::forward: layers.0.w_ih must have the gradient checkpointing of x, expected \
             Balanced, got Disabled"
        ),
        misuse!(
            "block-state-checkpointing",
            {
                let device = Device::flex().autodiff();
                let block = GruBlockConfig::new(I, H).init(&device);
                let state = Tensor::zeros([1, N, H], &device.clone().gradient_checkpointing());
                block.step(Tensor::zeros([N, I], &device), Some(state))
            },
            "GruBlock::step: state must have the gradient checkpointing of x, expected Disabled, \
             got Balanced"
        ),
        misuse!(
            "too-many-layers",
            GruBlockConfig::new(I, H)
                .with_num_layers(usize::MAX)
                .init(&Device::flex()),
            "GruBlockConfig: expected parameters that memory can address, got d_input 4, d_hidden \
             5, num_layers 18446744073709551615"
        ),
        misuse!(
            "too-many-layers-in-both-directions",
            GruBlockConfig::new(I, H)
                .with_num_layers(usize::MAX / 2 + 1)
                .with_bidirectional(true)
                .init(&Device::flex()),
            "GruBlockConfig: expected parameters that memory can address, got"
        ),
        misuse!(
            "too-many-units",
            GruBlockConfig::new(I, usize::MAX / 2).init(&Device::flex()),
            "GruBlockConfig: expected parameters that memory can address, got"
        ),
        misuse!(
            "too-many-inputs",
            GruBlockConfig::new(usize::MAX, H).init(&Device::flex()),
            "GruBlockConfig: expected parameters that memory can address, got"
        ),
        misuse!(
            "per-layer-overflow",
            {
                let config = GruBlockConfig::new(I, H).with_num_layers(usize::MAX);
                let options = config.layer_options();
                config
                    .with_bidirectional(true)
                    .with_per_layer(vec![options; 2])
                    .init(&Device::flex())
            },
            "GruBlockConfig: expected parameters that memory can address, got"
        ),
        misuse!(
            "step-bidirectional",
            {
                let config = GruBlockConfig::new(I, H).with_bidirectional(true);
                config.init(&Device::flex()).step(zeros([N, I]), None);
            },
            "GruBlock::step: expected the forward direction in every layer, got reverse"
        ),
        misuse!(
            "prepared-tracked-state",
            {
                let block = GruBlockConfig::new(I, H).init(&Device::flex());
                let state = Tensor::<3>::zeros([1, N, H], &Device::flex().autodiff());
                let prepared = block.prepare(Precision::Full);
                prepared.step(zeros([N, I]), Some(state));
            },
            "PreparedGru::step: state must be on a device without autodiff"
        ),
        misuse!(
            "restart-layers",
            {
                let state = Tensor::<3>::zeros([2, N, H], &Device::flex());
                let starts = Tensor::<1>::zeros([N], &Device::flex()).bool();
                let start_state = Tensor::<3>::zeros([1, 1, H], &Device::flex());
                restart(state, starts, Some(start_state));
            },
            "restart: start_state [L·D, N, H] or [L·D, 1, H] must be [2, 1, ",
            "got [1, 1, "
        ),
        misuse!(
            "no-hidden-units",
            {
                GruBlockConfig::new(I, 0).init(&Device::flex());
            },
            "GruBlockConfig: d_hidden must be positive, expected > 0, got 0"
        ),
    ]
}

/// The checks run before the backend is called, so one backend represents all.
pub fn trials(_: &[TestBackend]) -> Vec<Trial> {
    let trial = |misuse: Misuse| {
        Trial::test(format!("misuse/{}", misuse.id), move || {
            let text = panic_text(misuse.call)?;
            match misuse.says.iter().find(|part| !text.contains(**part)) {
                None => Ok(()),
                Some(part) => Err(format!("expected {part:?} in {text:?}").into()),
            }
        })
    };
    all().into_iter().map(trial).collect()
}
