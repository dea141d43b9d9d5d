//! Compares the numbers of the peers before they are timed.

use std::{collections::BTreeMap, fs, path::Path};

use crate::problem::{Mode, Problem};

/// The largest relative error of a factor of these peers. Integers of 8 bits round like bfloat16. Burn's products on
/// CUDA round float32 factors to TF32, and PyTorch's do it by default. TF32 has as many mantissa bits as float16.
pub fn rounding(peers: &[String]) -> f64 {
    let any = |word: &str| peers.iter().any(|peer| peer.contains(word));
    if ["bfloat16", "bf16", "int8"].into_iter().any(any) {
        1.0 / 256.0
    } else if any("cuda") || any("float16") {
        1.0 / 2048.0
    } else {
        0.0
    }
}

/// The numbers of a peer by name.
pub struct Outputs {
    peer: String,
    tensors: BTreeMap<String, Vec<f32>>,
}

impl Outputs {
    /// Reads the file of a peer, which contains the named tensors one after the other. The output past the end of a row
    /// becomes zero, because a peer that computes padding has other numbers there.
    ///
    /// # Errors
    /// If these are not all outputs, or the file has more or fewer numbers.
    pub fn read(
        peer: &str,
        names: &[String],
        path: &Path,
        problem: &Problem,
        mode: Mode,
    ) -> Result<Self, String> {
        let mut sorted = [names.to_vec(), problem.outputs(mode)];
        sorted.iter_mut().for_each(|names| names.sort());
        let [got, expected] = sorted;
        if got != expected {
            return Err(format!(
                "{peer}: expected the outputs {expected:?}, got {got:?}"
            ));
        }
        let bytes = fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let sizes = names.iter().map(|name| size(name, problem));
        let (got, expected) = (bytes.len(), 4 * sizes.clone().sum::<usize>());
        if got != expected {
            return Err(format!("{peer}: expected {expected} bytes, got {got}"));
        }
        let (words, _) = bytes.as_chunks();
        let mut floats = words.iter().map(|&word| f32::from_le_bytes(word));
        let mut tensors: BTreeMap<String, Vec<f32>> = names
            .iter()
            .zip(sizes)
            .map(|(name, size)| (name.clone(), floats.by_ref().take(size).collect()))
            .collect();
        if let (Some(lengths), Some(y)) = (problem.lengths(), tensors.get_mut("y")) {
            let width = y.len() / lengths.len();
            let [_, t, ..] = problem.shape.sizes;
            for (row, length) in y.chunks_mut(width).zip(lengths) {
                row[length * width / t..].fill(0.0);
            }
        }
        Ok(Self {
            peer: peer.to_owned(),
            tensors,
        })
    }
}

/// The size of an output.
fn size(name: &str, problem: &Problem) -> usize {
    let (kind, k) = name.split_once('.').unwrap_or((name, "0"));
    let weights = &problem.weights[k.parse::<usize>().expect("a direction of a layer")];
    let tensor = match kind {
        "y" => &problem.upstream,
        "h_n" | "d_h0" => &problem.h0,
        "d_x" => &problem.x,
        "d_w_ih" => &weights[0],
        "d_w_hh" => &weights[1],
        "d_b_ih" => &weights[2],
        _ => &weights[3],
    };
    tensor.len()
}

