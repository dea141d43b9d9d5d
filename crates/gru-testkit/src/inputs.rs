//! Seeded inputs and upstream gradients, and buffers of NaN.

use crate::problem::Problem;

/// All inputs of one forward and backward run, flat and row-major.
///
/// All values are exact in float32, so a float32 run has the same problem.
#[derive(Debug, Clone)]
pub struct Inputs {
    /// `[N, T, I]` or `[T, N, I]`.
    pub x: Vec<f64>,
    /// `[N, H]`.
    pub h0: Option<Vec<f64>>,
    /// `[I, 3H]`, columns r|z|n.
    pub w_ih: Vec<f64>,
    /// `[H, 3H]`, columns r|z|n.
    pub w_hh: Vec<f64>,
    /// `[3H]`.
    pub b_ih: Option<Vec<f64>>,
    /// `[3H]`.
    pub b_hh: Option<Vec<f64>>,
    /// Upstream gradient of every output, shaped like the outputs.
    pub d_y: Vec<f64>,
    /// Upstream gradient of the final state, `[N, H]`.
    pub d_h_t: Vec<f64>,
}

impl Inputs {
    /// Random inputs, equal for a problem and an attempt on every machine.
    pub(crate) fn draw(problem: &Problem, attempt: u64) -> Self {
        let &Problem { n, t, i, h, .. } = problem;
        let id = problem.id();
        let uniform = |name: &str, len: usize, scale: f64| -> Vec<f64> {
            let mut random = SplitMix64::of(&id, name, attempt);
            (0..len).map(|_| random.uniform(scale)).collect()
        };
        // Pre-activations of about ±2. They leave the linear range, so a wrong derivative is visible,
        // and gradients do not vanish.
        let weight = |inputs: usize| 2.0 / (inputs.max(1) as f64).sqrt();
        Self {
            x: uniform("x", n * t * i, 1.5),
            h0: problem.h0.then(|| uniform("h0", n * h, 0.8)),
            w_ih: uniform("w_ih", i * 3 * h, weight(i)),
            w_hh: uniform("w_hh", h * 3 * h, weight(h)),
            b_ih: problem.biases.input().then(|| uniform("b_ih", 3 * h, 0.5)),
            b_hh: problem.biases.hidden().then(|| uniform("b_hh", 3 * h, 0.5)),
            d_y: uniform("d_y", n * t * h, 1.0),
            d_h_t: uniform("d_h_t", n * h, 1.0),
        }
    }

    /// The differentiable tensors and their names, without absent ones.
    pub fn differentiable_mut(&mut self) -> Vec<(&'static str, &mut Vec<f64>)> {
        [
            ("x", Some(&mut self.x)),
            ("h0", self.h0.as_mut()),
            ("w_ih", Some(&mut self.w_ih)),
            ("w_hh", Some(&mut self.w_hh)),
            ("b_ih", self.b_ih.as_mut()),
            ("b_hh", self.b_hh.as_mut()),
        ]
        .into_iter()
        .filter_map(|(name, tensor)| Some((name, tensor?)))
        .collect()
    }
}

/// A buffer of NaN, for memory that must not be read or must be overwritten.
pub fn poisoned<E: From<f32> + Clone>(len: usize) -> Vec<E> {
    vec![E::from(f32::NAN); len]
}

/// A generator of random numbers from a seed: Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
/// 2014.
#[derive(Debug)]
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    /// Each tensor of each problem has its own stream.
    fn of(problem: &str, tensor: &str, attempt: u64) -> Self {
        let text = format!("{problem}/{tensor}/{attempt}");
        // FNV-1a, because std's hashes may change between releases.
        let seed = text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(seed)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `[−scale, scale)`, rounded to float32.
    pub fn uniform(&mut self, scale: f64) -> f64 {
        let unit = (self.bits() >> 11) as f64 / (1u64 << 53) as f64;
        f64::from(((2.0 * unit - 1.0) * scale) as f32)
    }
}
