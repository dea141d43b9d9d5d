//! A small problem, and the comparison of its results.

use super::Failure;
use crate::backend::{
    GruCall,
    composed::prim::Prim,
    cube::{
        call::{recurrence, with_codes},
        tensor::{buffer, client},
    },
};
use burn::backend::TensorMetadata;
use burn::tensor::{DType, TensorData};
use burn_cubecl::{CubeBackend, tensor::CubeTensor};
use gru_cpu::{Gradients, Gru};
use gru_cube::{Buffers, Plan};
use gru_spec::{Activation, GruSpec, Inputs, Lengths, NAMES, Shape, Sizes};
use std::array;

/// Rows of the batch, and steps.
const N: usize = 3;
const T: usize = 3;

/// The conventions of a call, with inputs whose values are exact in every type.
pub(super) struct Small<'a> {
    call: &'a GruCall<CubeBackend>,
    gru: Gru,
    inputs: Inputs<(Vec<f32>, Shape)>,
    d_states: Vec<f32>,
}

impl<'a> Small<'a> {
    /// With the inputs that the call has.
    pub(super) fn new(call: &'a GruCall<CubeBackend>) -> Self {
        let h = call.sizes().h;
        let gru = Gru {
            sizes: Sizes {
                n: N,
                t: T,
                i: 3 * h,
                h,
            },
            order: call.order,
            spec: call.spec,
        };
        let mut shapes = gru.sizes.shapes(call.order.layout);
        if let Some(zoneout) = &call.inputs.sequence.zoneout {
            let [_, _, features] = Prim::<CubeBackend>(zoneout.clone()).dims();
            shapes.sequence.zoneout = Some(gru.sizes.sequence(call.order.layout, features));
        }
        shapes.weights.w_ih = None;
        let (given, shapes) = (call.inputs.as_ref().into_slots(), shapes.into_slots());
        let mut seed = 1;
        let slots = array::from_fn(|k| {
            let shape = shapes[k].filter(|_| given[k].is_some())?;
            Some((values(NAMES[k], shape.elements(), h, &mut seed), shape))
        });
        Self {
            call,
            gru,
            inputs: Inputs::from_slots(slots).expect("the required inputs of the call"),
            d_states: values("d_states", N * T * h, h, &mut seed),
        }
    }

    /// States, gates, and the gradients of the pre-activations and the initial state, as the kernels store them. Gates of
    /// skipped steps are NaN, because they are undefined.
    fn expected(&self) -> [Vec<f32>; 4] {
        let (h, saved) = (self.gru.sizes.h, self.gru.spec.saved_per_unit());
        let mut inputs = self.inputs.clone().map(|(values, _)| values);
        if let Some(zoneout) = &mut inputs.sequence.zoneout {
            // A share for each unit.
            let repeats = N * T * h / zoneout.len();
            let each = zoneout.iter().flat_map(|&share| vec![share; repeats]);
            *zoneout = each.collect();
        }
        let inputs = inputs.as_ref().map(Vec::as_slice);
        let mut states = vec![0.0; N * T * h];
        let mut gates = vec![0.0; N * T * saved * h];
        let gru = &self.gru;
        gru.forward(&inputs, &mut states, Some(&mut gates));

        let [mut d_x, mut d_h0, mut d_start] = [3 * T, 1, 1].map(|steps| vec![0.0; N * steps * h]);
        let has_start = inputs.sequence.start_state.is_some();
        let gradients = Gradients {
            x: Some(&mut d_x),
            h0: Some(&mut d_h0),
            start_state: has_start.then_some(&mut d_start),
            ..Default::default()
        };
        gru.backward(&inputs, &states, Some(&gates), &self.d_states, gradients);
        if has_start {
            d_h0.extend(d_start);
        }
        let mut d_gates = Vec::new();
        for (row, (d, gates)) in d_x
            .chunks(3 * h)
            .zip(gates.chunks_mut(saved * h))
            .enumerate()
        {
            // The gradient of q_n, if the reset comes after the product.
            let d_q_n = d[2 * h..].iter().zip(&*gates).map(|(d_n, r)| d_n * r);
            d_gates.extend(d.iter().copied().chain(d_q_n).take(saved * h));
            if inputs
                .sequence
                .step_mask
                .is_some_and(|mask| mask[row] == 0.0)
            {
                gates.fill(f32::NAN);
            }
        }
        [states, gates, d_gates, d_h0]
    }

