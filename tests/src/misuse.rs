//! Invalid calls panic before any work. The panic names the operation, the expected shape and the actual
//! shape.

use super::backends::TestBackend;
use burn::tensor::{DType, Device, Tensor};
use gru_op::{
    Activation, Activations, GruSpec, GruWeights, Layout, SequenceOptions, gru_cell, gru_sequence,
    gru_sequence_with, restart,
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
    call: fn(),
    says: &'static [&'static str],
}

fn zeros<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    Tensor::zeros(shape, &Device::flex())
}

/// A device of another backend than [`zeros`].
#[allow(deprecated)]
fn ndarray() -> Device {
    Device::ndarray()
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
        Misuse { id: $id, call: || {
            let _ = $call;
        }, says: &[$($says),+] }
    };
}

// After the macro, which they use.
mod block;
mod foreign;

const SEQUENCES: &[Misuse] = &[
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
        "x-features",
        sequence(|c| c.x = zeros([N, T, I + 1])),
        "gru_sequence: w_ih [I, 3H] must be [5, 15], got [4, 15]",
        "N is 2, T is 3, x has 5 features, w_hh [H, 3H] is [5, 15]"
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
        "N is 3, T is 2, x has 4 features"
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
    misuse!(
        "device",
        sequence(|c| c.h0 = Some(Tensor::zeros([N, H], &ndarray()))),
        "gru_sequence: h0 must be on the device of x",
        "Flex",
        "NdArray"
    ),
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
];

/// The checks run before the backend is called, so one backend represents all.
pub fn trials(_: &[TestBackend]) -> Vec<Trial> {
    let trial = |misuse: &'static Misuse| {
        Trial::test(format!("misuse/{}", misuse.id), move || {
            let text = panic_text(misuse.call)?;
            match misuse.says.iter().find(|part| !text.contains(**part)) {
                None => Ok(()),
                Some(part) => Err(format!("expected {part:?} in {text:?}").into()),
            }
        })
    };
    [SEQUENCES, block::ALL, foreign::ALL]
        .into_iter()
        .flatten()
        .map(trial)
        .collect()
}
