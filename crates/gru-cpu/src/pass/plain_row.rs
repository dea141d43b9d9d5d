//! The gates and the new states of a plain row, whose products are in memory: the reset gate acts after the product, no
//! masks or options change the state, and the gates are not stored.

use super::weights::ForwardWeights;
use crate::{
    simd::{Gates, Lanes},
    spec::Update,
};
use core::{ops::Range, slice::from_raw_parts, slice::from_raw_parts_mut};
use pulp::Simd;

/// The states of a plain row.
pub(super) struct PlainStates<E> {
    pub(super) old: *const E,
    pub(super) new: *mut E,
    pub(super) update: Update,
}

/// A plain row.
pub(super) struct PlainRow<'a, E> {
    pub(super) weights: &'a ForwardWeights<'a, E>,
    pub(super) gates: &'a Gates<E>,
    pub(super) h: usize,
    /// The products `[3H]` of the input and of the state.
    pub(super) p: *const E,
    pub(super) q: *const E,
    pub(super) states: PlainStates<E>,
}

/// The blend of a state and n. It is two products, and not `n + z ⊙ (h₋₁ − n)`, which rounds a state that z = 1 keeps.
#[inline(always)]
pub(super) fn blend<E: Lanes, S: Simd>(
    simd: S,
    update: Update,
    [z, rest]: [E::V<S>; 2],
    old: E::V<S>,
    n: E::V<S>,
) -> E::V<S> {
    match update {
        Update::Keeps => E::vfma(simd, z, old, E::vmul(simd, rest, n)),
        Update::Takes => E::vfma(simd, z, n, E::vmul(simd, rest, old)),
    }
}

impl<E: Lanes> PlainRow<'_, E> {
    /// Writes the new states of some panels.
    ///
    /// # Safety
    /// The products and the old states are complete, and no thread writes them. The new states of these panels belong to
    /// this thread.
    #[inline(always)]
    pub(super) unsafe fn run<S: Simd, const WAY: u8>(&self, simd: S, panels: Range<usize>) {
        const AT_ONCE: usize = 4;
        let (Range { mut start, end }, lanes) = (panels, E::lanes::<S>());
        let whole = end.min(self.h / lanes);
        // SAFETY: the caller keeps the same promises.
        unsafe {
            while start + AT_ONCE <= whole {
                self.panels::<S, WAY, AT_ONCE>(simd, start, lanes);
                start += AT_ONCE;
            }
            while start < whole {
                self.panels::<S, WAY, 1>(simd, start, lanes);
                start += 1;
            }
            if start < end {
                self.panels::<S, WAY, 1>(simd, start, self.h % lanes);
            }
        }
    }

    /// Some panels of `len` units. A gate is a chain of dependent operations. The processor overlaps the chains of several
    /// panels, because no other instructions are between them.
    ///
    /// # Safety
    /// As for [`run`](Self::run).
    #[inline(always)]
    unsafe fn panels<S: Simd, const WAY: u8, const COUNT: usize>(
        &self,
        simd: S,
        first: usize,
        len: usize,
    ) {
        let PlainStates { old, new, update } = self.states;
        let unit = |at: usize| (first + at) * E::lanes::<S>();
        // SAFETY: rows of products and of states have these units. They are complete, and those of the new state belong to
        // this thread.
        unsafe {
            let read = |from: *const E| E::read(simd, from_raw_parts(from, len));
            let mut z_and_n = [[E::real(simd, 0.0); 3]; COUNT];
            for (at, to) in z_and_n.iter_mut().enumerate() {
                let [b_r, b_z, b_n, b_hn] = self.weights.bias(simd, first + at);
                let plus = |bias, row: *const E, gate: usize| {
                    E::vadd(simd, bias, read(row.add(gate * self.h + unit(at))))
                };
                let r = plus(plus(b_r, self.p, 0), self.q, 0);
                let r = self.gates.reset::<S, WAY>(simd, r);
                let z = plus(plus(b_z, self.p, 1), self.q, 1);
                let [z, rest] = self.gates.update::<S, WAY>(simd, z);
                let q_n = plus(b_hn, self.q, 2);
                *to = [z, rest, E::vfma(simd, r, q_n, plus(b_n, self.p, 2))];
            }
            for (at, &[z, rest, n]) in z_and_n.iter().enumerate() {
                let n = self.gates.candidate::<S, WAY>(simd, n);
                let state = blend::<E, S>(simd, update, [z, rest], read(old.add(unit(at))), n);
                let state = E::without_subnormals(simd, state);
                E::write(simd, from_raw_parts_mut(new.add(unit(at)), len), state);
            }
        }
    }
}