    /// Tests the kernels of a pass with such buffers.
    pub(super) fn test(&self, plan: &Plan, buffers: &Buffers) -> Result<(), Failure> {
        let [states, gates, d_gates, d_h0] = self.expected();
        let dtype = self.call.inputs.sequence.x.dtype();
        let upload = |values: &[f32]| self.tensor(values, &[values.len()], dtype);
        // NaN shows values that a kernel does not write.
        let nan = |like: &[f32]| upload(&vec![f32::NAN; like.len()]);
        match buffers {
            Buffers::Forward { gates: kept, .. } => {
                let got = nan(&states);
                let got_gates = kept.as_ref().map(|_| nan(&gates));
                let buffers = Buffers::Forward {
                    steps: 0..T,
                    states: buffer(&got),
                    gates: got_gates.as_ref().map(buffer),
                };
                self.run(plan, &buffers)?;
                let may_jump = may_jump_forward(&self.gru.spec);
                self.judge("states", got, &states, may_jump)?;
                got_gates.map_or(Ok(()), |got| self.judge("gates", got, &gates, may_jump))
            }
            Buffers::Backward { d_gates: own, .. } => {
                let [states, gates, d_states] =
                    [&states, &gates, &self.d_states].map(|v| upload(v));
                let own = own.as_ref().map(|_| nan(&d_gates));
                let got = self.tensor(&vec![f32::NAN; d_h0.len()], &[d_h0.len()], DType::F32);
                let buffers = Buffers::Backward {
                    d_states: buffer(&d_states),
                    states: buffer(&states),
                    gates: buffer(&gates),
                    d_gates: own.as_ref().map(buffer),
                    d_h0: buffer(&got),
                };
                self.run(plan, &buffers)?;
                let may_jump = may_jump_backward(&self.gru.spec);
                self.judge("d_gates", own.unwrap_or(gates), &d_gates, may_jump)?;
                self.judge("d_h0", got, &d_h0, may_jump)
            }
        }
    }

    fn run(&self, plan: &Plan, buffers: &Buffers) -> Result<(), Failure> {
        let x = &self.call.inputs.sequence.x;
        let tensor = |(values, shape): (Vec<f32>, Shape)| self.tensor(&values, &shape, x.dtype());
        let small = GruCall {
            inputs: self.inputs.clone().map(tensor),
            lengths: Lengths::All,
            ..self.call.clone()
        };
        let small = with_codes(&small).expect("a call of the kernels");
        Ok(plan.run(client(x), &recurrence(&small), buffers)?)
    }

    fn tensor(&self, values: &[f32], shape: &[usize], dtype: DType) -> CubeTensor {
        let data = TensorData::new(values.to_vec(), shape).convert_dtype(dtype);
        Prim::<CubeBackend>::of_data(data, &self.call.inputs.sequence.x.device()).0
    }

    fn judge(
        &self,
        name: &str,
        got: CubeTensor,
        expected: &[f32],
        may_jump: bool,
    ) -> Result<(), Failure> {
        let bytes = client(&got).read_one(buffer(&got))?;
        let got = TensorData::from_bytes(bytes, [expected.len()], got.dtype());
        let got: Vec<f32> = got.iter().collect();
        let dtype = self.call.inputs.sequence.x.dtype();
        judge(name, &got, expected, dtype, may_jump)
    }
}

/// Multiples of 1/64 below 1, times a power of two. 0 and 1 for masks: every pair of step mask and start occurs.
fn values(name: &str, len: usize, h: usize, seed: &mut u32) -> Vec<f32> {
    let scale = match name {
        "w_hh" => 2f32.powf(-(h as f32).sqrt().log2().round()),
        "b_ih" | "b_hh" => 0.5,
        "recurrent_mask" => 2.0,
        _ => 1.0,
    };
    let draw = |k: usize| {
        *seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let value = ((*seed >> 25) as f32 - 63.5).trunc() / 64.0 * scale;
        match name {
            "step_mask" => f32::from(u8::from(k % 3 != 1)),
            "starts" => f32::from(u8::from(k % 2 == 1)),
            "zoneout" => value.abs(),
            _ => value,
        }
    };
    (0..len).map(draw).collect()
}

