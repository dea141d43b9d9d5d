//! The gradients of inputs and weights, by large products over all steps.

use super::tensor::{client, first_columns};
use super::{call, lhs, over_rows};
use crate::backend::{
    GruCall,
    composed::{self, prim::Prim},
};
use burn_cubecl::{CubeBackend, tensor::CubeTensor};
use gru_cube::{Limits, Recurrence, Starts};
use gru_spec::{PerInput, Sizes};

/// The results of the kernels of a backward pass.
pub(super) struct BackwardDone {
    /// The gradients of the pre-activations, in the order of the gates: `[T·N,3H]` or `[T·N,4H]`.
    pub(super) d_gates: Prim<CubeBackend>,
    /// The gradients of `h0 [N,H]` and, behind it, the start state, in float32.
    pub(super) d_h0: Prim<CubeBackend>,
    /// `r ⊙ g`, `[T·N,H]`, if it is needed: its gates are replaced by `d_gates`.
    pub(super) g_n: Option<Prim<CubeBackend>>,
}

/// The requested gradients. The states are dense.
pub(super) fn gradients_of_inputs(
    call: &GruCall<CubeBackend>,
    recurrence: &Recurrence,
    states: &CubeTensor,
    done: BackwardDone,
    wanted: PerInput<bool>,
) -> PerInput<Option<Prim<CubeBackend>>> {
    let whole = composed::ComposedCall::new(call.clone());
    let Sizes { n, t, h, .. } = whole.sizes;
    let valid = call::valid(call, 0..t);
    let pick = |rows: Prim<CubeBackend>| match &valid {
        Some(valid) => valid.pick(rows),
        None => rows,
    };
    let BackwardDone { d_gates, d_h0, g_n } = done;
    let d_gates = pick(d_gates);
    let d_p = first_columns(&d_gates, 3 * h);
    let last = call.spec.saved_per_unit();
    let x = &whole.inputs.sequence.x;
    let cubes = Limits::of(client(states)).cubes;
    let product =
        |lhs: &Prim<CubeBackend>, rhs: &Prim<CubeBackend>| over_rows::product(lhs, rhs, cubes);
    let w_ih = wanted
        .w_ih
        .then(|| product(&pick(whole.rows(x.clone())), &d_p));
    let w_hh = wanted.w_hh.then(|| {
        let g = pick(lhs(recurrence, states, None));
        let g_n = g_n.map_or_else(|| g.clone(), pick);
        let d_n = d_gates.narrow(1, (last - 1) * h..last * h);
        let parts = [
            product(&g, &first_columns(&d_gates, 2 * h)),
            product(&g_n, &d_n),
        ];
        Prim::cat(parts.into(), 1)
    });
    // One pass over all columns for both biases.
    let sums = (wanted.b_ih || wanted.b_hh).then(|| d_gates.clone().sum_rows());
    let of_sums =
        |from: usize, to: usize| sums.as_ref().map(|sums| sums.narrow(0, from * h..to * h));
    let b_ih = of_sums(0, 3).filter(|_| wanted.b_ih);
    let b_hh = match (of_sums(0, 2), of_sums(last - 1, last)) {
        (Some(rz), Some(n)) if wanted.b_hh => Some(Prim::cat(vec![rz, n], 0)),
        _ => None,
    };
    // Last, after the memory of g is free.
    let d_x = wanted.x.then(|| {
        let rows = whole.d_x(d_p);
        let rows = match &valid {
            Some(valid) => valid.spread(rows),
            None => rows,
        };
        rows.reshape(x.dims::<3>())
    });
    let d_state = |rows| d_h0.narrow(0, rows).cast(x.dtype());
    PerInput {
        x: d_x,
        h0: wanted.h0.then(|| d_state(0..n)),
        w_ih,
        w_hh,
        b_ih,
        b_hh,
        start_state: wanted.start_state.then(|| match recurrence.starts {
            Starts::FromState => d_state(n..2 * n),
            // Without starts it has no effect.
            Starts::None | Starts::FromZeros => Prim::zeros([n, h], &whole.inputs.weights.w_hh),
        }),
    }
}
