//! The CubeCL backends: Burn computes the large products, and the kernels of `gru-cube` the recurrence.
//!
//! Temporary buffers that grow with T are computed in [`chunks`] of time. Calls without a kernel run the
//! composed passes: float64, and a device whose limits no kernel fits.

mod call;
mod chunks;
mod over_rows;
mod products;
mod recompute;

use self::{call::KernelCall, products::BackwardDone};

use crate::{
    backend::composed,
    backend::composed::prim::Prim,
    backend::padded::{self, Places},
    backend::{GruBackend, GruCall, GruGradients, GruSaved},
};
use burn::{
    backend::{TensorMetadata, tensor::FloatTensor},
    tensor::{DType, Shape},
};
use burn_cubecl::{
    CubeBackend, kernel::into_contiguous, ops::numeric::empty_device_contiguous_dtype,
    tensor::CubeTensor,
};
use cubecl::server::Handle;
use gru_cube::{
    BackwardInputs, BackwardOutputs, ForwardInputs, ForwardOutputs, Limits, PlanError,
    RecurrentInputs, Settings, Starts, Strategy, Zoneout,
};
use gru_spec::{Inputs, PerInput, Reset, Sizes};

impl GruBackend for CubeBackend {
    fn gru_forward(call: GruCall<Self>, keep_gates: bool) -> GruSaved<Self> {
        padded::forward(call, |call| {
            let saved = forward(&call, keep_gates);
            saved.unwrap_or_else(|| composed::forward(call, keep_gates))
        })
    }

    fn gru_gradients(
        call: GruCall<Self>,
        saved: GruSaved<Self>,
        d_states: FloatTensor<Self>,
        wanted: PerInput<bool>,
    ) -> GruGradients<Self> {
        padded::gradients(call, saved, d_states, wanted, gradients)
    }
}

fn gradients(
    call: GruCall<CubeBackend>,
    saved: GruSaved<CubeBackend>,
    d_states: CubeTensor,
    wanted: PerInput<bool>,
) -> GruGradients<CubeBackend> {
    let Some(kernel_call) = KernelCall::new(&call) else {
        return composed::gradients(call, saved, d_states, wanted);
    };
    let GruSaved { states, gates } = saved;
    let done = match gates {
        Some(gates) => backward(&kernel_call, &states, gates, &d_states, wanted),
        None => recompute::gradients(&kernel_call, &states, &d_states, wanted),
    };
    done.unwrap_or_else(|gates| {
        let gates = gates.map(|gates| *gates);
        composed::gradients(call, GruSaved { states, gates }, d_states, wanted)
    })
}

/// The buffer of a tensor, dense and row-major.
fn dense(tensor: CubeTensor) -> Handle {
    buffer(&into_contiguous(tensor))
}

/// The buffer of a dense tensor.
///
/// # Panics
/// If the tensor is not dense. Kernels receive no strides. On CUDA and ROCm, Burn pads the rows of new tensors.
fn buffer(tensor: &CubeTensor) -> Handle {
    assert!(
        tensor.is_contiguous(),
        "gru-op: shape {:?}: expected a dense tensor, got strides {:?}",
        tensor.meta.shape(),
        tensor.meta.strides()
    );
    tensor.handle.clone()
}

fn optional(tensor: &Option<CubeTensor>) -> Option<Handle> {
    tensor.clone().map(dense)
}

/// The share of the previous state that is kept: `[…,1]` or `[…,H]`.
fn zoneout(inputs: &Inputs<CubeTensor>) -> Option<Zoneout> {
    let zoneout = inputs.sequence.zoneout.as_ref()?;
    let handle = dense(zoneout.clone());
    Some(match zoneout.shape()[2] {
        1 => Zoneout::OfRow(handle),
        _ => Zoneout::OfUnit(handle),
    })
}

/// An uninitialized tensor on the device of `like`, with its dtype.
fn empty(like: &CubeTensor, shape: Shape) -> CubeTensor {
    empty_of(like, shape, like.dtype)
}

/// An uninitialized tensor on the device of `like`.
fn empty_of(like: &CubeTensor, shape: Shape, dtype: DType) -> CubeTensor {
    let (client, device) = (like.client.clone(), like.device.clone());
    empty_device_contiguous_dtype(client, device, shape, dtype)
}

