//! The CubeCL backends: the large products by Burn, the recurrence by the kernels of `gru-cube`.
//!
//! What grows with T beside inputs, outputs and kept gates is made in [`pieces`] of time. What has no
//! kernel takes the composed default: float64, and a device whose limits allow no cut.

mod lean;
mod pieces;

use crate::{
    GruBackend, GruForward, GruGradients, GruInputs, OptionalTensor, Wanted, passes,
    primitive::Prim,
    spec::{GruSpec, Reset},
};
use burn::{
    backend::{TensorMetadata, tensor::FloatTensor},
    tensor::{DType, Shape},
};
use burn_cubecl::{
    CubeBackend, kernel::into_contiguous, ops::numeric::empty_device_contiguous_dtype,
    tensor::CubeTensor,
};
use cubecl::{
    ir::{ElemType, FloatKind},
    server::Handle,
};
use gru_cube::{
    BackwardInputs, BackwardOutputs, ForwardInputs, ForwardOutputs, Limits, PlanError,
    RecurrentInputs, Settings, Strategy, Take,
};

impl GruBackend for CubeBackend {
    fn gru_states(inputs: GruInputs<Self>, spec: GruSpec) -> FloatTensor<Self> {
        match forward(&inputs, &spec, false) {
            Some(forward) => forward.states,
            None => passes::states(inputs, &spec),
        }
    }

    fn gru_states_and_gates(inputs: GruInputs<Self>, spec: GruSpec) -> GruForward<Self> {
        match forward(&inputs, &spec, true) {
            Some(Forward {
                states,
                gates: Some(gates),
            }) => GruForward { states, gates },
            _ => passes::states_and_gates(inputs, &spec),
        }
    }

    fn gru_gradients(
        inputs: GruInputs<Self>,
        states: FloatTensor<Self>,
        gates: OptionalTensor<Self>,
        d_states: FloatTensor<Self>,
        spec: GruSpec,
        wanted: Wanted,
    ) -> GruGradients<Self> {
        let Some(element) = element(&inputs) else {
            return passes::gradients(inputs, states, gates, d_states, &spec, wanted);
        };
        match gates.into_option() {
            Some(gates) => backward(element, inputs, states, gates, d_states, &spec, wanted),
            None => lean::gradients(element, inputs, states, d_states, &spec, wanted),
        }
    }
}

/// The type of a call that the kernels run.
fn element(inputs: &GruInputs<CubeBackend>) -> Option<ElemType> {
    if inputs.x.shape().num_elements() == 0 {
        return None;
    }
    Some(ElemType::Float(match inputs.x.dtype() {
        DType::F32 => FloatKind::F32,
        DType::F16 => FloatKind::F16,
        DType::BF16 => FloatKind::BF16,
        _ => return None,
    }))
}

struct Forward {
    states: CubeTensor,
    gates: Option<CubeTensor>,
}

/// A tensor whose buffer is dense and row-major.
fn dense(tensor: CubeTensor) -> Handle {
    into_contiguous(tensor).handle
}

fn optional(tensor: &OptionalTensor<CubeBackend>) -> Option<Handle> {
    tensor.get().cloned().map(dense)
}

/// The share of the new state that is taken: `[…,1]` or `[…,H]`.
fn take(inputs: &GruInputs<CubeBackend>) -> Option<Take> {
    let take = inputs.take.get()?;
    let handle = dense(take.clone());
    Some(match take.shape()[2] {
        1 => Take::OfRow(handle),
        _ => Take::OfUnit(handle),
    })
}

/// A new buffer beside `like`.
fn empty(like: &CubeTensor, shape: Shape) -> CubeTensor {
    let (client, device) = (like.client.clone(), like.device.clone());
    empty_device_contiguous_dtype(client, device, shape, like.dtype)
}

fn call(of: &passes::Call<CubeBackend>, spec: &GruSpec, dtype: ElemType) -> gru_cube::Call {
    gru_cube::Call {
        n: of.n,
        t: of.t,
        h: of.h,
        spec: *spec,
        dtype,
    }
}

/// `g = mask ⊙ h₋₁` of every row, or with gates `r ⊙ g`: `[T·N,H]`, beside `like`.
fn left_sides(
    inputs: &GruInputs<CubeBackend>,
    states: &Handle,
    gates: Option<Handle>,
    like: &CubeTensor,
    call: &gru_cube::Call,
) -> Prim<CubeBackend> {
    let g = empty(like, Shape::new([call.n * call.t, call.h]));
    let of = RecurrentInputs {
        states: states.clone(),
        h0: optional(&inputs.h0),
        mask: optional(&inputs.mask),
        valid: optional(&inputs.valid),
        gates,
    };
    gru_cube::recurrent_inputs(&like.client, call, &of, &g.handle);
    Prim(g)
}

