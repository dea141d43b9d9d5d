//! Launch of the gates anew.

use super::{Call, count_launch, to_u32};
use crate::kernel::gates::{Part, gru_gates};
use cubecl::{calculate_cube_count_elemwise, client::Client, prelude::*, server::Handle};

const OP: &str = "gru_cube::gates";

/// The recurrent product from which gates are made.
#[derive(Debug, Clone)]
pub enum Products {
    /// Reset after the product: `g·w_hh`, `[…,3H]`. Gives all gates.
    All {
        /// The product.
        q: Handle,
    },
    /// Reset before the product: `g·w_hh` of the gates r and z, `[…,2H]`. Gives r and z, and makes
    /// `r ⊙ g` of `g`.
    ResetAndUpdate {
        /// The product.
        q: Handle,
        /// `g`, `[…,H]`; written over.
        g: Handle,
    },
    /// Reset before the product: `(r ⊙ g)·w_hn`, `[…,H]`. Gives n.
    Candidate {
        /// The product.
        q: Handle,
    },
}

/// What gates are made of. Every buffer is dense, row-major, of the type of the call.
#[derive(Debug, Clone)]
pub struct GatesInputs {
    /// `x·w_ih`, `[…,3H]`.
    pub p: Handle,
    /// The recurrent product.
    pub products: Products,
    /// Bias of the input product `[3H]`.
    pub b_ih: Option<Handle>,
    /// Bias of the recurrent product `[3H]`.
    pub b_hh: Option<Handle>,
}

/// The gates of all steps of a call, as [`forward`](crate::forward()) writes them, from products
/// that were made for all steps at once: for a backward pass whose forward pass kept none. One
/// launch.
///
/// # Panics
/// If a buffer is too short, the type is not a float of 16 or 32 bits, or the products are those of
/// the other reset.
pub fn gates(client: &Client, call: &Call, inputs: &GatesInputs, gates: &Handle) {
    let rule = call.problem(OP, client).rule;
    let (part, q, g) = match &inputs.products {
        Products::All { q } => (Part::All, q, None),
        Products::ResetAndUpdate { q, g } => (Part::ResetAndUpdate, q, Some(g)),
        Products::Candidate { q } => (Part::Candidate, q, None),
    };
    assert!(
        rule.reset_after == (part == Part::All),
        "{OP}: expected the products of reset {:?}, got {part:?}",
        call.spec.reset
    );
    let (rows, h) = (call.rows(), call.h);
    let len = rows * h;
    if len == 0 {
        return;
    }
    let cube_dim = CubeDim::new(client, len);
    count_launch();
    // SAFETY: the kernel stops at T·N·H, and `arg` checks the buffers against the same sizes.
    unsafe {
        gru_gates::launch_unchecked(
            client,
            calculate_cube_count_elemwise(client, len, cube_dim),
            cube_dim,
            call.address_type(),
            call.arg(OP, "p", inputs.p.clone(), 3 * len),
            call.arg(OP, "q", q.clone(), part.products() * len),
            call.optional(OP, "b_ih", inputs.b_ih.as_ref(), 3 * h),
            call.optional(OP, "b_hh", inputs.b_hh.as_ref(), 3 * h),
            call.optional(OP, "g", g, len),
            call.arg(OP, "gates", gates.clone(), rule.saved() * len),
            to_u32(OP, "T·N", rows),
            h,
            rule,
            part,
            call.dtype,
        );
    }
}
