//! Launch of the recomputation of gates.

use super::{Recurrence, count_launch, require};
use crate::kernel::{
    recompute::{Part, RecomputedLaunch, gru_gates},
    rule::{Rule, Starts, ZoneoutKind},
};
use cubecl::{calculate_cube_count_elemwise, client::Client, prelude::*, server::Handle};

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

/// Recomputes the gates of all steps, as a forward pass writes them, from products over all steps. For a backward pass
/// whose forward pass did not save the gates. One launch.
///
/// # Panics
/// If a buffer is too short or too large for the device, or the products belong to the other reset. If the call is
/// malformed, as for [`run`](crate::run).
pub fn gates(client: &Client, call: &Recurrence, products: &Products, gates: &Handle) {
    let problem = call.problem(client);
    // The kernel does not depend on these.
    let rule = Rule {
        starts: Starts::None,
        zoneout: ZoneoutKind::None,
        ..problem.rule
    };
    let (part, q, g) = match products {
        Products::All { q } => (Part::All, q, None),
        Products::ResetAndUpdate { q, g } => (Part::ResetAndUpdate, q, Some(g)),
        Products::Candidate { q } => (Part::Candidate, q, None),
    };
    assert!(
        rule.reset_after == (part == Part::All),
        "gru_cube: expected the products of reset {:?}, got {part:?}",
        call.spec.reset
    );
    let (rows, h) = (call.sizes.places(), call.sizes.h);
    let len = rows * h;
    if len == 0 {
        return;
    }
    let [b_ih, b_hh] = call.biases();
    let tensors = [
        call.tensor("x", &call.inputs.sequence.x, 3 * len),
        call.tensor("q", q, part.products() * len),
        b_ih,
        b_hh,
        call.tensor("g", g, len),
        call.tensor("gates", gates, rule.saved() * len),
    ];
    require(&problem.limits, &tensors);
    let [x, q, b_ih, b_hh, g, gates] = tensors;
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
                x.arg(),
                q.arg(),
                b_ih.small_arg(),
                b_hh.small_arg(),
                g.optional(),
                gates.arg(),
                rows,
            ),
            rule,
            part,
            call.dtype,
        );
    }
}
