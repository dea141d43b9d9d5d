//! Compares the numbers of the peers before they are timed.

use std::{collections::BTreeMap, fs, path::Path};

use bench_support::Problem;

/// The numbers of a peer by name.
pub struct Outputs {
    peer: String,
    tensors: BTreeMap<String, Vec<f32>>,
}

impl Outputs {
    /// Reads the file of a peer. The output past the end of a row becomes zero, because a peer that computes padding has
    /// other numbers there.
    ///
    /// # Errors
    /// If the file does not contain the named tensors.
    pub fn read(
        peer: &str,
        names: &[String],
        path: &Path,
        problem: &Problem,
    ) -> Result<Self, String> {
        let bytes = fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let mut floats = bytes
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        let mut tensors = BTreeMap::new();
        for name in names {
            let size =
                size(name, problem).ok_or_else(|| format!("{peer}: unknown output {name}"))?;
            let mut tensor: Vec<f32> = floats.by_ref().take(size).collect();
            if tensor.len() < size {
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
            tensors.insert(name.clone(), tensor);
        }
        match floats.count() {
            0 => Ok(Self {
                peer: peer.to_owned(),
                tensors,
            }),
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
/// of each peer, relative to the largest value of the tensor.
///
/// A float32 sum of K terms in any order has an error near √K·2⁻²⁴ times its largest terms. The longest sums are those of
/// the weight gradients, over N·T steps, of errors that themselves come from sums over I + H numbers in each of L·D layers.
/// The factor 8 allows the two peers to differ in opposite directions, and the approximations of σ and tanh in both. A
/// wrong gate, weight, start or length changes values by a tenth or more.
///
/// # Errors
/// If two peers differ by more.
pub fn check(outputs: &[Outputs], problem: &Problem) -> Result<BTreeMap<String, f64>, String> {
    let [n, t, i, h, layers, directions] = problem.shape.sizes;
    let terms = ((n * t) as f64).sqrt() + ((i + h) as f64).sqrt();
    let allowed = 8.0 * terms * (layers * directions) as f64 / f64::from(1 << 24);
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
        if !other.tensors.contains_key("y") || !reference.tensors.contains_key("y") {
            return Err(format!("{}: expected the output y", other.peer));
        }
        let mut worst = 0.0f64;
        for (name, tensor) in &other.tensors {
            let Some(expected) = reference.tensors.get(name) else {
                continue;
            };
            let difference = difference(tensor, expected);
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
    println!(
        "{} peers agree: {worst:.1e} of {allowed:.1e}",
        outputs.len()
    );
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
