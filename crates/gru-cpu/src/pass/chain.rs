//! One row of a layer with few units, or a single step of it: one function for all steps.
//!
//! The arithmetic of such a step takes less time than a round with its tiles and products. The sums have the order of
//! the other kernels, so the bits are equal.

use super::weights::ForwardWeights;
use crate::{
    call::Sequence,
    simd::{Lanes, Machine},
    spec::{Direction, Sizes, Update},
    tuning::{
        INPUTS_OF_A_CHAIN, PANELS_OF_A_CHAIN as PANELS, PARALLEL_FROM, ROW_GRANULE, SUMS_1X3,
        UNITS_OF_A_CHAIN,
    },
};
use core::mem::MaybeUninit;
use pulp::{Simd, WithSimd};

/// One direction of a row.
#[derive(Clone, Copy)]
pub(crate) struct Chain<'a, E> {
    /// Packed panels of three gates: I rows, and H rows.
    input: &'a [E],
    recurrent: &'a [E],
    /// See [`ForwardWeights::bias`].
    bias: &'a [E],
    update: Update,
    direction: Direction,
    /// H elements; zeros if absent.
    h0: Option<&'a [E]>,
}

impl<E: Lanes> ForwardWeights<'_, E> {
    /// A direction of a row, if the layer [has chains](ForwardWeights::has_chains) and [`run_chains`] computes it faster and with the bits of the
    /// other kernels. The input products of two or three steps are sums in another order.
    #[inline(always)] // A step of eight units takes 80 ns.
    pub(super) fn chain<'a>(
        &'a self,
        sizes: &Sizes,
        update: Update,
        direction: Direction,
        sequence: &Sequence<'a, E>,
    ) -> Option<Chain<'a, E>> {
        let &Sizes { n, t, i, h } = sizes;
        let &Sequence {
            x: _,
            h0,
            recurrent_mask,
            step_mask,
            zoneout,
            starts,
            start_state: _, // It requires starts.
        } = sequence;
        let others = [recurrent_mask, step_mask, zoneout, starts];
        let is_plain = others.iter().all(Option::is_none);
        let has_fast_steps = match t {
            1 => 3 * h * (i + h) < PARALLEL_FROM,
            _ => t >= ROW_GRANULE && i <= INPUTS_OF_A_CHAIN && h <= UNITS_OF_A_CHAIN,
        };
        if !(self.has_chains && is_plain && n == 1 && has_fast_steps) {
            return None;
        }
        let [input, recurrent, bias] = self.slices();
        Some(Chain {
            input,
            recurrent,
            bias,
            update,
            direction,
            h0,
        })
    }
}

/// Writes all states of a row, `[T,D·H]`, in D directions of equal sizes.
#[inline(always)]
pub(super) fn run_chains<E: Lanes>(
    machine: &Machine,
    &Sizes { t, i, h, .. }: &Sizes,
    x: &[E],
    chains: &[Chain<'_, E>],
    states: &mut [E],
) {
    machine.arch.dispatch(Chains {
        sizes: [t, i, h],
        x,
        chains,
        states,
    });
}

/// All steps of a row, in one direction or two.
struct Chains<'a, E> {
    /// T, I and H.
    sizes: [usize; 3],
    /// `[T,I]`.
    x: &'a [E],
    /// D, one or two, with at most [`PANELS`] panels.
    chains: &'a [Chain<'a, E>],
    /// `[T,D·H]`.
    states: &'a mut [E],
}

impl<E: Lanes> WithSimd for Chains<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let ([t, i, h], count) = (self.sizes, self.chains.len());
        let panels = h.div_ceil(E::lanes::<S>());
        assert!(count <= 2 && panels <= PANELS);
        assert!(self.x.len() == t * i && self.states.len() == t * count * h);
        for chain in self.chains {
            let width = panels * E::lanes::<S>();
            assert!(chain.input.len() == 3 * i * width && chain.recurrent.len() == 3 * h * width);
            assert!(chain.bias.len() == 4 * width && chain.h0.is_none_or(|h0| h0.len() == h));
        }
        // SAFETY: all lengths are checked.
        unsafe {
            match (count, panels) {
                // Without loops over vectors, so that all sums stay in registers.
                (1, 1) => self.run(simd, 1, 1),
                _ => self.run(simd, count, panels),
            }
        }
    }
}

