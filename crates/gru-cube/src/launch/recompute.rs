//! Launch of the recomputation of gates.

use super::{Call, count_launch, require};
use crate::kernel::recompute::{Part, RecomputedLaunch, gru_gates};
use cubecl::{calculate_cube_count_elemwise, client::Client, prelude::*, server::Handle};

const OP: &str = "gru_cube::gates";

/// The recurrent product from which gates are recomputed.
#[derive(Debug, Clone)]
pub enum Products {
    /// Reset after the product: `g·w_hh`, `[…,3H]`. Gives all gates.
    All {
        /// The product.
        q: Handle,
    },
    /// Reset before the product: `g·w_hh` of the gates r and z, `[…,2H]`. Gives r and z, and multiplies
    /// `g` by r.
    ResetAndUpdate {
        /// The product.
        q: Handle,
        /// `g`, `[…,H]`; becomes `r ⊙ g`.
        g: Handle,
    },
    /// Reset before the product: `(r ⊙ g)·w_hn`, `[…,H]`. Gives n.
    Candidate {
        /// The product.
        q: Handle,
    },
}

/// What [`gates`] reads. Every buffer is contiguous, row-major, of the type of the call.
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

/// Recomputes the gates of all steps, as [`forward`](crate::forward()) writes them, from products over all
/// steps. For a backward pass whose forward pass did not save the gates. One launch.
///
/// # Panics
/// If a buffer is too short or too large for the device, or the products belong to the other reset. If the
/// type is not a float of 16 or 32 bits.
pub fn gates(client: &Client, call: &Call, inputs: &GatesInputs, gates: &Handle) {
    let problem = call.problem(OP, client);
    let rule = problem.rule;
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
    let tensors = [
        call.tensor("p", &inputs.p, 3 * len),
        call.tensor("q", q, part.products() * len),
        call.tensor("b_ih", inputs.b_ih.as_ref(), 3 * h),
        call.tensor("b_hh", inputs.b_hh.as_ref(), 3 * h),
        call.tensor("g", g, len),
        call.tensor("gates", gates, rule.saved() * len),
    ];
    require(OP, &problem.limits, &tensors);
    let [p, q, b_ih, b_hh, g, gates] = tensors;
    let cube_dim = CubeDim::new(client, len);
    count_launch();
    // SAFETY: the kernel stops at T·N·H, and the tensors check the buffers against the same sizes.
    unsafe {
        gru_gates::launch_unchecked(
            client,
            calculate_cube_count_elemwise(client, len, cube_dim),
            cube_dim,
            call.address_type(client),
            RecomputedLaunch::new(
                p.arg(OP),
                q.arg(OP),
                b_ih.small_arg(OP),
                b_hh.small_arg(OP),
                g.optional(OP),
                gates.arg(OP),
                rows,
            ),
            rule,
            part,
            call.dtype,
        );
    }
}
