//! The weights of a `GRU` node.

use super::{graph::Graph, gru::Call, trace::Constant};
use burn::{
    backend::ir::TensorIr,
    tensor::{DType, TensorData},
};
use gru_op::Update;

/// ONNX' gates are z, r, n. gru-op's gates are r, z, n.
const GATES: [usize; 3] = [1, 0, 2];

/// `W [D,3H,I]`, `R [D,3H,H]` and `B [D,6H]`, which may be absent.
pub fn weights(g: &mut Graph<'_>, calls: &[Call]) -> Result<[String; 3], String> {
    let (first, h) = (&calls[0].recorded.inputs, calls[0].units());
    let is_double = first.sequence.x.dtype == DType::F64;
    let dtype = if is_double { DType::F64 } else { DType::F32 };
    let [mut w, mut r, mut b] = [(); 3].map(|()| Vec::new());
    let mut has_bias = false;
    for call in calls {
        let weights = &call.recorded.inputs.weights;
        let negated = call.recorded.spec.update == Update::Takes;
        w.extend(rows(g, weights.w_ih.as_ref(), h, negated)?);
        r.extend(rows(g, Some(&weights.w_hh), h, negated)?);
        b.extend(rows(g, weights.b_ih.as_ref(), h, negated)?);
        b.extend(rows(g, weights.b_hh.as_ref(), h, negated)?);
        has_bias |= weights.b_ih.is_some() || weights.b_hh.is_some();
    }
    let (d, path) = (calls.len(), &calls[0].path);
    let i = w.len() / (d * 3 * h);
    let mut store = |name: &str, values: Vec<f64>, shape: Vec<usize>| {
        let data = TensorData::new(values, shape).convert_dtype(dtype);
        g.data(&format!("{path}.{name}"), &data)
    };
    let w = store("W", w, vec![d, 3 * h, i])?;
    let r = store("R", r, vec![d, 3 * h, h])?;
    let b = has_bias
        .then(|| store("B", b, vec![d, 6 * h]))
        .transpose()?;
    Ok([w, r, b.unwrap_or_default()])
}

/// A matrix `[width,3H]`, transposed to `[3H,width]`, with ONNX' order of gates. A bias has one row, and is zero if it
/// is absent. With z negated, the rule h = (1−z)·h + z·n becomes h = z·h + (1−z)·n.
fn rows(
    g: &Graph<'_>,
    tensor: Option<&TensorIr>,
    h: usize,
    negated: bool,
) -> Result<Vec<f64>, String> {
    let Some(tensor) = tensor else {
        return Ok(vec![0.0; 3 * h]);
    };
    let constant = g.trace.constants.get(&tensor.id);
    let Some(Constant { data, .. }) = constant.filter(|constant| constant.data.len() == 1) else {
        return Err("expected weights that are parameters, got computed weights".into());
    };
    let values: Vec<f64> = data[0].iter().collect();
    let mut rows = Vec::with_capacity(values.len());
    for gate in GATES {
        let sign = if negated && gate == 1 { -1.0 } else { 1.0 };
        for unit in gate * h..(gate + 1) * h {
            let column = values.iter().skip(unit).step_by(3 * h);
            rows.extend(column.map(|value| sign * value));
        }
    }
    Ok(rows)
}
