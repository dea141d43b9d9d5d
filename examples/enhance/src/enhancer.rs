//! The stream: analysis, network, synthesis.

use crate::HOP;
use burn::tensor::{Device, Tensor, TensorData};
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex, num_complex::Complex32};
use std::{f32::consts::PI, sync::Arc};

#[allow(clippy::all, missing_docs, unused)]
mod gtcrn {
    include!(concat!(env!("OUT_DIR"), "/model/gtcrn.rs"));
}

const FRAME: usize = 2 * HOP;
const BINS: usize = HOP + 1;

/// One stream of sound at 16 kHz, with the state of the network.
pub struct Enhancer {
    device: Device,
    model: gtcrn::Model,
    /// Past frames for the convolutions.
    conv: Tensor<5>,
    /// States of the GRUs of temporal attention.
    tra: Tensor<5>,
    /// States of the GRUs over time.
    inter: Tensor<4>,
    forward: Arc<dyn RealToComplex<f32>>,
    inverse: Arc<dyn ComplexToReal<f32>>,
    /// Root of the Hann window. The squares of two neighbours add up to 1.
    window: [f32; FRAME],
    /// The last two hops of the input.
    input: [f32; FRAME],
    /// The second half of the last output frame.
    tail: [f32; HOP],
}

impl Default for Enhancer {
    /// A stream that begins with silence.
    fn default() -> Self {
        let device = Device::flex();
        let mut planner = RealFftPlanner::new();
        let hann = |k: usize| 0.5 - 0.5 * (2.0 * PI * k as f32 / FRAME as f32).cos();
        Self {
            model: gtcrn::Model::from_embedded(&device),
            conv: Tensor::zeros([2, 1, 16, 16, 33], &device),
            tra: Tensor::zeros([2, 3, 1, 1, 16], &device),
            inter: Tensor::zeros([2, 1, 33, 16], &device),
            forward: planner.plan_fft_forward(FRAME),
            inverse: planner.plan_fft_inverse(FRAME),
            window: std::array::from_fn(|k| hann(k).sqrt()),
            input: [0.0; FRAME],
            tail: [0.0; HOP],
            device,
        }
    }
}

impl Enhancer {
    /// Processes the next samples. Returns the enhanced samples of the previous call: the delay is one hop.
    pub fn push(&mut self, hop: &[f32; HOP]) -> [f32; HOP] {
        self.input.copy_within(HOP.., 0);
        self.input[HOP..].copy_from_slice(hop);
        let mut frame = self.input;
        apply(&mut frame, &self.window);
        let mut bins = [Complex32::default(); BINS];
        self.forward
            .process(&mut frame, &mut bins)
            .expect("the sizes are the plan's");

        let mut bins = self.network(&bins);
        // The spectrum of a real signal has real ends.
        bins[0].im = 0.0;
        bins[BINS - 1].im = 0.0;

        self.inverse
            .process(&mut bins, &mut frame)
            .expect("the sizes are the plan's");
        apply(&mut frame, &self.window);
        let sum = |k: usize| self.tail[k] + frame[k] / FRAME as f32;
        let output = std::array::from_fn(sum);
        self.tail = std::array::from_fn(|k| frame[HOP + k] / FRAME as f32);
        output
    }

    fn network(&mut self, bins: &[Complex32; BINS]) -> [Complex32; BINS] {
        let values: Vec<f32> = bins.iter().flat_map(|bin| [bin.re, bin.im]).collect();
        let mix = Tensor::from_data(TensorData::new(values, [1, BINS, 1, 2]), &self.device);
        let states = (self.conv.clone(), self.tra.clone(), self.inter.clone());
        let enhanced;
        (enhanced, self.conv, self.tra, self.inter) =
            self.model.forward(mix, states.0, states.1, states.2);
        let values = enhanced
            .into_data()
            .try_into_vec::<f32>()
            .expect("the model has float32");
        std::array::from_fn(|k| Complex32::new(values[2 * k], values[2 * k + 1]))
    }
}

fn apply(frame: &mut [f32; FRAME], window: &[f32; FRAME]) {
    frame.iter_mut().zip(window).for_each(|(x, w)| *x *= w);
}
