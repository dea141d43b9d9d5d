//! oneDNN's GRU and LBR-GRU in its plain layout `ldigo`: `weights_layer [L,D,I,3,H]`,
//! `weights_iter [L,D,H,3,H]`, `bias [L,D,3,H]` or, for LBR (linear before reset), `[L,D,4,H]`
//! with the candidate's recurrent bias last. Gates u, r, o: z, r, n here.
//!
//! oneDNN takes layers above the first only where I = H; stacks of other shapes are several
//! primitives there and several calls here.
//! Source: <https://uxlfoundation.github.io/oneDNN/dev_guide_rnn.html>.

use super::{ConvertError, GateOrder, StateDict, both_biases, expect_shape, w_ih};
use crate::{GruWeights, spec::Reset};
use burn::tensor::{Device, Tensor};

const SYSTEM: &str = "oneDNN";
const ORDER: GateOrder = GateOrder::UpdateFirst;

/// The weights of all layers and directions, at `l·D + d`: the vanilla GRU with
/// [`Reset::BeforeMatmul`], LBR with [`Reset::AfterMatmul`].
///
/// # Errors
/// If a key is missing or unexpected, or an array has not the shape or dtype of such a primitive.
pub fn import(
    dict: &StateDict,
    prefix: &str,
    reset: Reset,
    device: &Device,
) -> Result<Vec<GruWeights>, ConvertError> {
    dict.expect_only(
        prefix,
        &["weights_layer", "weights_iter", "bias"],
        "a GRU has weights_layer, weights_iter and bias",
    )?;
    let key = |name: &str| format!("{prefix}{name}");
    let [layers, directions, i, _, h] = dict.shape(&key("weights_layer"))?;
    let biases = biases(reset);
    let shape = |rows| [layers, directions, rows, 3, h];
    let w_layer = dict.tensor(&key("weights_layer"), shape(i), device)?;
    let w_iter = dict.tensor(&key("weights_iter"), shape(h), device)?;
    let bias = dict.tensor(&key("bias"), [layers, directions, biases, h], device)?;
    let weights = (0..layers).flat_map(|l| (0..directions).map(move |d| (l, d)));
    Ok(weights
        .map(|(l, d)| {
            let matrix = |w: &Tensor<5>, rows: usize| {
                let one = w.clone().narrow(0, l, 1).narrow(1, d, 1);
                ORDER.reorder(one.reshape([rows, 3 * h]), 1, 1)
            };
            let one: Tensor<1> = bias
                .clone()
                .narrow(0, l, 1)
                .narrow(1, d, 1)
                .reshape([biases * h]);
            GruWeights {
                w_ih: Some(matrix(&w_layer, i)),
                w_hh: matrix(&w_iter, h),
                b_ih: Some(ORDER.reorder(one.clone().narrow(0, 0, 3 * h), 0, 1)),
                b_hh: (reset == Reset::AfterMatmul).then(|| one.narrow(0, 3 * h, h)),
            }
        })
        .collect())
}

/// The three arrays of these weights, given at `l·D + d`, for `directions` directions. Whatever
/// bias the primitive has no place for is added to one that it has.
///
/// # Errors
/// If the weights do not fill whole layers, differ in shape, or have no `w_ih`; or if a tensor
/// cannot be read back from its device.
pub fn export(
    weights: &[GruWeights],
    prefix: &str,
    directions: usize,
    reset: Reset,
) -> Result<StateDict, ConvertError> {
    let count = |expected, actual| ConvertError::Count {
        what: "weights of layers times directions",
        expected,
        actual,
    };
    if directions == 0 || weights.is_empty() || !weights.len().is_multiple_of(directions) {
        let whole = weights.len().next_multiple_of(directions.max(1));
        return Err(count(whole.max(1), weights.len()));
    }
    let [h, gates] = weights[0].w_hh.dims();
    let [i, _] = w_ih(SYSTEM, &weights[0])?.dims();
    let (mut layer, mut iter, mut bias) = (Vec::new(), Vec::new(), Vec::new());
    for one in weights {
        let input = w_ih(SYSTEM, one)?;
        expect_shape("w_ih", &[i, gates], &input.dims())?;
        expect_shape("w_hh", &[h, gates], &one.w_hh.dims())?;
        layer.push(ORDER.reorder(input, 1, 1));
        iter.push(ORDER.reorder(one.w_hh.clone(), 1, 1));
        let zeros = || Tensor::zeros([gates], (&one.w_hh.device(), one.w_hh.dtype()));
        let (b_ih, b_hh) = both_biases(one).unwrap_or_else(|| (zeros(), zeros()));
        bias.push(match reset {
            Reset::BeforeMatmul => ORDER.reorder(b_ih + b_hh, 0, 1),
            Reset::AfterMatmul => {
                let rz = (b_ih.clone() + b_hh.clone()).narrow(0, 0, 2 * h);
                let sum = Tensor::cat(vec![rz, b_ih.narrow(0, 2 * h, h)], 0);
                let own = b_hh.narrow(0, 2 * h, h);
                Tensor::cat(vec![ORDER.reorder(sum, 0, 1), own], 0)
            }
        });
    }
    let layers = weights.len() / directions;
    let mut dict = StateDict::new();
    let mut put = |name: &str, parts: Vec<Tensor<2>>, rows: usize| {
        let all: Tensor<3> = Tensor::stack(parts, 0);
        let key = format!("{prefix}{name}");
        dict.put(key, all.reshape([layers, directions, rows, 3, h]))
    };
    put("weights_layer", layer, i)?;
    put("weights_iter", iter, h)?;
    let bias: Tensor<2> = Tensor::stack(bias, 0);
    let bias = bias.reshape([layers, directions, biases(reset), h]);
    dict.put(format!("{prefix}bias"), bias)?;
    Ok(dict)
}

/// Rows of the bias.
fn biases(reset: Reset) -> usize {
    match reset {
        Reset::AfterMatmul => 4,
        Reset::BeforeMatmul => 3,
    }
}