/// The left side of the recurrent product, `[T·N,H]`: `g = mask ⊙ h₋₁`, or `r ⊙ g` with gates. The states are dense.
fn lhs(call: &KernelCall, states: &CubeTensor, gates: Option<Handle>) -> Prim<CubeBackend> {
    let (inputs, call) = (&call.of.inputs, &call.sizes());
    let g = empty(states, Shape::new([call.n * call.t, call.h]));
    let of = RecurrentInputs {
        states: buffer(states),
        h0: optional(&inputs.sequence.h0),
        recurrent_mask: optional(&inputs.sequence.recurrent_mask),
        step_mask: optional(&inputs.sequence.step_mask),
        gates,
    };
    gru_cube::recurrent_inputs(&states.client, call, &of, &buffer(&g));
    Prim(g)
}

/// Whether the kernels ran. If not, the composed passes run instead, and the log has a warning.
///
/// # Panics
/// If a forced schedule is not allowed.
fn is_done(op: &str, done: Result<(), PlanError>, strategy: Strategy) -> bool {
    match (done, strategy) {
        (Ok(()), _) => true,
        (Err(error), Strategy::Forced(schedule)) => {
            panic!("{op}: expected the forced schedule {schedule} to run, got: {error}")
        }
        // The log has a warning from the test.
        (Err(PlanError::FailedTest { .. }), _) => false,
        (Err(error), _) => {
            log::warn!(
                "{op}: no GPU kernel runs this call, so Burn's operations run step by step: {error}"
            );
            false
        }
    }
}

/// `None` if no kernel runs this call.
fn forward(call: &GruCall<CubeBackend>, keep: bool) -> Option<GruSaved<CubeBackend>> {
    let call = KernelCall::new(call)?;
    let (of, element) = (&call.of, call.element);
    let (inputs, whole) = (&of.inputs, composed::Call::new(of.clone()));
    let (x, w_ih) = (&whole.inputs.sequence.x, &whole.inputs.weights.w_ih);
    let Sizes { n, t, h, .. } = whole.sizes;
    let states = empty(&x.0, Shape::new(whole.sequence_shape(h)));
    let width = of.spec.saved_per_unit() * h;
    let gates = keep.then(|| empty(&states, Shape::new(whole.sequence_shape(width))));
    let [_, _, features] = x.dims();
    // Products that leave out padding also need p of the valid steps only.
    let copies = 1 + usize::from(of.lengths.of_rows().is_some());
    let per_step = copies * n * 3 * h * element.size();
    let in_and_out = (features + h)
        .saturating_mul(n * t)
        .saturating_mul(element.size());
    let least = chunks::min_bytes(Limits::of(&states.client).cubes);
    let limit = match (w_ih, keep) {
        // x is p already.
        (None, _) => usize::MAX,
        // A sixteenth of the inputs and outputs of the call.
        (Some(_), false) => least.max(in_and_out / 16),
        // The backward pass needs as much for the gradients of x and the states.
        (Some(_), true) => least.max(in_and_out),
    };
    let kernel_call = call.sizes();
    let writes = ForwardOutputs {
        states: buffer(&states),
        gates: gates.as_ref().map(buffer),
    };
    let w_hh = dense(inputs.weights.w_hh.clone());
    // The kernel adds b_ih, which saves a pass over p.
    let [b_ih, b_hh, h0, recurrent_mask, step_mask] = [
        &inputs.weights.b_ih,
        &inputs.weights.b_hh,
        &inputs.sequence.h0,
        &inputs.sequence.recurrent_mask,
        &inputs.sequence.step_mask,
    ]
    .map(optional);
    let zoneout = zoneout(inputs);
    let strategy = Settings::current().forward;
    let lengths = call.left_out();
    for steps in chunks::chunks(t, per_step, limit) {
        // The longest row is the first.
        if lengths.is_some_and(|lengths| lengths[0] <= steps.start) {
            break;
        }
        let part = chunks::of_sequence(x, &steps, &whole);
        let p = match w_ih {
            Some(w_ih) => {
                let rows = part.reshape([n * steps.len(), features]);
                Places::product(&call.valid(steps.clone()), rows, w_ih.clone())
            }
            None => part,
        };
        let reads = ForwardInputs {
            steps,
            p: dense(p.0),
            w_hh: w_hh.clone(),
            b_ih: b_ih.clone(),
            b_hh: b_hh.clone(),
            h0: h0.clone(),
            recurrent_mask: recurrent_mask.clone(),
            step_mask: step_mask.clone(),
            zoneout: zoneout.clone(),
            lengths: lengths.map(<[_]>::to_vec),
        };
        let done = gru_cube::forward(&states.client, &kernel_call, &reads, &writes, strategy);
        if !is_done("gru_forward", done, strategy) {
            return None;
        }
    }
    Some(GruSaved { states, gates })
}

