//! The GRUs of Opus: weights of 8 bits, which `benches/models/opus.py` reads from its sources, and states of its own
//! functions.

use gru_convert::StateDict;
use gru_cpu::{Stack, StackLayer, StackStream, Weights, spec::Precision};
use std::{path::Path, sync::Arc};

/// The allowed rms distance of `Full` from float64. A sum of 500 products in float32 stays below it, and a wrong gate or bias
/// is a thousand times as far.
const FULL: f64 = 1e-6;
/// The allowed rms distance of Opus from float64. A larger one means other equations, or a wrong record.
const OPUS: f64 = 1e-2;
/// The allowed rms distance of `Int8`, as a multiple of Opus' own: both round inputs and states to 8 bits, with equal weights.
/// The rounding errors of 200 steps differ by some percent.
const INT8: f64 = 1.1;

/// Runs every GRU of the record as a stream.
pub fn run(root: &Path) -> Result<(), String> {
    let path = root.join("recorded/opus.safetensors");
    let record = StateDict::from_safetensors(&path).map_err(|e| e.to_string())?;
    let names = record.keys().filter_map(|key| key.strip_suffix(":x"));
    let failures: Vec<String> = names.filter_map(|name| gru(&record, name).err()).collect();
    if failures.is_empty() {
        Ok(())
    } else {
        Err(failures.join("\n"))
    }
}

fn gru(record: &StateDict, name: &str) -> Result<(), String> {
    let numbers = |key: &str| -> Result<Vec<f64>, String> {
        let key = format!("{name}:{key}");
        let data = record.get(&key).ok_or(format!("{key} is missing"))?;
        let data = data.clone().convert::<f64>();
        data.try_into_vec().map_err(|e| format!("{key}: {e:?}"))
    };
    let floats = |key: &str| -> Result<Vec<f32>, String> {
        Ok(numbers(key)?.into_iter().map(|v| v as f32).collect())
    };
    let [w_ih, w_hh, b_ih, b_hh, x] = ["w_ih", "w_hh", "b_ih", "b_hh", "x"].map(floats);
    let (w_ih, w_hh, b_ih, b_hh, x) = (w_ih?, w_hh?, b_ih?, b_hh?, x?);
    let (y, float64) = (numbers("y")?, numbers("y.f64")?);
    let h = b_hh.len() / 3;
    let i = w_ih.len() / (3 * h);
    let of_opus = rms(&y, &float64);
    if of_opus.is_nan() || of_opus > OPUS {
        return Err(format!("{name}: Opus differs by {of_opus:e} from float64"));
    }
    let both = [(Precision::Full, FULL), (Precision::Int8, INT8 * of_opus)];
    let has_8_bits = numbers("bits")? == [8.0];
    for (precision, most) in both.into_iter().take(1 + usize::from(has_8_bits)) {
        let layer = StackLayer::new(Weights {
            b_ih: Some(&b_ih),
            b_hh: Some(&b_hh),
            ..Weights::new(Some(&w_ih), &w_hh)
        });
        let stack = Stack::new(precision, [i, h], 1, &[layer]);
        let mut stream = StackStream::new(Arc::new(stack), 1);
        let mut states = Vec::new();
        for x in x.chunks_exact(i) {
            states.extend(stream.step(x).iter().map(|&v| f64::from(v)));
        }
        let distance = rms(&states, &float64);
        if distance.is_nan() || distance > most {
            return Err(format!(
                "{name}: {precision:?} differs by {distance:e} from float64, allowed is {most:e}"
            ));
        }
    }
    Ok(())
}

/// The root of the mean of squared differences.
fn rms(got: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(got.len(), expected.len());
    let squares = got.iter().zip(expected).map(|(a, b)| (a - b) * (a - b));
    (squares.sum::<f64>() / got.len() as f64).sqrt()
}
