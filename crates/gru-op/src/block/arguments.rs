//! The shapes and directions that calls of a block require.

use super::GruError;
use crate::op::{check::Check, options::SequenceOptions};
use burn::tensor::Tensor;
use gru_spec::Direction;

/// Checks the arguments of a sequence for a block with these sizes: I, H and L·D.
pub(super) fn check_sequence<const D: usize>(
    op: &str,
    x: &Tensor<D>,
    [first, second, features]: [usize; 3],
    options: &SequenceOptions<3>,
    [d_input, d_hidden, layers]: [usize; 3],
) {
    let layout = options.order.layout;
    let [n, t] = options.padding.batch(layout, [first, second]);
    let because = || {
        format!(
            "N is {n}, T is {t}, x has {features} features, and the block has d_input {d_input}, d_hidden {d_hidden} \
             and {layers} layers times directions"
        )
    };
    let mut check = Check::new(op, ("x", x), &because);
    check.features("x", features, d_input);
    let state = [layers, n, d_hidden];
    check.argument("state", "[L·D, N, H]", options.state.as_ref(), state);
    check.padding(&options.padding, layout, [n, t]);
    let state = ("[L·D, N, H] or [L·D, 1, H]", state);
    check.starts(&options.starts, layout, [n, t], state);
}

/// Panics if a layer has the reverse direction.
pub(super) fn expect_forward(op: &str, layers: impl Iterator<Item = Direction>) {
    if let Err(error) = try_forward(op, layers) {
        panic!("{error}");
    }
}

/// Returns an error if a layer has the reverse direction.
pub(super) fn try_forward(
    op: &str,
    mut layers: impl Iterator<Item = Direction>,
) -> Result<(), GruError> {
    if layers.all(|direction| direction == Direction::Forward) {
        return Ok(());
    }
    let reason = format!(
        "{op}: expected the forward direction in every layer, got reverse, which requires the whole sequence"
    );
    Err(GruError::Config { reason })
}
