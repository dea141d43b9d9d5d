//! NSNet2 with rounded GRU weights: the enhanced sound of a whole file.

use burn::tensor::{Device, Tensor, activation};
use gru_op::Precision;
use gru_testkit::close::close;

use super::Files;
use crate::{backends::TestBackend, runs::values};

/// The sound compared with float32, and the change of its ratio to clean speech, in dB. Both bars were chosen before
/// they were measured.
const LEAST_DB: [(Precision, f64); 2] = [(Precision::Bf16, 45.0), (Precision::Int8, 30.0)];
const MOST_CHANGE_DB: f64 = 0.1;

/// The allowed distance of the gains from ONNX Runtime. The network at 48 kHz ends with a clip to at least 1e-4, which
/// is left out here.
const FROM_ONNX_RUNTIME: f64 = 2e-4;

impl Files {
    /// Enhances the recorded file with each precision.
    pub(super) fn sound(&self, _: &TestBackend, device: &Device) -> Result<(), String> {
        let (gains, full) = self.enhance(Precision::Full, device)?;
        close(
            "gains",
            &gains,
            &self.record.numbers("sound:gains")?,
            FROM_ONNX_RUNTIME,
        )?;
        let clean = self.record.numbers("sound:clean")?;
        let expected = si_sdr(&full, &clean);
        for (precision, least) in LEAST_DB {
            let (_, sound) = self.enhance(precision, device)?;
            let (db, from_clean) = (si_sdr(&sound, &full), si_sdr(&sound, &clean));
            let name = self.published.name;
            eprintln!(
                "{name}: {precision:?}: {db:.1} dB; {from_clean:.2} dB from clean speech, {expected:.2} in float32"
            );
            if db.is_nan() || db < least {
                return Err(format!(
                    "{precision:?}: expected at least {least} dB, got {db:.1}"
                ));
            }
            if (from_clean - expected).abs() > MOST_CHANGE_DB {
                return Err(format!(
                    "{precision:?}: expected {expected:.2} dB from clean speech within {MOST_CHANGE_DB}, got \
                     {from_clean:.2}"
                ));
            }
        }
        Ok(())
    }

    /// The gains of all frames, and the samples.
    fn enhance(
        &self,
        precision: Precision,
        device: &Device,
    ) -> Result<(Vec<f64>, Vec<f64>), String> {
        let matrix = |name: &str| -> Result<Tensor<2>, String> {
            Ok(Tensor::from_data(
                self.record.data(&format!("sound:{name}"))?,
                device,
            ))
        };
        let x = Tensor::<3>::from_data(self.record.data("stack:file:X")?, device);
        let y = self.run_prepared(x, None, precision, device)?;
        let [t, _, h] = y.dims();
        let mut y = y.reshape([t, h]);
        for k in 0..3 {
            let bias =
                Tensor::<1>::from_data(self.record.data(&format!("sound:bias.{k}"))?, device);
            y = y.matmul(matrix(&format!("weight.{k}"))?) + bias.unsqueeze();
            y = if k < 2 {
                activation::relu(y)
            } else {
                activation::sigmoid(y)
            };
        }
        let both = Tensor::cat(vec![y.clone(), y.clone()], 1);
        let frames = (matrix("spectrum")? * both).matmul(matrix("synthesis")?);
        let ([_, size], hop) = (frames.dims(), self.record.numbers("sound:hop")?[0] as usize);
        let mut samples = vec![0.0; (t - 1) * hop + size];
        for (k, frame) in values(frames).chunks_exact(size).enumerate() {
            let to = &mut samples[k * hop..][..size];
            to.iter_mut().zip(frame).for_each(|(to, v)| *to += v);
        }
        Ok((values(y), samples))
    }
}

/// The scale-invariant ratio of a signal to its distance from `target`, in dB.
fn si_sdr(signal: &[f64], target: &[f64]) -> f64 {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let len = signal.len().min(target.len());
    let (signal, target) = (&signal[..len], &target[..len]);
    let scale = dot(signal, target) / dot(target, target);
    let error = |(s, t): (&f64, &f64)| (s - scale * t) * (s - scale * t);
    let error: f64 = signal.iter().zip(target).map(error).sum();
    10.0 * (scale * scale * dot(target, target) / error).log10()
}