/// Compares every peer with the last one, which is not of this workspace if there is one. Returns the largest difference
/// of each peer, relative to the largest value of the tensor. The last one has the largest of all.
///
/// A float32 sum of K terms in any order has an error near √K·2⁻²⁴ times its largest terms. The longest sums are
/// the weight gradients, over N·T steps, of errors that themselves come from sums over I + H numbers in each of L·D layers.
/// The factor 8 allows the two peers to differ in opposite directions, and the approximations of σ and tanh in both. A
/// wrong gate, weight, start or length changes values by a tenth or more.
///
/// A device may round the factors of products: `rounding` is the largest relative error of a factor, or 0. The errors of
/// K terms have random signs, like the terms themselves, so the relative error of a sum does not grow with K.
///
/// # Errors
/// If two peers differ by more.
pub fn check(
    outputs: &[Outputs],
    problem: &Problem,
    rounding: f64,
) -> Result<BTreeMap<String, f64>, String> {
    let [n, t, i, h, layers, directions] = problem.shape.sizes;
    let terms = ((n * t) as f64).sqrt() + ((i + h) as f64).sqrt();
    let of_layer = terms / f64::from(1 << 24) + 2.0 * rounding;
    let allowed = 8.0 * of_layer * (layers * directions) as f64;
    let mut differences = BTreeMap::new();
    let Some((reference, others)) = outputs.split_last() else {
        return Ok(differences);
    };
    if others.is_empty() {
        println!(
            "{:16} is not compared, because no other peer computes this row",
            reference.peer
        );
        return Ok(differences);
    }
    for other in others {
        let mut worst = 0.0f64;
        for (name, tensor) in &other.tensors {
            let difference = difference(tensor, &reference.tensors[name]);
            if difference.is_nan() || difference > allowed {
                return Err(format!(
                    "{} {name}: {} differs from {} by {difference:.2e} of the largest value, allowed {allowed:.2e}",
                    problem.shape.name, other.peer, reference.peer
                ));
            }
            worst = worst.max(difference);
        }
        differences.insert(other.peer.clone(), worst);
    }
    let worst = differences.values().copied().fold(0.0, f64::max);
    let count = outputs.len();
    println!("{count} peers agree: {worst:.1e} of {allowed:.1e}");
    differences.insert(reference.peer.clone(), worst);
    Ok(differences)
}

/// The largest difference, relative to the largest expected value. NaN if a number is not finite.
fn difference(got: &[f32], expected: &[f32]) -> f64 {
    let largest = expected
        .iter()
        .fold(f32::MIN_POSITIVE, |most, e| most.max(e.abs()));
    let errors = got.iter().zip(expected);
    // Here NaN is the largest number.
    let worst = errors.map(|(g, e)| (g - e).abs()).max_by(f32::total_cmp);
    f64::from(worst.unwrap_or(0.0)) / f64::from(largest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Shape;

    fn outputs(peer: &str, problem: &Problem, change: impl Fn(&mut [f32])) -> Outputs {
        let mut y: Vec<f32> = (0..problem.upstream.len())
            .map(|k| k as f32 / 1e4)
            .collect();
        change(&mut y);
        let floats = y.iter().chain(&problem.h0);
        let bytes: Vec<u8> = floats.flat_map(|float| float.to_le_bytes()).collect();
        let file = tempfile::NamedTempFile::new().expect("the file can be made");
        fs::write(&file, bytes).expect("the file can be written");
        let names = problem.outputs(Mode::Infer);
        let read = |names| Outputs::read(peer, names, file.path(), problem, Mode::Infer);
        assert!(read(&names[..1]).is_err(), "h_n is missing");
        read(&names).expect("the file has all numbers")
    }

    #[test]
    fn a_wrong_number_is_an_error_and_padding_is_not() {
        let problem = Problem::new(Shape::find("documents").expect("a shape"));
        let lengths = problem.lengths().expect("the rows have lengths");
        assert_eq!(lengths.iter().sum::<usize>(), 2048);
        let length = lengths[0];
        let [_, t, _, h, ..] = problem.shape.sizes;
        let same = |name: &str| outputs(name, &problem, |_| {});
        let against = |other: Outputs| check(&[other, same("last")], &problem, 0.0);
        assert_eq!(against(same("first")).expect("they agree")["first"], 0.0);
        let padding = |y: &mut [f32]| y[length * h..t * h].fill(9.0);
        assert_eq!(
            against(outputs("padding", &problem, padding)).expect("they agree")["padding"],
            0.0
        );
        let largest = (problem.upstream.len() - 1) as f32 / 1e4;
        let wrong = |y: &mut [f32]| y[length * h - 1] += 1e-4 * largest;
        let message = against(outputs("wrong", &problem, wrong)).expect_err("they differ");
        assert!(message.contains("wrong differs from last"), "{message}");
        let nan = |y: &mut [f32]| y[0] = f32::NAN;
        assert!(against(outputs("nan", &problem, nan)).is_err());
    }
}
