//! Invalid calls panic before any work. The panic names the operation, the expected shape and the actual shape. One call
//! for each kind of error: `gru_spec` lists the shapes of all inputs, and one function checks them.

mod block;
mod foreign;

use super::backends::{TestBackend, other_device};
use burn::tensor::{DType, Device, Tensor};
use gru_op::{
    GruSpec, GruWeights, Layout, SequenceOptions, gru_cell, gru_packed, gru_sequence,
    gru_sequence_with, pack, restart, starts_after, unpack,
};
use gru_testkit::panics::panic_text;
use libtest_mimic::Trial;

const N: usize = 2;
const T: usize = 3;
const I: usize = 4;
const H: usize = 5;

/// An invalid call, and its error. Between `…`, the error may have any text. `OTHER` is [`other_device`].
type Misuse = (fn(), &'static str);

/// The checks run before the backend is called, so one backend represents all.
pub fn trials(_: &[TestBackend]) -> Vec<Trial> {
    let groups = [
        ("sequence", SEQUENCE),
        ("packed", PACKED),
        ("state", STATE),
        ("config", block::CONFIG),
        ("block", block::BLOCK),
        ("foreign", foreign::ALL),
    ];
    let trial = |(name, misuses): (&str, &'static [Misuse])| {
        Trial::test(format!("misuse/{name}"), move || {
            let failed = misuses.iter().filter_map(|misuse| check(misuse).err());
            let failed: Vec<String> = failed.collect();
            if failed.is_empty() {
                Ok(())
            } else {
                Err(failed.join("\n").into())
            }
        })
    };
    groups.map(trial).into()
}

fn check(&(call, says): &Misuse) -> Result<(), String> {
    let text = panic_text(call).map_err(|error| format!("{says}: {error}"))?;
    let says = says.replace("OTHER", &format!("{:?}", other_device()));
    match says.split('…').find(|part| !text.contains(part)) {
        None => Ok(()),
        Some(part) => Err(format!("expected {part:?} in {text:?}")),
    }
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

fn packed(lengths: &[usize], change: impl FnOnce(SequenceOptions<2>) -> SequenceOptions<2>) {
    let options = change(SequenceOptions::new());
    gru_packed(
        zeros([5, I]),
        lengths,
        &weights(),
        &GruSpec::default(),
        options,
    );
}

const SEQUENCE: &[Misuse] = &[
    (
        || with(|o| o.lengths(&[1])),
        "gru_sequence_with: lengths [N] must be [2], got [1]",
    ),
    (
        || with(|o| o.lengths(&[3, 4])),
        "gru_sequence_with: lengths[1] must be at most T, expected 0 to 3, got 4",
    ),
    (
        || with(|o| o.mask(zeros([T, N]).greater_elem(1))),
        "gru_sequence_with: mask [N, T] must be [2, 3], got [3, 2]",
    ),
    (
        || with(|o| o.lengths(&[3, 2]).mask(zeros([N, T]).greater_elem(1))),
        "SequenceOptions: expected lengths or a mask, got both",
    ),
    (
        || with(|o| o.mask(zeros([N, T]).greater_elem(1)).lengths(&[3, 2])),
        "SequenceOptions: expected lengths or a mask, got both",
    ),
    (
        || with(|o| o.zoneout(zeros([N, T, 2]))),
        "gru_sequence_with: zoneout [N, T, H] or [N, T, 1] must be [2, 3, 5], got [2, 3, 2]",
    ),
    (
        || with(|o| o.start_state(zeros([N, H]))),
        "gru_sequence_with: start_state requires starts, expected a tensor, got none",
    ),
    (
        || {
            let starts = zeros([N, T]).greater_elem(1);
            with(|o| o.starts(starts).start_state(zeros([3, H])))
        },
        "gru_sequence_with: start_state [N, H] or [1, H] must be [2, 5], got [3, 5]",
    ),
    (
        || with(|o| o.recurrent_mask(zeros([N, H]).cast(DType::F64))),
        "gru_sequence_with: recurrent_mask must have the dtype of x, expected F32, got F64",
    ),
    (
        || sequence(|c| c.w.w_ih = None),
        "gru_sequence: the last dimension of x, 3H without w_ih, must be [15], got [4]",
    ),
    (
        || sequence(|c| c.x = zeros([N, T, I + 1])),
        "gru_sequence: w_ih [I, 3H] must be [5, 15], got [4, 15]…\
         N is 2, T is 3, x has 5 features, w_hh [H, 3H] is [5, 15]",
    ),
    (
        || with(|o| o.state(zeros([N, H])).layout(Layout::TimeMajor)),
        "gru_sequence_with: h0 [N, H] must be [3, 5], got [2, 5]…N is 3, T is 2, x has 4 features",
    ),
    (
        || sequence(|c| c.w.w_hh = zeros([H, 4 * H])),
        "gru_sequence: w_hh must be [H, 3H], got [5, 20]",
    ),
    (
        || sequence(|c| c.w.b_hh = Some(zeros([3 * H + 1]))),
        "gru_sequence: b_hh [3H] must be [15], got [16]",
    ),
    (
        || sequence(|c| c.h0 = Some(Tensor::zeros([N, H], &other_device()))),
        "gru_sequence: h0 must be on the device of x…Flex…OTHER",
    ),
    (
        || {
            sequence(|c| {
                c.h0 = None;
                c.x = zeros([1, 1, 1]).expand([1usize << 40, 1 << 20, 1]);
                c.w.w_ih = Some(zeros([1, 3 * H]));
            })
        },
        "gru_sequence: a buffer of…does not fit in memory",
    ),
    (
        || {
            sequence(|c| {
                c.h0 = None;
                c.x = zeros([0, 1 << 58, I]);
            })
        },
        "gru_sequence: a buffer of [0, 288230376151711744, 20] elements does not fit in memory",
    ),
    (
        || sequence(|c| c.spec.clip_gates = Some(0.0)),
        "GruSpec: clip_gates must be positive, expected > 0, got 0",
    ),
    (
        || {
            with(|o| {
                let device = Device::flex().autodiff();
                let mask = Tensor::<2>::zeros([N, T], &device).greater_elem(1);
                let state = Tensor::zeros([N, H], &device.gradient_checkpointing());
                o.mask(mask).state(state)
            })
        },
        "gru_sequence_with: mask must have the gradient checkpointing of h0, expected Balanced, \
         got Disabled",
    ),
];

const PACKED: &[Misuse] = &[
    (
        || packed(&[3, 1], |o| o),
        "gru_packed: the sum of lengths must be M = 5, got 4; x [M, I] is [5, 4]",
    ),
    (
        || packed(&[usize::MAX, 2], |o| o),
        "gru_packed: the sum of lengths must be M = 5, got more than a usize",
    ),
    (
        || packed(&[3, 2], |o| o.lengths(&[3, 2])),
        "gru_packed: lengths, mask, starts and zoneout require padded rows",
    ),
    (
        || packed(&[3, 2], |o| o.layout(Layout::TimeMajor)),
        "gru_packed: layout must be BatchMajor",
    ),
    (
        || drop(pack(zeros([2, 3, 1]), &[1, 4])),
        "pack: lengths[1] must be at most T, expected 0 to 3, got 4",
    ),
    (
        || drop(unpack(zeros([5, 1]), &[4])),
        "unpack: the sum of lengths must be M = 5, got 4",
    ),
];

const STATE: &[Misuse] = &[
    (
        || {
            let h = Some(zeros([N + 1, H]));
            gru_cell(zeros([N, I]), h, &weights(), &GruSpec::default());
        },
        "gru_cell: h [N, H] must be [2, 5], got [3, 5]",
    ),
    (
        || {
            let first = zeros([N + 1]).greater_elem(1);
            starts_after(zeros([N, T]).greater_elem(1), first);
        },
        "starts_after: first [N] must be [2], got [3]; dones [N, T] is [2, 3]",
    ),
    (
        || drop(restart(zeros([1, N, H]), zeros([T]).greater_elem(1), None)),
        "restart: starts [N] must be [2], got [3]; state [L·D, N, H] is [1, 2, 5]",
    ),
    (
        || {
            let starts = zeros([N]).greater_elem(1);
            restart(zeros([2, N, H]), starts, Some(zeros([1, 1, H])));
        },
        "restart: start_state [L·D, N, H] or [L·D, 1, H] must be [2, 1, …got [1, 1, ",
    ),
];
