//! Where the gradients of a call go.

use super::{Dims, Inputs, check_len};

/// Where the gradients go: only those asked for are computed. Shapes are those of the inputs.
///
/// ```
/// let mut d_w_hh = vec![0.0f32; 4 * 3 * 4];
/// let to = gru_cpu::Gradients::none().with_w_hh(Some(&mut d_w_hh));
/// # let _ = to;
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Gradients<'a, E> {
    /// Of the sequence.
    pub x: Option<&'a mut [E]>,
    /// Of the initial state.
    pub h0: Option<&'a mut [E]>,
    /// Of the input weight.
    pub w_ih: Option<&'a mut [E]>,
    /// Of the recurrent weight.
    pub w_hh: Option<&'a mut [E]>,
    /// Of the input product's bias.
    pub b_ih: Option<&'a mut [E]>,
    /// Of the recurrent product's bias.
    pub b_hh: Option<&'a mut [E]>,
}

impl<'a, E> Gradients<'a, E> {
    /// Of nothing.
    pub fn none() -> Self {
        Self {
            x: None,
            h0: None,
            w_ih: None,
            w_hh: None,
            b_ih: None,
            b_hh: None,
        }
    }

    /// Asks for that of the sequence.
    pub fn with_x(self, x: Option<&'a mut [E]>) -> Self {
        Self { x, ..self }
    }

    /// Asks for that of the initial state.
    pub fn with_h0(self, h0: Option<&'a mut [E]>) -> Self {
        Self { h0, ..self }
    }

    /// Asks for that of the input weight.
    pub fn with_w_ih(self, w_ih: Option<&'a mut [E]>) -> Self {
        Self { w_ih, ..self }
    }

    /// Asks for that of the recurrent weight.
    pub fn with_w_hh(self, w_hh: Option<&'a mut [E]>) -> Self {
        Self { w_hh, ..self }
    }

    /// Asks for that of the input product's bias.
    pub fn with_b_ih(self, b_ih: Option<&'a mut [E]>) -> Self {
        Self { b_ih, ..self }
    }

    /// Asks for that of the recurrent product's bias.
    pub fn with_b_hh(self, b_hh: Option<&'a mut [E]>) -> Self {
        Self { b_hh, ..self }
    }
}

impl<E> Gradients<'_, E> {
    /// # Panics
    /// If a slice has not the length of its input, or a gradient is asked for an input that is
    /// absent.
    pub(super) fn check(&self, op: &str, dims: &Dims, inputs: &Inputs<'_, E>) {
        let Dims { n, i, h, .. } = *dims;
        check_len(
            op,
            "gradient of x",
            self.x.as_deref(),
            inputs.sequence.x.len(),
        );
        check_len(op, "gradient of h0", self.h0.as_deref(), n * h);
        check_len(op, "gradient of w_ih", self.w_ih.as_deref(), i * 3 * h);
        check_len(op, "gradient of w_hh", self.w_hh.as_deref(), h * 3 * h);
        check_len(op, "gradient of b_ih", self.b_ih.as_deref(), 3 * h);
        check_len(op, "gradient of b_hh", self.b_hh.as_deref(), 3 * h);
        assert!(
            inputs.weights.w_ih.is_some() || self.w_ih.is_none(),
            "{op}: a gradient of w_ih is asked for, but the input is already projected"
        );
    }

    /// Writes zero everywhere: what a call without a single state gives.
    pub(crate) fn clear(self)
    where
        E: Clone + Default,
    {
        let all = [self.x, self.h0, self.w_ih, self.w_hh, self.b_ih, self.b_hh];
        all.into_iter().flatten().for_each(|d| d.fill(E::default()));
    }
}

/// Both biases' gradients from the sums of the pre-activations' gradients: `dr̄ | dz̄ | dn̄`, and, where
/// the reset gate acts after the product, `dn̄ ⊙ r`, which is the last block for the recurrent bias.
pub(crate) fn write_bias<E: Copy>(
    sums: &[E],
    h: usize,
    d_b_ih: Option<&mut [E]>,
    d_b_hh: Option<&mut [E]>,
) {
    if let Some(d_b_ih) = d_b_ih {
        d_b_ih.copy_from_slice(&sums[..3 * h]);
    }
    if let Some(d_b_hh) = d_b_hh {
        d_b_hh[..2 * h].copy_from_slice(&sums[..2 * h]);
        d_b_hh[2 * h..].copy_from_slice(&sums[sums.len() - h..]);
    }
}