/// Whether a rounding error can change a state or a gate by more: at a jump of an activation.
fn may_jump_forward(spec: &GruSpec) -> bool {
    let mut all = spec.activations.into_array().into_iter();
    all.any(|activation| matches!(activation, Activation::ThresholdedRelu { .. }))
}

/// Whether a rounding error can change a gradient by more: at a clip, or a kink of an activation.
fn may_jump_backward(spec: &GruSpec) -> bool {
    let is_smooth = |activation| match activation {
        Activation::Sigmoid
        | Activation::Tanh
        | Activation::Identity
        | Activation::Affine { .. }
        | Activation::ScaledTanh { .. }
        | Activation::Softsign
        | Activation::Softplus => true,
        Activation::Elu { alpha } => alpha == 1.0,
        _ => false,
    };
    let mut all = spec.activations.into_array().into_iter();
    spec.clip_gates.is_some() || spec.clip_state.is_some() || !all.all(is_smooth)
}

/// Compares a result of a call of this type with what is expected, except NaN. Some values may differ by more than
/// rounding errors if the result `may_jump`.
fn judge(
    name: &str,
    got: &[f32],
    expected: &[f32],
    dtype: DType,
    may_jump: bool,
) -> Result<(), Failure> {
    // Many roundings of the type, and of TF32. A wrong kernel is off by more.
    let (tolerance, one_of) = match dtype {
        DType::F16 => (0.03, 1),
        DType::BF16 => (0.2, 1),
        _ => (0.005, 16),
    };
    let most = if may_jump { expected.len() / one_of } else { 0 };
    let mut wrong = 0;
    for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
        let is_close = (got - expected).abs() <= tolerance * (1.0 + expected.abs());
        if !is_close && !expected.is_nan() {
            wrong += 1;
            if wrong > most || !got.is_finite() {
                let reason = format!("{name}[{i}]: expected {expected}, got {got}");
                return Err(Failure::OfKernel(reason));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a result passes in which one value is off by so much.
    fn passes(dtype: DType, may_jump: bool, off: f32) -> bool {
        let expected = values("x", 100, 1, &mut 1);
        let mut got = expected.clone();
        got[99] += off;
        judge("d_gates", &got, &expected, dtype, may_jump).is_ok()
    }

    #[test]
    fn one_wrong_value_fails() {
        for (dtype, rounding, error) in [
            (DType::F32, 1e-3, 0.02),
            (DType::F16, 1e-2, 0.1),
            (DType::BF16, 0.1, 0.5),
        ] {
            assert!(passes(dtype, false, rounding), "{dtype:?}");
            assert!(!passes(dtype, false, error), "{dtype:?}");
            assert!(!passes(dtype, false, f32::NAN), "{dtype:?}");
        }
        let undefined = judge(
            "gates",
            &[f32::NAN, 1.0],
            &[f32::NAN, 1.0],
            DType::F32,
            false,
        );
        assert_eq!(undefined, Ok(()));
        let unwritten = judge("states", &[f32::NAN], &[1.0], DType::F32, false);
        let reason = "states[0]: expected 1, got NaN".to_owned();
        assert_eq!(unwritten, Err(Failure::OfKernel(reason)));
    }

    /// A rounding error decides on which side of a clip a value is.
    #[test]
    fn a_few_gradients_at_a_clip_may_differ() {
        for dtype in [DType::F32, DType::F16] {
            assert!(passes(dtype, true, 0.5));
            assert!(!passes(dtype, true, f32::NAN));
        }
        assert!(judge("d_gates", &[0.5; 32], &[0.0; 32], DType::F32, true).is_err());
    }

    /// A clip and a kink leave no state far from its right value, but a jump does.
    #[test]
    fn states_may_differ_at_a_jump_only() {
        let may_jump = |spec: GruSpec| (may_jump_forward(&spec), may_jump_backward(&spec));
        let smooth = GruSpec::default();
        assert_eq!(may_jump(smooth), (false, false));
        assert_eq!(may_jump(smooth.with_clip_state(Some(0.6))), (false, true));
        let with = |n| {
            let gates = [Activation::Sigmoid, Activation::Softplus, n];
            may_jump(smooth.with_activations(gates.into()))
        };
        assert_eq!(with(Activation::Elu { alpha: 1.0 }), (false, false));
        assert_eq!(with(Activation::Elu { alpha: 0.5 }), (false, true));
        assert_eq!(
            with(Activation::ThresholdedRelu { alpha: 0.5 }),
            (true, true)
        );
    }
}
