//! The shapes that every call of a block requires.

use crate::op::{check::Check, options::SequenceOptions};
use burn::tensor::Tensor;
use gru_spec::Layout;

/// The sizes of a block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// I.
    pub(super) d_input: usize,
    /// H.
    pub(super) d_hidden: usize,
    /// L·D.
    pub(super) layers: usize,
}

impl Sizes {
    /// Checks the arguments of a sequence.
    pub(super) fn check_sequence(
        &self,
        op: &str,
        x: &Tensor<3>,
        layout: Layout,
        options: &SequenceOptions<3>,
    ) {
        let [first, second, _] = x.dims();
        let because = || self.explain(&x.dims());
        let mut check = Check::new(op.into(), ("x", x), &because);
        let [n, t] = options.padding.batch(layout, [first, second]);
        let [_, _, features] = x.dims();
        check.features("x", features, self.d_input);
        let state = [self.layers, n, self.d_hidden];
        check.argument("state", "[L·D, N, H]", options.state.as_ref(), state);
        check.padding(&options.padding, layout, [n, t]);
        let state = ("[L·D, N, H] or [L·D, 1, H]", state);
        check.starts(&options.starts, layout, [n, t], state);
    }

    fn explain(&self, x: &[usize]) -> String {
        let Self {
            d_input,
            d_hidden,
            layers,
        } = self;
        format!(
            "x is {x:?}, and the block has d_input {d_input}, d_hidden {d_hidden} and {layers} layers times \
             directions"
        )
    }
}
