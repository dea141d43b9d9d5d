//! Random numbers that are equal on every machine.

/// A generator of random numbers from a seed: Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
/// 2014.
#[derive(Debug)]
pub struct SplitMix64(pub u64);

/// Values in `[−scale, scale)` that are exact in float32. Each name has its own stream.
pub fn numbers(name: &str, len: usize, scale: f64) -> Vec<f64> {
    let mut random = SplitMix64::of(name);
    (0..len).map(|_| random.uniform(scale)).collect()
}

impl SplitMix64 {
    pub(crate) fn of(text: &str) -> Self {
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
