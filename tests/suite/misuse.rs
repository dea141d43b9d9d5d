//! Misuse panics at once and says the operation, the expected shape and the actual one.

use super::backends::TestBackend;
use burn::tensor::{DType, Device, Tensor};
use gru_op::{
    Activation, Activations, GruBlockConfig, GruSpec, GruWeights, Layout, gru_cell, gru_sequence,
};
use libtest_mimic::Trial;
use std::panic::{AssertUnwindSafe, catch_unwind};

const N: usize = 2;
const T: usize = 3;
const I: usize = 4;
const H: usize = 5;

/// A wrong call, and what its panic must say.
struct Misuse {
    id: &'static str,
    call: Box<dyn FnOnce() + Send>,
    says: &'static [&'static str],
}

fn zeros<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    Tensor::zeros(shape, &Device::flex())
}

fn weights() -> GruWeights {
    GruWeights {
        w_ih: Some(zeros([I, 3 * H])),
        w_hh: zeros([H, 3 * H]),
        b_ih: Some(zeros([3 * H])),
        b_hh: Some(zeros([3 * H])),
    }
}

/// The arguments of a right call, of which a misuse changes one.
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

macro_rules! misuse {
    ($id:literal, $call:expr, $($says:literal),+) => {
        Misuse { id: $id, call: Box::new(|| $call), says: &[$($says),+] }
    };
}

fn all() -> Vec<Misuse> {
    fn block() -> gru_op::GruBlock {
        GruBlockConfig::new(I, H).init(&Device::flex())
    }
    vec![
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
            sequence(|c| c.spec = c.spec.with_layout(Layout::TimeMajor)),
            "gru_sequence: h0 [N, H] must be [3, 5], got [2, 5]",
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
            "gru_sequence: b_hh [3H] or [H] must be [15], got [16]"
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
            "larger than memory can be addressed"
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
            "gru_cell: h0 [N, H] must be [2, 5], got [3, 5]"
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
            "step-bidirectional",
            {
                let config = GruBlockConfig::new(I, H).with_bidirectional(true);
                config.init(&Device::flex()).step(zeros([N, I]), None);
            },
            "GruBlock::step: expected layers that walk time forward, got one in reverse"
        ),
        misuse!(
            "no-hidden-units",
            {
                GruBlockConfig::new(I, 0).init(&Device::flex());
            },
            "GruBlockConfig: d_hidden must be positive, expected > 0, got 0"
        ),
        misuse!(
            "dropout",
            {
                let config = GruBlockConfig::new(I, H).with_dropout(1.5);
                config.init(&Device::flex());
            },
            "GruBlockConfig: dropout must be a probability, expected 0 to below 1, got 1.5"
        ),
    ]
}

/// The checks run before any backend does, so one backend stands for all.
pub fn trials(_: &[TestBackend]) -> Vec<Trial> {
    let trial = |misuse: Misuse| {
        Trial::test(format!("misuse/{}", misuse.id), move || {
            let panic = catch_unwind(AssertUnwindSafe(misuse.call))
                .err()
                .ok_or("the call was accepted")?;
            let text = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()))
                .ok_or("the panic has no text")?;
            match misuse.says.iter().find(|part| !text.contains(**part)) {
                None => Ok(()),
                Some(part) => Err(format!("expected {part:?} in {text:?}").into()),
            }
        })
    };
    all().into_iter().map(trial).collect()
}
