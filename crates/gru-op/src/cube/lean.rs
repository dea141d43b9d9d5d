//! The backward pass of a forward pass that kept no gates: piece by piece of time from the last to
//! the first, each with its gates made anew, so that none of them are ever held for all steps.

use super::{Prim, backward, call, dense, empty, left_sides, optional, pieces};
use crate::{
    GruGradients, GruInputs, OptionalTensor, Wanted,
    passes::Call,
    spec::{GruSpec, Reset},
};
use burn::tensor::Shape;
use burn_cubecl::{CubeBackend, tensor::CubeTensor};
use cubecl::ir::ElemType;
use gru_cube::{GatesInputs, Limits, Products};
use std::ops::Range;

/// See [`GruBackend::gru_gradients`](crate::GruBackend::gru_gradients).
pub(super) fn gradients(
    element: ElemType,
    inputs: GruInputs<CubeBackend>,
    states: CubeTensor,
    d_states: CubeTensor,
    spec: &GruSpec,
    wanted: Wanted,
) -> GruGradients<CubeBackend> {
    let whole = Call::new(inputs.clone(), spec);
    let (states, d_states) = (Prim::<CubeBackend>(states), Prim::<CubeBackend>(d_states));
    let per_step = whole.n * 3 * whole.h * element.size();
    // A piece holds p, q, g and its gates at the same time: several times its p.
    let least = pieces::least(&Limits::of(&states.0.client));
    let all = pieces::pieces(whole.t, per_step, least / 2);
    let mut total = Total::new(&whole, all.len(), wanted);
    for steps in all.rev() {
        let piece = pieces::of_inputs(&inputs, &states, &steps, &whole, spec);
        let of = |sequence| pieces::of_sequence(sequence, &steps, &whole, spec);
        let d_piece = match total.h0.take() {
            Some(d_after) => add_to_last(of(&d_states), d_after, &whole, spec),
            None => of(&d_states),
        };
        let s_piece = of(&states);
        let kept = gates(element, &piece, &s_piece, spec);
        let wanted = Wanted { h0: true, ..wanted };
        let gradients = backward(element, piece, s_piece.0, kept, d_piece.0, spec, wanted);
        total.add(gradients, &steps, &whole, spec);
    }
    total.finish(wanted)
}

/// The gates of all steps of a call, from its states.
fn gates(
    element: ElemType,
    inputs: &GruInputs<CubeBackend>,
    states: &Prim<CubeBackend>,
    spec: &GruSpec,
) -> CubeTensor {
    let without_bias = GruInputs {
        b_ih: OptionalTensor::Absent,
        ..inputs.clone()
    };
    let sizes = Call::new(without_bias, spec);
    let p = dense(sizes.project().0);
    let client = states.0.client.clone();
    let call = call(&sizes, spec, element);
    let width = spec.saved_per_unit() * sizes.h;
    let gates = empty(&states.0, Shape::new(sizes.sequence_shape(width)));
    let g = left_sides(inputs, &dense(states.0.clone()), None, &states.0, &call);
    let w_hh = Prim::<CubeBackend>(inputs.w_hh.clone());
    let columns = |from: usize, to: usize| w_hh.narrow(1, from * sizes.h..to * sizes.h);
    let make = |products: Products| {
        let of = GatesInputs {
            p: p.clone(),
            products,
            b_ih: optional(&inputs.b_ih),
            b_hh: optional(&inputs.b_hh),
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
    spec: &GruSpec,
) -> Prim<CubeBackend> {
    let t = sequence.dims::<3>()[call.time_dim];
    let last = spec.direction.time(t - 1, t);
    let step = sequence.narrow(call.time_dim, last..last + 1);
    let sum = rows.reshape(step.dims::<3>()) + step;
    sequence.with(call.time_dim, last..last + 1, sum)
}

/// Gradients of the pieces so far, the latest first.
struct Total {
    /// Of x, every piece at its place.
    x: Option<Prim<CubeBackend>>,
    /// Of the state before the latest piece.
    h0: Option<Prim<CubeBackend>>,
    w_ih: Option<Prim<CubeBackend>>,
    w_hh: Option<Prim<CubeBackend>>,
    b_ih: Option<Prim<CubeBackend>>,
    b_hh: Option<Prim<CubeBackend>>,
}

impl Total {
    fn new(whole: &Call<CubeBackend>, pieces: usize, wanted: Wanted) -> Self {
        let room = || Prim(empty(&whole.x.0, Shape::new(whole.x.dims::<3>())));
        Self {
            // One piece brings its own memory.
            x: (wanted.x && pieces > 1).then(room),
            h0: None,
            w_ih: None,
            w_hh: None,
            b_ih: None,
            b_hh: None,
        }
    }

    fn add(
        &mut self,
        piece: GruGradients<CubeBackend>,
        steps: &Range<usize>,
        whole: &Call<CubeBackend>,
        spec: &GruSpec,
    ) {
        self.h0 = piece.h0.into_option().map(Prim);
        if let Some(x) = piece.x.into_option().map(Prim) {
            self.x = Some(match self.x.take() {
                Some(room) => {
                    let times = spec.direction.times(steps.clone(), whole.t);
                    room.with(whole.time_dim, times, x)
                }
                None => x,
            });
        }
        for (sum, part) in [
            (&mut self.w_ih, piece.w_ih),
            (&mut self.w_hh, piece.w_hh),
            (&mut self.b_ih, piece.b_ih),
            (&mut self.b_hh, piece.b_hh),
        ] {
            let part = part.into_option().map(Prim);
            *sum = match (sum.take(), part) {
                (Some(sum), Some(part)) => Some(sum + part),
                (sum, part) => sum.or(part),
            };
        }
    }

    fn finish(self, wanted: Wanted) -> GruGradients<CubeBackend> {
        let out = |gradient: Option<Prim<CubeBackend>>| OptionalTensor::from(gradient.map(|g| g.0));
        GruGradients {
            x: out(self.x),
            h0: out(self.h0.filter(|_| wanted.h0)),
            w_ih: out(self.w_ih),
            w_hh: out(self.w_hh),
            b_ih: out(self.b_ih),
            b_hh: out(self.b_hh),
        }
    }
}
