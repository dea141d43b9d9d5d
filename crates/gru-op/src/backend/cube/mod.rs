//! The CubeCL backends: Burn computes the large products, and the kernels of `gru-cube` the recurrence.
//!
//! Temporary buffers that grow with T are computed in [`chunks`] of time. Calls without a kernel run the
//! composed passes: float64, and a device whose limits no kernel fits.

mod call;
mod chunks;
mod over_rows;
mod products;
mod recompute;
mod self_test;
mod tensor;

use self::tensor::{buffer, client, dense, empty};
use self::{products::BackwardDone, self_test::NotRun};

use crate::{
    backend::composed,
    backend::composed::prim::Prim,
    backend::padded::{self, Places},
    backend::{GruBackend, GruCall, GruGradients, GruSaved},
};
use burn::{
    backend::{TensorMetadata, tensor::FloatTensor},
    tensor::DType,
};
use burn_cubecl::{CubeBackend, kernel::into_contiguous, tensor::CubeTensor};
use cubecl::server::Handle;
use gru_cube::{Buffers, Limits, PlannedPass, Recurrence, Settings, Starts, Strategy};
use gru_spec::{PerInput, Reset, Sizes};

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
    let Some(with_codes) = call::with_codes(&call) else {
        return composed::gradients(call, saved, d_states, wanted);
    };
    let GruSaved { states, gates } = saved;
    let done = match gates {
        Some(gates) => {
            let recurrence = call::recurrence(&with_codes);
            backward(&with_codes, &recurrence, &states, gates, &d_states, wanted)
        }
        None => recompute::gradients(&with_codes, &states, &d_states, wanted),
    };
    drop(with_codes);
    done.unwrap_or_else(|gates| {
        let gates = gates.map(|gates| *gates);
        composed::gradients(call, GruSaved { states, gates }, d_states, wanted)
    })
}

/// The left side of the recurrent product, `[T·N,H]`: `g = mask ⊙ h₋₁`, or `r ⊙ g` with gates. The states are dense.
fn lhs(recurrence: &Recurrence, states: &CubeTensor, gates: Option<&Handle>) -> Prim<CubeBackend> {
    let Sizes { h, .. } = recurrence.sizes;
    let g = empty(states, &[recurrence.sizes.places(), h], states.dtype());
    let (client, states) = (client(states), buffer(states));
    gru_cube::recurrent_inputs(client, recurrence, &states, gates, &buffer(&g));
    Prim(g)
}

/// Runs the kernels of a pass, after their self-test. Returns whether they ran. If not, the composed passes run instead,
/// and the log has a warning.
///
/// # Panics
/// If a forced schedule is not allowed.
fn run(call: &GruCall<CubeBackend>, recurrence: &Recurrence, buffers: &Buffers) -> bool {
    let (settings, client) = (Settings::current(), client(&call.inputs.sequence.x));
    let strategy = match buffers {
        Buffers::Forward { .. } => settings.forward,
        Buffers::Backward { .. } => settings.backward,
    };
    let planned = |strategy| {
        let pass = PlannedPass::new(client, recurrence, buffers, strategy)?;
        Ok((pass.plan().schedule(), pass))
    };
    let test = |pass: &PlannedPass| {
        if settings.self_test {
            self_test::test(call, buffers, pass.plan())
        } else {
            Ok(())
        }
    };
    let pass = self_test::passing(strategy, planned, test);
    is_done(pass.map(PlannedPass::run), strategy)
}

/// Whether the kernels ran.
fn is_done(done: Result<(), NotRun>, strategy: Strategy) -> bool {
    match (done, strategy) {
        (Ok(()), _) => true,
        (Err(error), Strategy::Forced(schedule)) => {
            panic!("gru-op: expected the forced schedule {schedule} to run, got: {error}")
        }
        // The log has a warning from the test.
        (Err(NotRun::FailedTest { .. }), _) => false,
        (Err(error), _) => {
            log::warn!(
                "no GPU kernel runs this call, so Burn's operations run step by step: {error}"
            );
            false
        }
    }
}