impl<E: Lanes> Chains<'_, E> {
    /// All steps. The products of all vectors of units come before the gates: a gate is a chain of dependent
    /// operations, and the processor overlaps several of them.
    ///
    /// # Safety
    /// All slices have the lengths that the sizes state, with so many chains, and panels in each of them.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // With iterators, their closures may not be inlined.
    unsafe fn run<S: Simd>(&mut self, simd: S, chains: usize, panels: usize) {
        let (lanes, zero) = (E::lanes::<S>(), E::real(simd, 0.0));
        // Whole vectors, also of a few units: a masked store would delay the loads of the next step.
        let mut states = [[zero; PANELS]; 2];
        // Zeros for all panels would take a quarter of a step of 32 units.
        let mut sums = [[MaybeUninit::uninit(); PANELS]; 2];
        for (chain, states) in self.chains.iter().zip(&mut states) {
            if let Some(h0) = chain.h0 {
                for (state, h0) in states.iter_mut().zip(h0.chunks(lanes)) {
                    *state = E::read(simd, h0);
                }
            }
        }
        for s in 0..self.sizes[0] {
            for c in 0..chains {
                for panel in 0..panels {
                    // SAFETY: the caller keeps these promises, and the chain and the panel exist.
                    sums[c][panel].write(unsafe { self.products(simd, [c, panel], s, &states[c]) });
                }
            }
            for c in 0..chains {
                for panel in 0..panels {
                    let state = &mut states[c][panel];
                    // SAFETY: as above, and these sums were written.
                    unsafe {
                        let sums = sums[c][panel].assume_init_ref();
                        self.gates(simd, [c, panel], s, sums, state);
                    }
                }
            }
        }
    }

    /// r and z with both products, the input product of n, and q_n.
    ///
    /// # Safety
    /// As for [`run`](Self::run), and the chain and the panel exist.
    #[inline(always)]
    unsafe fn products<S: Simd>(
        &self,
        simd: S,
        [chain, panel]: [usize; 2],
        s: usize,
        states: &[E::V<S>; PANELS],
    ) -> [E::V<S>; 4] {
        let ([t, i, h], lanes) = (self.sizes, E::lanes::<S>());
        // SAFETY: the caller promised that the chain and its panel exist.
        unsafe {
            let chain = self.chains.get_unchecked(chain);
            let bias = chain.bias.as_ptr().add(panel * 4 * lanes);
            let input = chain.input.as_ptr().add(panel * 3 * i * lanes);
            let recurrent = chain.recurrent.as_ptr().add(panel * 3 * h * lanes);
            let x = self.x.as_ptr().add(chain.direction.time(s, t) * i);
            let b = [
                E::load(simd, bias),
                E::load(simd, bias.add(lanes)),
                E::load(simd, bias.add(2 * lanes)),
            ];
            let [r, z, n] = if t == 1 {
                add::<E, S, SUMS_1X3>(simd, b, x, input, i)
            } else {
                add::<E, S, 1>(simd, b, x, input, i)
            };
            // The vectors have H units or more.
            let state = states.as_ptr().cast();
            let q = E::load(simd, bias.add(3 * lanes));
            let [r, z, q] = add::<E, S, SUMS_1X3>(simd, [r, z, q], state, recurrent, h);
            [r, z, n, q]
        }
    }

    /// From the products to the new state.
    ///
    /// # Safety
    /// As for [`products`](Self::products).
    #[inline(always)]
    unsafe fn gates<S: Simd>(
        &mut self,
        simd: S,
        [at, panel]: [usize; 2],
        s: usize,
        &[r, z, n, q]: &[E::V<S>; 4],
        state: &mut E::V<S>,
    ) {
        let ([t, _, h], lanes) = (self.sizes, E::lanes::<S>());
        // SAFETY: the caller promised that the chain exists.
        let chain = unsafe { self.chains.get_unchecked(at) };
        let (r, _) = E::vsigmoid(simd, r);
        let (z, rest) = E::vsigmoid(simd, z);
        let n = E::vtanh(simd, E::vfma(simd, r, q, n));
        let new = match chain.update {
            Update::Keeps => E::vfma(simd, z, *state, E::vmul(simd, rest, n)),
            Update::Takes => E::vfma(simd, z, n, E::vmul(simd, rest, *state)),
        };
        *state = E::without_subnormals(simd, new);
        let row = chain.direction.time(s, t) * self.chains.len() + at;
        let unit = panel * lanes;
        // SAFETY: the states have such a row, and these units are in it.
        unsafe {
            let to = self.states.as_mut_ptr().add(row * h + unit);
            let units = core::slice::from_raw_parts_mut(to, lanes.min(h - unit));
            E::write(simd, units, *state);
        }
    }
}

/// Adds `k` elements of a row times the rows of a panel. Element `m` adds to partial sum `m % SUMS`, the last elements
/// to the first one.
///
/// # Safety
/// There are as many elements, and rows of three vectors.
#[inline(always)]
unsafe fn add<E: Lanes, S: Simd, const SUMS: usize>(
    simd: S,
    sums: [E::V<S>; 3],
    row: *const E,
    panel: *const E,
    k: usize,
) -> [E::V<S>; 3] {
    let mut all = [[E::real(simd, 0.0); 3]; SUMS];
    all[0] = sums;
    let mut m = 0;
    while m + SUMS <= k {
        for sums in &mut all {
            // SAFETY: `m` is below `k`.
            unsafe { add_one(simd, sums, row, panel, m) };
            m += 1;
        }
    }
    while m < k {
        // SAFETY: `m` is below `k`.
        unsafe { add_one(simd, &mut all[0], row, panel, m) };
        m += 1;
    }
    let mut total = all[0];
    for other in &all[1..] {
        for (total, &other) in total.iter_mut().zip(other) {
            *total = E::vadd(simd, *total, other);
        }
    }
    total
}

/// Adds element `m` of a row times row `m` of a panel.
///
/// # Safety
/// Both exist.
#[inline(always)]
unsafe fn add_one<E: Lanes, S: Simd>(
    simd: S,
    sums: &mut [E::V<S>; 3],
    row: *const E,
    panel: *const E,
    m: usize,
) {
    // SAFETY: the caller keeps this promise.
    let a = E::splat(simd, unsafe { *row.add(m) });
    for (v, sum) in sums.iter_mut().enumerate() {
        // SAFETY: by the same promise the row of the panel has three vectors.
        let b = unsafe { E::load(simd, panel.add((3 * m + v) * E::lanes::<S>())) };
        *sum = E::vfma(simd, a, b, *sum);
    }
}