/// Whether the kernels ran, or the composed default is to take their place.
///
/// # Panics
/// If they did not although somebody forced them to, or gave up in the middle.
fn is_done(op: &str, done: Result<(), PlanError>, strategy: Strategy) -> bool {
    match (done, strategy) {
        (Ok(()), _) => true,
        (Err(error), Strategy::Forced(cut)) => {
            panic!("{op}: expected the forced cut {cut} to run, got: {error}")
        }
        (Err(error @ PlanError::GaveUp), _) => panic!("{op}: {error}"),
        (Err(_), _) => false,
    }
}

/// None where no kernel runs this call.
fn forward(inputs: &GruInputs<CubeBackend>, spec: &GruSpec, keep: bool) -> Option<Forward> {
    let element = element(inputs)?;
    let sizes = passes::Call::new(inputs.clone(), spec);
    let states = empty(&sizes.x.0, Shape::new(sizes.sequence_shape(sizes.h)));
    let width = spec.saved_per_unit() * sizes.h;
    let gates = keep.then(|| empty(&states, Shape::new(sizes.sequence_shape(width))));
    let [_, _, features] = sizes.x.dims();
    let per_step = sizes.n * 3 * sizes.h * element.size();
    let in_and_out = (features + sizes.h)
        .saturating_mul(sizes.n * sizes.t)
        .saturating_mul(element.size());
    let least = pieces::least(&Limits::of(&states.client));
    let limit = match (&sizes.w_ih, keep) {
        // x is p, and there already.
        (None, _) => usize::MAX,
        // A sixteenth of what the call returns and reads.
        (Some(_), false) => least.max(in_and_out / 16),
        // The backward pass will need as much for the gradients of x and the states.
        (Some(_), true) => least.max(in_and_out),
    };
    let call = call(&sizes, spec, element);
    let writes = ForwardOutputs {
        states: states.handle.clone(),
        gates: gates.as_ref().map(|gates| gates.handle.clone()),
    };
    let w_hh = dense(inputs.w_hh.clone());
    // The kernel adds b_ih: a pass of its own over p is spared.
    let [b_ih, b_hh, h0, mask, valid] = [
        &inputs.b_ih,
        &inputs.b_hh,
        &inputs.h0,
        &inputs.mask,
        &inputs.valid,
    ]
    .map(optional);
    let take = take(inputs);
    let strategy = Settings::current().forward;
    for steps in pieces::pieces(sizes.t, per_step, limit) {
        let x = pieces::of_sequence(&sizes.x, &steps, &sizes, spec);
        let p = match &sizes.w_ih {
            Some(w_ih) => x
                .reshape([sizes.n * steps.len(), features])
                .matmul(w_ih.clone()),
            None => x,
        };
        let reads = ForwardInputs {
            steps,
            p: dense(p.0),
            w_hh: w_hh.clone(),
            b_ih: b_ih.clone(),
            b_hh: b_hh.clone(),
            h0: h0.clone(),
            mask: mask.clone(),
            valid: valid.clone(),
            take: take.clone(),
        };
        let done = gru_cube::forward(&states.client, &call, &reads, &writes, strategy);
        if !is_done("gru_forward", done, strategy) {
            return None;
        }
    }
    Some(Forward { states, gates })
}

