//! Float64 references in PyTorch's layout with both reset forms, through the operator.

use burn::tensor::{DType, Device};
use gru_op::gru_sequence_with;
use gru_testkit::{
    close::{Outcome, Tensors},
    conformance::{Case, transposed},
};

use super::super::{runs, vectors};

/// In float32, with the names and the layout of the file.
pub fn run(case: &Case, device: &Device) -> Result<Outcome, String> {
    let (problem, inputs, _) = vectors::grad_f64(case, "");
    let mut got = runs::sequence(gru_sequence_with, &problem, &inputs, device, DType::F32)?;
    let y = got.outputs.remove("y").expect("a sequence has an output");
    for (name, inputs) in [("w_ih", problem.i), ("w_hh", problem.h)] {
        let gradient = got
            .gradients
            .get_mut(name)
            .expect("every weight has a gradient");
        *gradient = transposed(gradient, inputs, 3 * problem.h);
    }
    // The file has no separate final state. It is the last state of `h`.
    let last = got.outputs.remove("h_t").expect("a sequence has a state");
    if y[y.len() - last.len()..] != last {
        return Err("expected the final state to equal the last output".into());
    }
    got.outputs = Tensors::from([("h".into(), y)]);
    Ok(got)
}

/// In float64, with expected values in full precision.
pub fn run_in_float64(case: &Case, device: &Device) -> Result<(Outcome, Outcome), String> {
    let (problem, inputs, expected) = vectors::grad_f64(case, ".f64");
    let got = runs::sequence(gru_sequence_with, &problem, &inputs, device, DType::F64)?;
    Ok((got, expected))
}