/// `None` if no kernel runs this call.
fn forward(call: &GruCall<CubeBackend>, keep: bool) -> Option<GruSaved<CubeBackend>> {
    let call = &*call::with_codes(call)?;
    let mut recurrence = call::recurrence(call);
    let (x, w_ih) = (&call.inputs.sequence.x, &call.inputs.weights.w_ih);
    let (sizes, layout, dtype) = (recurrence.sizes, call.order.layout, x.dtype());
    let Sizes { n, t, i, h } = sizes;
    let states = empty(x, &sizes.sequence(layout, h), dtype);
    let width = call.spec.saved_per_unit() * h;
    let gates = keep.then(|| empty(x, &sizes.sequence(layout, width), dtype));
    // Products that leave out padding also need p of the valid steps only.
    let copies = 1 + usize::from(call.lengths.of_rows().is_some());
    let per_step = copies * n * 3 * h * dtype.size();
    let in_and_out = (i + h).saturating_mul(n * t).saturating_mul(dtype.size());
    let least = chunks::min_bytes(Limits::of(client(&states)).cubes);
    let limit = match (w_ih, keep) {
        // x is p already.
        (None, _) => usize::MAX,
        // A sixteenth of the inputs and outputs of the call.
        (Some(_), false) => least.max(in_and_out / 16),
        // The backward pass needs as much for the gradients of x and the states.
        (Some(_), true) => least.max(in_and_out),
    };
    let x = Prim(x.clone());
    for steps in chunks::chunks(t, per_step, limit) {
        // The longest row is the first.
        let lengths = recurrence.lengths.as_ref();
        if lengths.is_some_and(|lengths| lengths[0] <= steps.start) {
            break;
        }
        let part = chunks::of_sequence(&x, &steps, call.order);
        let p = match w_ih {
            Some(w_ih) => {
                let rows = part.reshape([n * steps.len(), i]);
                let w_ih = Prim(w_ih.clone());
                Places::product(&call::valid(call, steps.clone()), rows, w_ih)
            }
            None => part,
        };
        // The kernel adds b_ih, which saves a pass over p.
        recurrence.inputs.sequence.x = dense(&p.0);
        let buffers = Buffers::Forward {
            steps,
            states: buffer(&states),
            gates: gates.as_ref().map(buffer),
        };
        if !run(call, &recurrence, &buffers) {
            return None;
        }
    }
    Some(GruSaved { states, gates })
}

/// The gates, as they were saved, if no kernel runs this call.
type NotDone = Option<Box<CubeTensor>>;

/// Runs the kernels, then the products over all steps.
fn backward(
    call: &GruCall<CubeBackend>,
    recurrence: &Recurrence,
    states: &CubeTensor,
    gates: CubeTensor,
    d_states: &CubeTensor,
    wanted: PerInput<bool>,
) -> Result<GruGradients<CubeBackend>, NotDone> {
    let states = into_contiguous(states.clone());
    let done = run_backward(call, recurrence, &states, gates, d_states, wanted)?;
    let gradients = products::gradients_of_inputs(call, recurrence, &states, done, wanted);
    Ok(GruGradients(gradients.map(|gradient| Some(gradient?.0))))
}

/// Runs the kernels. The states are dense.
fn run_backward(
    call: &GruCall<CubeBackend>,
    recurrence: &Recurrence,
    states: &CubeTensor,
    gates: CubeTensor,
    d_states: &CubeTensor,
    wanted: PerInput<bool>,
) -> Result<BackwardDone, NotDone> {
    let (spec, Sizes { n, h, .. }) = (call.spec, recurrence.sizes);
    let kept = into_contiguous(gates);
    // If this is the only handle of the gates, their gradients replace them.
    let in_place = kept.can_mut();
    // The gates are read before their gradients replace them.
    let g_n = (wanted.w_hh && spec.reset == Reset::BeforeMatmul)
        .then(|| lhs(recurrence, states, Some(&buffer(&kept))));
    let shape = [recurrence.sizes.places(), spec.saved_per_unit() * h];
    let d_gates = if in_place {
        Prim::<CubeBackend>(kept.clone()).reshape(shape).0
    } else {
        empty(&kept, &shape, kept.dtype())
    };
    let state_rows = match recurrence.starts {
        Starts::FromState => 2 * n,
        Starts::None | Starts::FromZeros => n,
    };
    let d_h0 = empty(&kept, &[state_rows, h], DType::F32);
    let d_h0 = match recurrence.lengths {
        // One row, because several may have padding.
        Some(_) => {
            Prim::<CubeBackend>::zeros([state_rows * h], &Prim(d_h0))
                .reshape([state_rows, h])
                .0
        }
        None => d_h0,
    };
    let buffers = Buffers::Backward {
        d_states: dense(d_states),
        states: buffer(states),
        gates: buffer(&kept),
        d_gates: (!in_place).then(|| buffer(&d_gates)),
        d_h0: buffer(&d_h0),
    };
    if !run(call, recurrence, &buffers) {
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

    const NOT_ALLOWED: NotRun = NotRun::NotAllowed(gru_cube::PlanError::BeyondLimit {
        resource: gru_cube::Resource::Threads,
        requested: 2,
        available: 1,
    });

    #[test]
    fn after_other_errors_the_composed_passes_run() {
        assert!(is_done(Ok(()), Strategy::Inferred));
        assert!(!is_done(Err(NOT_ALLOWED), Strategy::Inferred));
    }

    #[test]
    #[should_panic(
        expected = "gru-op: expected the forced schedule sequence rows=1 width=1 n_threads=2 k_splits=1 to run, \
                               got: threads per cube: expected at most 1, got 2"
    )]
    fn an_error_names_the_forced_schedule() {
        let schedule = "sequence rows=1 width=1 n_threads=2 k_splits=1".parse();
        is_done(Err(NOT_ALLOWED), Strategy::Forced(schedule.unwrap()));
    }
}
