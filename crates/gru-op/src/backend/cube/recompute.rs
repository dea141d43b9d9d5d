//! The backward pass of a forward pass that kept no gates: piece by piece of time from the last to
//! the first, each with its gates made anew, so that none of them are ever held for all steps.

use super::{Prim, backward, dense, empty, kernel_call, left_sides, optional, pieces};
use crate::{
    backend::composed::Call,
    backend::{GruCall, GruGradients},
};
use burn::tensor::Shape;
use burn_cubecl::{CubeBackend, tensor::CubeTensor};
use cubecl::ir::ElemType;
use gru_cube::{GatesInputs, Limits, Products};
use gru_spec::{PerInput, Reset};
use std::ops::Range;

/// See [`GruBackend::gru_gradients`](crate::backend::GruBackend::gru_gradients).
pub(super) fn gradients(
    element: ElemType,
    call: GruCall<CubeBackend>,
    states: CubeTensor,
    d_states: CubeTensor,
    wanted: PerInput<bool>,
) -> GruGradients<CubeBackend> {
    let whole = Call::new(call.clone());
    let (states, d_states) = (Prim::<CubeBackend>(states), Prim::<CubeBackend>(d_states));
    let per_step = whole.n * 3 * whole.h * element.size();
    // A piece holds p, q, g and its gates at the same time: several times its p.
    let least = pieces::least(&Limits::of(&states.0.client));
    let all = pieces::pieces(whole.t, per_step, least / 2);
    let mut total = Total::new(&whole, all.len(), wanted);
    for steps in all.rev() {
        let piece = pieces::of_call(&call, &states, &steps, &whole);
        let of = |sequence| pieces::of_sequence(sequence, &steps, &whole);
        let d_piece = match total.sums.h0.take() {
            Some(d_after) => add_to_last(of(&d_states), d_after, &whole),
            None => of(&d_states),
        };
        let s_piece = of(&states);
        let kept = gates(element, &piece, &s_piece);
        let wanted = PerInput { h0: true, ..wanted };
        let gradients = backward(element, piece, s_piece.0, kept, d_piece.0, wanted);
        total.add(gradients, &steps, &whole);
    }
    total.finish(wanted)
}

/// The gates of all steps of a call, from its states.
fn gates(element: ElemType, of: &GruCall<CubeBackend>, states: &Prim<CubeBackend>) -> CubeTensor {
    let (inputs, spec) = (&of.inputs, of.spec);
    let mut without_bias = of.clone();
    without_bias.inputs.weights.b_ih = None;
    let sizes = Call::new(without_bias);
    let p = dense(sizes.project().0);
    let client = states.0.client.clone();
    let call = kernel_call(of, element);
    let width = spec.saved_per_unit() * sizes.h;
    let gates = empty(&states.0, Shape::new(sizes.sequence_shape(width)));
    let g = left_sides(inputs, &dense(states.0.clone()), None, &states.0, &call);
    let w_hh = Prim::<CubeBackend>(inputs.weights.w_hh.clone());
    let columns = |from: usize, to: usize| w_hh.narrow(1, from * sizes.h..to * sizes.h);
    let make = |products: Products| {
        let of = GatesInputs {
            p: p.clone(),
            products,
            b_ih: optional(&inputs.weights.b_ih),
            b_hh: optional(&inputs.weights.b_hh),
        };
        gru_cube::gates(&client, &call, &of, &gates.handle);
    };
    match spec.reset {
        Reset::AfterMatmul => {
            let q = dense(g.matmul(w_hh.clone()).0);
            make(Products::All { q });
        }
        Reset::BeforeMatmul => {
            let q = dense(g.clone().matmul(columns(0, 2)).0);
            let times_r = g.0.handle.clone();
            make(Products::ResetAndUpdate { q, g: times_r });
            let q = dense(g.matmul(columns(2, 3)).0);
            make(Products::Candidate { q });
        }
    }
    gates
}

/// A sequence with `[N,H]` added to the step that is walked last.
fn add_to_last(
    sequence: Prim<CubeBackend>,
    rows: Prim<CubeBackend>,
    call: &Call<CubeBackend>,
) -> Prim<CubeBackend> {
    let t = sequence.dims::<3>()[call.time_dim];
    let last = call.order.direction.time(t - 1, t);
    let step = sequence.narrow(call.time_dim, last..last + 1);
    let sum = rows.reshape(step.dims::<3>()) + step;
    sequence.with(call.time_dim, last..last + 1, sum)
}

/// Gradients of the chunks so far, from the last one on.
struct Total {
    /// Of x, every chunk at its place; of the initial state, that before the latest chunk.
    sums: PerInput<Option<Prim<CubeBackend>>>,
}

impl Total {
    fn new(whole: &Call<CubeBackend>, pieces: usize, wanted: PerInput<bool>) -> Self {
        let room = || Prim(empty(&whole.x.0, Shape::new(whole.x.dims::<3>())));
        // A single chunk brings its own memory.
        let x = (wanted.x && pieces > 1).then(room);
        Self {
            sums: PerInput {
                x,
                ..PerInput::default()
            },
        }
    }

    fn add(
        &mut self,
        piece: GruGradients<CubeBackend>,
        steps: &Range<usize>,
        whole: &Call<CubeBackend>,
    ) {
        let PerInput {
            x,
            h0,
            w_ih,
            w_hh,
            b_ih,
            b_hh,
        } = piece.0.map(|gradient| gradient.map(Prim));
        let sums = &mut self.sums;
        sums.h0 = h0;
        if let Some(x) = x {
            sums.x = Some(match sums.x.take() {
                Some(room) => {
                    let times = whole.order.direction.times(steps.clone(), whole.t);
                    room.with(whole.time_dim, times, x)
                }
                None => x,
            });
        }
        for (sum, part) in [
            (&mut sums.w_ih, w_ih),
            (&mut sums.w_hh, w_hh),
            (&mut sums.b_ih, b_ih),
            (&mut sums.b_hh, b_hh),
        ] {
            *sum = match (sum.take(), part) {
                (Some(sum), Some(part)) => Some(sum + part),
                (sum, part) => sum.or(part),
            };
        }
    }

    fn finish(self, wanted: PerInput<bool>) -> GruGradients<CubeBackend> {
        let gradients = wanted
            .zip(self.sums)
            .map(|(wanted, sum)| sum.filter(|_| wanted));
        GruGradients(gradients.map(|gradient| gradient.map(|gradient| gradient.0)))
    }
}