/// The gates, as they were saved, if no kernel runs this call.
type NotDone = Option<Box<CubeTensor>>;

/// Runs the kernels, then the products over all steps.
fn backward(
    call: &KernelCall,
    states: &CubeTensor,
    gates: CubeTensor,
    d_states: &CubeTensor,
    wanted: PerInput<bool>,
) -> Result<GruGradients<CubeBackend>, NotDone> {
    let states = into_contiguous(states.clone());
    let done = run_backward(call, &states, gates, d_states, wanted)?;
    let gradients = products::gradients_of_inputs(call, &states, done, wanted);
    Ok(GruGradients(
        gradients.map(|gradient| gradient.map(|gradient| gradient.0)),
    ))
}

/// Runs the kernels. The states are dense.
fn run_backward(
    call: &KernelCall,
    states: &CubeTensor,
    gates: CubeTensor,
    d_states: &CubeTensor,
    wanted: PerInput<bool>,
) -> Result<BackwardDone, NotDone> {
    let (inputs, spec) = (&call.of.inputs, call.of.spec);
    let sizes = call.of.sizes();
    let (n, h) = (sizes.n, sizes.h);
    let kept = into_contiguous(gates);
    // If this is the only handle of the gates, their gradients replace them.
    let in_place = kept.can_mut();
    // The gates are read before their gradients replace them.
    let g_n = (wanted.w_hh && spec.reset == Reset::BeforeMatmul)
        .then(|| lhs(call, states, Some(buffer(&kept))));
    let shape = [sizes.rows(), spec.saved_per_unit() * h];
    let d_gates = if in_place {
        Prim::<CubeBackend>(kept.clone()).reshape(shape).0
    } else {
        empty(&kept, Shape::new(shape))
    };
    let state_rows = match call.starts {
        Starts::FromState => 2 * n,
        Starts::None | Starts::FromZeros => n,
    };
    let d_h0 = empty_of(&kept, Shape::new([state_rows, h]), DType::F32);
    let d_h0 = match call.left_out() {
        // One row, because several may have padding.
        Some(_) => {
            Prim::<CubeBackend>::zeros([state_rows * h], &Prim(d_h0))
                .reshape([state_rows, h])
                .0
        }
        None => d_h0,
    };
    let reads = BackwardInputs {
        d_states: dense(d_states.clone()),
        states: buffer(states),
        gates: buffer(&kept),
        w_hh: dense(inputs.weights.w_hh.clone()),
        h0: optional(&inputs.sequence.h0),
        recurrent_mask: optional(&inputs.sequence.recurrent_mask),
        step_mask: optional(&inputs.sequence.step_mask),
        zoneout: zoneout(inputs),
        lengths: call.left_out().map(<[_]>::to_vec),
    };
    let writes = BackwardOutputs {
        d_gates: (!in_place).then(|| buffer(&d_gates)),
        d_h0: buffer(&d_h0),
    };
    let strategy = Settings::current().backward;
    let done = gru_cube::backward(&states.client, &call.sizes(), &reads, &writes, strategy);
    if !is_done("gru_backward", done, strategy) {
        return Err(Some(Box::new(kept)));
    }
    Ok(BackwardDone {
        d_gates: Prim(d_gates),
        d_h0: Prim(d_h0),
        g_n,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOT_ALLOWED: PlanError = PlanError::BeyondLimit {
        resource: gru_cube::Resource::Units,
        requested: 2,
        available: 1,
    };

    #[test]
    fn after_other_errors_the_composed_passes_run() {
        assert!(is_done("op", Ok(()), Strategy::Inferred));
        assert!(!is_done("op", Err(NOT_ALLOWED), Strategy::Inferred));
        let failed = PlanError::FailedTest {
            schedule: "sequence rows=1 width=1 n_threads=2 k_splits=1"
                .parse()
                .unwrap(),
            reason: "rejected".to_owned(),
        };
        assert!(!is_done("op", Err(failed), Strategy::Inferred));
    }

    #[test]
    #[should_panic(
        expected = "op: expected the forced schedule sequence rows=1 width=1 n_threads=2 k_splits=1 to run, \
                               got: units per cube: expected at most 1, got 2"
    )]
    fn an_error_names_the_forced_schedule() {
        let schedule = "sequence rows=1 width=1 n_threads=2 k_splits=1".parse();
        is_done("op", Err(NOT_ALLOWED), Strategy::Forced(schedule.unwrap()));
    }
}
