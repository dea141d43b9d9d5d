//! What autodiff tracks: only the requested inputs, with accumulation where a weight is used twice.

use super::{
    backends::TestBackend,
    operator::{Way, outputs},
    runs::{self, Leaves, loss, values},
};
use burn::tensor::{DType, Device, Tensor};
use gru_op::{GruWeights, SequenceOptions, gru_sequence_with};
use gru_testkit::{
    case::Case,
    close::{Tensors, Tolerance, close},
    draw::Drawn,
    panics::panic_text,
};
use libtest_mimic::Trial;

type Test = fn(&Device, DType, Tolerance) -> Result<(), String>;

const TESTS: &[(&str, Test)] = &[
    ("each-parent-by-itself", each_parent_by_itself),
    ("nothing-tracked", nothing_tracked),
    ("weight-used-twice", weight_used_twice),
    ("second-backward", second_backward),
];

/// Every test on every backend, in its widest type.
pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for &backend in backends {
        let (dtype, on_cpu) = if backend.float64 {
            (DType::F64, Tolerance::F64)
        } else {
            (DType::F32, Tolerance::F32)
        };
        for &(name, test) in TESTS {
            let id = format!("tracking/{name}/{}", backend.id(dtype));
            let tolerance = backend.tolerance(on_cpu);
            trials.push(backend.trial(id, move |device| test(device, dtype, tolerance)));
        }
    }
    trials
}

fn cases() -> [Drawn; 2] {
    ["N3 H6", "N3 H6 before time"].map(|words| Case::new(words).draw())
}

/// Names of the inputs with a gradient, in the operator's order.
const NAMES: [&str; 6] = ["x", "h0", "w_ih", "w_hh", "b_ih", "b_hh"];

/// Inputs of a case. Only the inputs in `track` are leaves.
fn leaves(drawn: &Drawn, device: &Device, dtype: DType, track: impl Fn(&str) -> bool) -> Leaves {
    let all = Leaves::new(drawn, device, dtype);
    fn keep<const D: usize>(tracked: bool, tensor: Tensor<D>) -> Tensor<D> {
        if tracked {
            tensor
        } else {
            // `detach` would keep the tensor as a tracked leaf.
            tensor.set_require_grad(false)
        }
    }
    Leaves {
        x: keep(track("x"), all.x),
        h0: all.h0.map(|h0| keep(track("h0"), h0)),
        start_state: None,
        weights: GruWeights::new(
            all.weights.w_ih.map(|w| keep(track("w_ih"), w)),
            keep(track("w_hh"), all.weights.w_hh),
        )
        .with_b_ih(all.weights.b_ih.map(|b| keep(track("b_ih"), b)))
        .with_b_hh(all.weights.b_hh.map(|b| keep(track("b_hh"), b))),
    }
}

/// The loss of both outputs.
fn total(leaves: &Leaves, drawn: &Drawn) -> Result<Tensor<1>, String> {
    let (y, h_t) = outputs(drawn, Way::default(), leaves)?;
    Ok(loss(&y, &drawn.d_y) + loss(&h_t, &drawn.d_h_t))
}

/// The gradients of the leaves that have one.
fn gradients(leaves: &Leaves, drawn: &Drawn) -> Result<Tensors, String> {
    leaves.gradients(&total(leaves, drawn)?.backward())
}

fn same(got: &Tensors, expected: &Tensors, tolerance: f64) -> Result<(), String> {
    if !got.keys().eq(expected.keys()) {
        let (got, expected) = (got.keys(), expected.keys());
        return Err(format!("expected gradients of {expected:?}, got {got:?}"));
    }
    for (name, expected) in expected {
        close(
            &format!("gradient of {name}"),
            &got[name],
            expected,
            tolerance,
        )?;
    }
    Ok(())
}

/// With one tracked input, only this input has a gradient.
fn each_parent_by_itself(
    device: &Device,
    dtype: DType,
    tolerance: Tolerance,
) -> Result<(), String> {
    for drawn in cases() {
        let all = leaves(&drawn, device, dtype, |_| true);
        let expected = gradients(&all, &drawn)?;
        for name in NAMES {
            let one = leaves(&drawn, device, dtype, |n| n == name);
            let got = gradients(&one, &drawn)?;
            let only = Tensors::from([(name.into(), expected[name].clone())]);
            same(&got, &only, tolerance.gradient)?;
        }
    }
    Ok(())
}

/// On an autodiff device without a tracked input, the results equal the results of the plain device, and
/// the output is a constant.
fn nothing_tracked(device: &Device, dtype: DType, tolerance: Tolerance) -> Result<(), String> {
    for drawn in cases() {
        let constant = leaves(&drawn, device, dtype, |_| false);
        let (y, h_t) = outputs(&drawn, Way::default(), &constant)?;
        if y.is_tracked() || h_t.is_tracked() {
            return Err("expected an untracked output".into());
        }
        let (plain_y, plain_h_t) = outputs(&drawn, Way::default(), &constant.inner())?;
        close("y", &values(y), &values(plain_y), tolerance.forward)?;
        close("h_t", &values(h_t), &values(plain_h_t), tolerance.forward)?;
    }
    Ok(())
}

/// Two sequences with shared weights. The second starts from the final state of the first.
fn weight_used_twice(device: &Device, dtype: DType, tolerance: Tolerance) -> Result<(), String> {
    for words in ["N3 T10 H6", "N3 T10 H6 before time"] {
        let case = Case::new(words);
        let (drawn, half) = (case.draw(), case.sizes.t / 2);
        let all = leaves(&drawn, device, dtype, |_| true);
        let expected = gradients(&all, &drawn)?;
        let time_dim = case.order.layout.time_dim();
        let halves =
            |tensor: &Tensor<3>| [0, half].map(|at| tensor.clone().narrow(time_dim, at, half));
        let [first, second] = halves(&all.x);
        let part = |x, state| {
            let options = SequenceOptions::new().layout(case.order.layout);
            gru_sequence_with(x, &all.weights, &case.spec, options.state(state))
        };
        let (y_1, carried) = part(first, all.h0.clone());
        let (y_2, h_t) = part(second, Some(carried));
        let shape = case.sizes.sequence(case.order.layout, case.sizes.h);
        let shape = shape[..].try_into().expect("three sizes");
        let d_y = runs::tensor(&drawn.d_y, shape, device, dtype);
        let [d_1, d_2] = halves(&d_y).map(values);
        let total = loss(&y_1, &d_1) + loss(&y_2, &d_2) + loss(&h_t, &drawn.d_h_t);
        let got = all.gradients(&total.backward())?;
        same(&got, &expected, tolerance.gradient)?;
    }
    Ok(())
}

/// Burn consumes a graph in backward. A second backward fails as for Burn's own operations and never
/// gives other results.
fn second_backward(device: &Device, dtype: DType, _: Tolerance) -> Result<(), String> {
    for drawn in cases() {
        let all = leaves(&drawn, device, dtype, |_| true);
        let of_second = |loss: Tensor<1>| {
            loss.backward();
            panic_text(|| loss.backward())
        };
        let leaf = Tensor::<1>::ones([3], (&all.x.device(), dtype)).require_grad();
        let theirs = of_second((leaf.clone() * leaf).sum())?;
        let ours = of_second(total(&all, &drawn)?)?;
        let start = theirs.split(" at ").next().unwrap_or(&theirs);
        if !ours.starts_with(start) {
            return Err(format!("expected Burn's error {theirs:?}, got {ours:?}"));
        }
    }
    Ok(())
}
