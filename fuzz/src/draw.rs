//! Draws sizes, options and values of a call from the bytes of a fuzzer.

use arbitrary::{Result, Unstructured};
use gru_cpu::{
    Element, Gru,
    spec::{Activation, Activations, Direction, GruSpec, Layout, Order, Reset, Sizes, Update},
    testing::Isa,
};
use gru_testkit::{activations::ACTIVATIONS, random::SplitMix64};

/// The most multiply-adds of a pass: twice the number from which a pass uses several threads.
const LARGEST_WORK: usize = 1 << 20;

/// Multiply-adds of a pass.
pub fn work(sizes: &Sizes) -> usize {
    sizes.n * sizes.t * (sizes.i + sizes.h) * 3 * sizes.h
}

/// Sizes from zero, each of them sometimes large, with a limit of the total work.
pub fn sizes(u: &mut Unstructured<'_>) -> Result<Sizes> {
    let mut size = || {
        let largest = *u.choose(&[3, 18, 70, 300])?;
        u.int_in_range(0..=largest)
    };
    let mut sizes = Sizes {
        n: size()?,
        t: size()?,
        i: size()?,
        h: size()?,
    };
    while work(&sizes) > LARGEST_WORK {
        let Sizes { n, t, i, h } = &mut sizes;
        let largest = [n, t, i, h].into_iter().max_by_key(|size| **size);
        *largest.expect("the array has four entries") /= 2;
    }
    Ok(sizes)
}

/// Any spec, including invalid specs.
fn spec(u: &mut Unstructured<'_>) -> Result<GruSpec> {
    let usual = u.arbitrary()?;
    let activations = if usual {
        Activations::default()
    } else {
        [activation(u)?, activation(u)?, activation(u)?].into()
    };
    let mut clip = || {
        if usual || u.arbitrary()? {
            Ok(None)
        } else {
            number(u).map(Some)
        }
    };
    let [clip_gates, clip_state] = [clip()?, clip()?];
    Ok(GruSpec::default()
        .with_reset(*u.choose(&[Reset::AfterMatmul, Reset::BeforeMatmul])?)
        .with_update(*u.choose(&[Update::Keeps, Update::Takes])?)
        .with_activations(activations)
        .with_clip_gates(clip_gates)
        .with_clip_state(clip_state))
}

/// A call of these sizes with any spec and any order.
pub fn gru(u: &mut Unstructured<'_>, sizes: Sizes) -> Result<Gru> {
    let spec = spec(u)?;
    let order = Order {
        layout: *u.choose(&[Layout::BatchMajor, Layout::TimeMajor])?,
        direction: *u.choose(&[Direction::Forward, Direction::Reverse])?,
    };
    Ok(Gru { sizes, order, spec })
}

/// The slot of the input weight.
pub const W_IH: usize = 2;

/// Which inputs are present, in the order of their slots. The required inputs, x and w_hh, are.
pub fn there(u: &mut Unstructured<'_>) -> Result<[bool; 11]> {
    let mut there: [bool; 11] = u.arbitrary()?;
    [there[0], there[W_IH + 1]] = [true; 2];
    Ok(there)
}

fn activation(u: &mut Unstructured<'_>) -> Result<Activation> {
    let parameters = [number(u)?, number(u)?];
    let last = ACTIVATIONS.len() as u64 - 1;
    let activation = Activation::from_number(u.int_in_range(0..=last)?, parameters);
    Ok(activation.expect("activations are numbered from 0"))
}

/// Usually a parameter that a user might choose.
fn number(u: &mut Unstructured<'_>) -> Result<f64> {
    if u.ratio(7, 8)? {
        Ok(u.int_in_range(0..=40)? as f64 / 20.0)
    } else {
        u.arbitrary()
    }
}

/// An instruction set of this machine.
pub fn isa(u: &mut Unstructured<'_>) -> Result<Isa> {
    let here: Vec<Isa> = Isa::ALL.into_iter().filter(|i| i.is_available()).collect();
    u.choose(&here).copied()
}

/// A float type of the kernels, read from bits.
pub trait Real: Element {
    /// A NaN that no arithmetic produces and no input contains. It marks unwritten values.
    const UNWRITTEN: Self;

    /// The value with these bits. Any NaN becomes the usual NaN.
    fn of_bits(bits: u64) -> Self;

    /// Whether this is [`UNWRITTEN`](Self::UNWRITTEN).
    fn is_unwritten(self) -> bool;
}

impl Real for f32 {
    const UNWRITTEN: Self = f32::from_bits(0x7fe0_cafe);

    fn of_bits(bits: u64) -> Self {
        let value = f32::from_bits(bits as u32);
        if value.is_nan() { f32::NAN } else { value }
    }

    fn is_unwritten(self) -> bool {
        self.to_bits() == Self::UNWRITTEN.to_bits()
    }
}

impl Real for f64 {
    const UNWRITTEN: Self = f64::from_bits(0x7ffc_0000_0000_cafe);

    fn of_bits(bits: u64) -> Self {
        let value = f64::from_bits(bits);
        if value.is_nan() { f64::NAN } else { value }
    }

    fn is_unwritten(self) -> bool {
        self.to_bits() == Self::UNWRITTEN.to_bits()
    }
}

/// A source of values.
#[derive(Debug)]
pub struct Numbers {
    random: SplitMix64,
    /// Raw bits, which replace some of the moderate values.
    bits: Vec<u64>,
    /// One in how many values is replaced.
    rarity: u64,
}

impl Numbers {
    /// Draws a source.
    pub fn draw(u: &mut Unstructured<'_>) -> Result<Self> {
        Ok(Self {
            random: SplitMix64(u.arbitrary()?),
            rarity: *u.choose(&[1, 4, 64, 4096])?,
            bits: if u.arbitrary()? {
                Vec::new()
            } else {
                u.arbitrary()?
            },
        })
    }

    /// Whether all values are finite and small.
    pub fn are_moderate(&self) -> bool {
        self.bits.is_empty()
    }

    /// The next values. Moderate values are uniform in (−1, 1) times `scale`.
    pub fn take<E: Real>(&mut self, count: usize, scale: f64) -> Vec<E> {
        let one = |_| {
            let random = self.random.bits();
            let count = self.bits.len() as u64;
            match random.checked_rem(count * self.rarity) {
                Some(k) if k < count => E::of_bits(self.bits[k as usize]),
                _ => {
                    let even = (random >> 40) as f64 / (1 << 23) as f64 - 1.0;
                    E::from(even * scale).expect("a float")
                }
            }
        };
        (0..count).map(one).collect()
    }
}
