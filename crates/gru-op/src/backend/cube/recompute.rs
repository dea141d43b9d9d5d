//! Backward without saved gates: chunks of time from the last to the first. The gates of each chunk are
//! recomputed, so that memory for the gates of all steps is not needed.

use super::{
    NotDone, Prim, backward,
    call::{is_padding, recurrence, valid},
    chunks, lhs,
    tensor::{buffer, client, dense, empty},
};
use crate::backend::{GruCall, GruGradients, composed::ComposedCall, padded::Places};
use burn::{backend::Backend, tensor::DType};
use burn_cubecl::{CubeBackend, kernel::into_contiguous, tensor::CubeTensor};
use gru_cube::{Limits, Products, Recurrence};
use gru_spec::{PerInput, Reset};

/// See [`GruBackend::gru_gradients`](crate::backend::GruBackend::gru_gradients).
pub(super) fn gradients(
    call: &GruCall<CubeBackend>,
    states: &CubeTensor,
    d_states: &CubeTensor,
    wanted: PerInput<bool>,
) -> Result<GruGradients<CubeBackend>, NotDone> {
    let whole = ComposedCall::new(call.clone());
    let x = &whole.inputs.sequence.x;
    let [states, d_states] = [states, d_states].map(|tensor| Prim::<CubeBackend>(tensor.clone()));
    let per_step = whole.sizes.n * 3 * whole.sizes.h * x.dtype().size();
    // A chunk needs p, q, g and its gates at the same time, several times the bytes of p.
    let limit = chunks::min_bytes(Limits::of(client(&states.0)).cubes) / 2;
    let all = chunks::chunks(whole.sizes.t, per_step, limit);
    // The gradient of x, with every chunk at its place. A single chunk returns its own buffer.
    let mut d_x = (wanted.x && all.len() > 1)
        .then(|| Prim::<CubeBackend>(empty(&x.0, &x.dims::<3>(), x.dtype())));
    // The other gradients: the state before the latest chunk, and sums over chunks.
    let mut sums = PerInput::<Option<Prim<CubeBackend>>>::default();
    for steps in all.rev() {
        let chunk = chunks::of_call(call, &states, &steps);
        // No gradient leaves the padding. The gradient of x there is undefined.
        if is_padding(&chunk.lengths) {
            continue;
        }
        let of = |sequence| chunks::of_sequence(sequence, &steps, whole.order);
        let d_chunk = match sums.h0.take() {
            Some(d_after) => add_to_last(of(&d_states), d_after, &whole),
            None => of(&d_states),
        };
        let states = of(&states);
        let mut recurrence = recurrence(&chunk);
        let gates = gates(&chunk, &mut recurrence, &states);
        let wanted = PerInput { h0: true, ..wanted };
        let done = backward(&chunk, &recurrence, &states.0, gates, &d_chunk.0, wanted);
        // The gates of a chunk are not the gates of the call.
        let GruGradients(gradients) = done.map_err(|_| None)?;
        let mut gradients = gradients.map(|gradient| gradient.map(Prim));
        if let Some(all) = d_x.take() {
            let times = whole.order.direction.times(steps, whole.sizes.t);
            d_x = gradients
                .x
                .take()
                .map(|x| all.with(whole.time_dim(), times, x));
        }
        let (x, h0) = (gradients.x.take(), gradients.h0.take());
        sums = PerInput {
            x,
            h0,
            ..sums.zip(gradients).map(|(sum, part)| add(sum, part))
        };
    }
    sums.x = d_x.or(sums.x);
    let gradients = wanted.zip(sums).map(|(wanted, sum)| {
        let sum = sum.filter(|_| wanted)?;
        Some(sum.cast(x.dtype()).0)
    });
    Ok(GruGradients(gradients))
}

/// The gates of all steps of a call, from the states.
fn gates(
    call: &GruCall<CubeBackend>,
    recurrence: &mut Recurrence,
    states: &Prim<CubeBackend>,
) -> CubeTensor {
    let (spec, whole) = (call.spec, ComposedCall::new(call.clone()));
    let valid = valid(call, 0..whole.sizes.t);
    let product = |rows, weight| Places::product(&valid, rows, weight);
    let x = whole.rows(whole.inputs.sequence.x.clone());
    let p = match &whole.inputs.weights.w_ih {
        Some(w_ih) => product(x, w_ih.clone()),
        None => x,
    };
    recurrence.inputs.sequence.x = dense(&p.0);
    let h = whole.sizes.h;
    let width = spec.saved_per_unit() * h;
    let gates = empty(&states.0, &whole.sequence_shape(width), states.dtype());
    let g = lhs(recurrence, &into_contiguous(states.0.clone()), None);
    let w_hh = &whole.inputs.weights.w_hh;
    let columns = |from: usize, to: usize| w_hh.narrow(1, from * h..to * h);
    let client = client(&states.0);
    let make = |products| gru_cube::gates(client, recurrence, &products, &buffer(&gates));
    match spec.reset {
        Reset::AfterMatmul => {
            let q = dense(&product(g, w_hh.clone()).0);
            make(Products::All { q });
        }
        Reset::BeforeMatmul => {
            let q = dense(&product(g.clone(), columns(0, 2)).0);
            let times_r = buffer(&g.0);
            make(Products::ResetAndUpdate { q, g: times_r });
            let q = dense(&product(g, columns(2, 3)).0);
            make(Products::Candidate { q });
        }
    }
    gates
}

/// A sequence with `[N,H]` added to the step that is computed last.
fn add_to_last(
    sequence: Prim<CubeBackend>,
    rows: Prim<CubeBackend>,
    call: &ComposedCall<CubeBackend>,
) -> Prim<CubeBackend> {
    let t = sequence.dims::<3>()[call.time_dim()];
    let last = call.order.direction.time(t - 1, t);
    let step = sequence.narrow(call.time_dim(), last..last + 1);
    let sum = rows.reshape(step.dims::<3>()) + step;
    sequence.with(call.time_dim(), last..last + 1, sum)
}

/// Adds a chunk's part of a gradient. The sum is float32: hundreds of parts would lose much in 16 bits.
fn add<B: Backend>(sum: Option<Prim<B>>, part: Option<Prim<B>>) -> Option<Prim<B>> {
    match (sum, part) {
        (Some(sum), Some(part)) => Some(sum.cast(DType::F32) + part.cast(DType::F32)),
        (sum, part) => sum.or(part),
    }
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use super::*;
    use burn::tensor::TensorData;
    use burn_flex::{Flex, FlexTensor};

    #[test]
    fn many_parts_of_16_bits_are_added() {
        for dtype in [DType::F16, DType::BF16] {
            let one = TensorData::ones::<f32, _>([1]).convert_dtype(dtype);
            let part = || Some(Prim::<Flex>(FlexTensor::from_data(one.clone())));
            // float16 has no odd number above 2048, bfloat16 none above 256.
            let sum = (0..3000).fold(None, |sum, _| add(sum, part()));
            let sum = sum.expect("it has parts").0.into_data();
            assert_eq!(sum.iter::<f32>().collect::<Vec<_>>(), [3000.0], "{dtype:?}");
        }
    }
}
