//! Compares the numbers of the peers before they are timed.

use std::{collections::BTreeMap, fs, path::Path};

use crate::problem::{Mode, Problem};

/// The largest relative error of a factor of these peers. Burn's products on CUDA round float32 factors to TF32, and
/// PyTorch's do it by default. TF32 has as many mantissa bits as float16.
pub fn rounding(peers: &[String]) -> f64 {
    let any = |word: &str| peers.iter().any(|peer| peer.contains(word));
    if any("bfloat16") {
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
    /// The output past the end of a row becomes zero, because a peer that computes padding has other numbers there.
    ///
    /// # Errors
    /// If these are not all outputs, or one has another size.
    fn new(
        peer: &str,
        tensors: impl IntoIterator<Item = (String, Vec<f32>)>,
        problem: &Problem,
        mode: Mode,
    ) -> Result<Self, String> {
        let mut tensors: BTreeMap<_, _> = tensors.into_iter().collect();
        let expected = problem.outputs(mode);
        let names: Vec<_> = tensors.keys().collect();
        if names.len() != expected.len() || !expected.iter().all(|name| names.contains(&name)) {
            return Err(format!(
                "{peer}: expected the outputs {expected:?}, got {names:?}"
            ));
        }
        for (name, tensor) in &mut tensors {
            let size = size(name, problem).expect("the name is one of the outputs");
            if tensor.len() != size {
                return Err(format!(
                    "{peer}: {name}: expected {size} numbers, got {}",
                    tensor.len()
                ));
            }
            if let (Some(lengths), "y") = (problem.lengths(), name.as_str()) {
                let width = size / lengths.len();
                let [_, t, ..] = problem.shape.sizes;
                for (row, length) in tensor.chunks_mut(width).zip(lengths) {
                    row[length * width / t..].fill(0.0);
                }
            }
        }
        Ok(Self {
            peer: peer.to_owned(),
            tensors,
        })
    }

    /// Reads the file of a peer, which contains the named tensors one after the other.
    ///
    /// # Errors
    /// As [`new`](Self::new), or if the file has more or fewer numbers.
    pub fn read(
        peer: &str,
        names: &[String],
        path: &Path,
        problem: &Problem,
        mode: Mode,
    ) -> Result<Self, String> {
        let bytes = fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let mut floats = bytes
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        let mut tensors = Vec::new();
        for name in names {
            let size =
                size(name, problem).ok_or_else(|| format!("{peer}: unknown output {name}"))?;
            tensors.push((name.clone(), floats.by_ref().take(size).collect()));
        }
        match floats.count() {
            0 => Self::new(peer, tensors, problem, mode),
            more => Err(format!("{peer}: {more} numbers more than named")),
        }
    }
}

fn size(name: &str, problem: &Problem) -> Option<usize> {
    let (kind, k) = name.split_once('.').unwrap_or((name, ""));
    let weight = |which: usize| Some(problem.weights.get(k.parse::<usize>().ok()?)?[which].len());
    match kind {
        "y" => Some(problem.upstream.len()),
        "h_n" | "d_h0" => Some(problem.h0.len()),
        "d_x" => Some(problem.x.len()),
        "d_w_ih" => weight(0),
        "d_w_hh" => weight(1),
        "d_b_ih" => weight(2),
        "d_b_hh" => weight(3),
        _ => None,
    }
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
    if !others.is_empty() {
        let worst = differences.values().copied().fold(0.0, f64::max);
        println!(
            "{} peers agree: {worst:.1e} of {allowed:.1e}",
            outputs.len()
        );
        differences.insert(reference.peer.clone(), worst);
    }
    Ok(differences)
}

/// The largest difference, relative to the largest expected value. NaN if a number is not finite.
fn difference(got: &[f32], expected: &[f32]) -> f64 {
    let largest = expected
        .iter()
        .fold(f32::MIN_POSITIVE, |most, e| most.max(e.abs()));
    let errors = got
        .iter()
        .zip(expected)
        .map(|(g, e)| f64::from(g - e).abs());
    let worst = errors.fold(0.0, |most: f64, error| {
        if error.is_nan() || most.is_nan() {
            f64::NAN
        } else {
            most.max(error)
        }
    });
    worst / f64::from(largest)
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