fn backward(
    element: ElemType,
    inputs: GruInputs<CubeBackend>,
    states: CubeTensor,
    gates: CubeTensor,
    d_states: CubeTensor,
    spec: &GruSpec,
    wanted: Wanted,
) -> GruGradients<CubeBackend> {
    let sizes = passes::Call::new(inputs.clone(), spec);
    let (h, rows) = (sizes.h, sizes.n * sizes.t);
    let width = spec.saved_per_unit() * h;
    let kept = into_contiguous(gates);
    // Gates that nobody else holds give their memory to their gradients.
    let in_place = kept.can_mut();
    let client = states.client.clone();
    let of_call = call(&sizes, spec, element);
    let dense_states = dense(states.clone());
    let left = |gates| left_sides(&inputs, &dense_states, gates, &states, &of_call);
    // r is read before it is written over.
    let g_n =
        (wanted.w_hh && spec.reset == Reset::BeforeMatmul).then(|| left(Some(kept.handle.clone())));

    let d_gates = match in_place {
        true => kept.clone(),
        false => empty(&kept, Shape::new([rows, width])),
    };
    let d_h0 = empty(&kept, Shape::new([sizes.n, h]));
    let reads = BackwardInputs {
        d_states: dense(d_states.clone()),
        states: dense_states.clone(),
        gates: kept.handle.clone(),
        w_hh: dense(inputs.w_hh.clone()),
        h0: optional(&inputs.h0),
        mask: optional(&inputs.mask),
        valid: optional(&inputs.valid),
        take: take(&inputs),
    };
    let writes = BackwardOutputs {
        d_gates: (!in_place).then(|| d_gates.handle.clone()),
        d_h0: d_h0.handle.clone(),
    };
    let strategy = Settings::current().backward;
    let done = gru_cube::backward(&client, &of_call, &reads, &writes, strategy);
    if !is_done("gru_backward", done, strategy) {
        let gates = OptionalTensor::Given(kept);
        return passes::gradients(inputs, states, gates, d_states, spec, wanted);
    }

    let d_gates = Prim::<CubeBackend>(d_gates).reshape([rows, width]);
    let columns = |from: usize, to: usize| d_gates.narrow(1, from * h..to * h);
    let d_p = columns(0, 3);
    let last = spec.saved_per_unit();
    let d_q_n = columns(last - 1, last);
    let w_ih = wanted.w_ih.then(|| {
        let x = sizes.rows(sizes.x.clone());
        x.transpose().matmul(d_p.clone())
    });
    let w_hh = wanted.w_hh.then(|| {
        let g = left(None);
        let g_n = g_n.unwrap_or_else(|| g.clone());
        let rz = g.transpose().matmul(columns(0, 2));
        Prim::cat(vec![rz, g_n.transpose().matmul(d_q_n.clone())], 1)
    });
    // All columns at once: they lie together, and are read once for both biases.
    let sums = (wanted.b_ih || wanted.b_hh).then(|| d_gates.clone().sum_rows());
    let of_sums =
        |from: usize, to: usize| sums.as_ref().map(|sums| sums.narrow(0, from * h..to * h));
    let b_ih = of_sums(0, 3).filter(|_| wanted.b_ih);
    let b_hh = match (of_sums(0, 2), of_sums(last - 1, last)) {
        (Some(rz), Some(n)) if wanted.b_hh => Some(Prim::cat(vec![rz, n], 0)),
        _ => None,
    };
    // Last, when the memory of g is free again.
    let x_shape = sizes.x.dims::<3>();
    let x = wanted.x.then(|| match &sizes.w_ih {
        Some(w_ih) => d_p
            .clone()
            .matmul(w_ih.clone().transpose())
            .reshape(x_shape),
        None => d_p.clone().reshape(x_shape),
    });
    let out = |gradient: Option<Prim<CubeBackend>>| OptionalTensor::from(gradient.map(|g| g.0));
    GruGradients {
        x: out(x),
        h0: out(wanted.h0.then_some(Prim(d_h0))),
        w_ih: out(w_ih),
        w_hh: out(w_hh),
        b_ih: out(b_ih),
        b_hh: out(b_hh),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSED: PlanError = PlanError::TooManyUnits {
        requested: 2,
        available: 1,
    };

    #[test]
    fn what_is_refused_takes_the_default() {
        assert!(is_done("op", Ok(()), Strategy::Inferred));
        assert!(!is_done("op", Err(REFUSED), Strategy::Inferred));
        assert!(!is_done("op", Err(REFUSED), Strategy::Persistent));
    }

    #[test]
    #[should_panic(
        expected = "op: expected the forced cut walk rows=1 width=1 lanes=2 splits=1 to run, \
                               got: 2 units per cube, the device allows 1"
    )]
    fn a_forced_cut_that_is_refused_is_named() {
        let cut = "walk rows=1 width=1 lanes=2 splits=1".parse();
        is_done("op", Err(REFUSED), Strategy::Forced(cut.unwrap()));
    }

    #[test]
    #[should_panic(expected = "op: cubes of a persistent launch waited for each other in vain")]
    fn cubes_that_did_not_meet_are_an_error() {
        is_done("op", Err(PlanError::GaveUp), Strategy::Persistent);
    }
}
