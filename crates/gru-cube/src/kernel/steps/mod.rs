//! Steps on a grid of row tiles by column tiles: a recurrent product with the gates as its
//! epilogue. For weights that no cube can read alone in good time. Either every product is a launch,
//! or all are one, in which the weight stays in registers and the cubes of the same rows meet
//! after each product. A step has one product with the reset after it; before it two, of which the
//! second waits for the first.

pub(crate) mod backward;
pub(crate) mod forward;
pub(crate) mod transpose;

use super::team::{Product, Team};
use crate::kernel::rule::Rule;

/// What steps are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Steps {
    pub(crate) rule: Rule,
    pub(crate) team: Team,
    /// H.
    pub(crate) hidden: usize,
    /// Terms of the sum whose left sides are in shared memory at a time.
    pub(crate) stage: usize,
    /// All steps are one launch.
    pub(crate) persistent: bool,
    pub(crate) halves: Halves,
}

/// Which products of a step a launch makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Halves {
    One(Half),
    /// First and second, one after the other.
    Both,
}

/// A product of a step and what follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Half {
    /// The only one, reset after the product.
    Whole,
    /// Reset before the product, forward: r and z. Backward: through r and z of the step after,
    /// then through the blend.
    First,
    /// Reset before the product: the candidate's, forward and backward.
    Second,
}

impl Steps {
    /// Products of a step in a launch.
    pub(crate) fn count(&self) -> usize {
        match self.halves {
            Halves::One(_) => 1,
            Halves::Both => 2,
        }
    }

    /// The product of a step that comes as `index`.
    pub(crate) fn half(&self, index: usize) -> Half {
        match (self.halves, index) {
            (Halves::One(half), _) => half,
            (Halves::Both, 0) => Half::First,
            (Halves::Both, _) => Half::Second,
        }
    }

    /// The launches of one step, in their order, which is that of both passes.
    pub(crate) fn launches(self) -> impl Iterator<Item = Self> {
        let halves = match (self.persistent, self.halves) {
            (false, Halves::Both) => vec![Halves::One(Half::First), Halves::One(Half::Second)],
            (_, halves) => vec![halves],
        };
        halves
            .into_iter()
            .map(move |halves| Self { halves, ..self })
    }

    /// `q = g·w_hh`, or its gates r and z, or `(r⊙g)·w_hn`.
    pub(crate) fn forward(&self, half: Half) -> Product {
        let (first_gate, outs) = match half {
            Half::Whole => (0, 3),
            Half::First => (0, 2),
            Half::Second => (2, 1),
        };
        Product {
            depth: self.hidden,
            outs,
            base: first_gate * self.hidden,
            per_k: 3 * self.hidden,
            per_out: self.hidden,
            per_j: 1,
            columns: self.hidden,
            stage: self.even_stage(self.hidden),
            resident: self.keeps_weight(),
        }
    }

    /// `dg = dq·w_hhᵀ`, or its part of the gates r and z, or `ds = dn̄·w_hnᵀ`; with the weight as
    /// `[3H,H]`.
    pub(crate) fn backward(&self, half: Half) -> Product {
        let (first_gate, gates) = match half {
            Half::Whole => (0, 3),
            Half::First => (0, 2),
            Half::Second => (2, 1),
        };
        Product {
            depth: gates * self.hidden,
            outs: 1,
            base: first_gate * self.hidden * self.hidden,
            per_k: self.hidden,
            per_out: 0,
            per_j: 1,
            columns: self.hidden,
            stage: self.even_stage(gates * self.hidden),
            resident: self.keeps_weight(),
        }
    }

    /// Whether the weight stays in registers. Matrix units read it at every step, from a cache.
    fn keeps_weight(&self) -> bool {
        self.persistent && self.team.matrices.is_none()
    }

    /// Terms per stage, such that all stages have nearly as many: those past the depth are work for
    /// nothing, and registers for nothing.
    fn even_stage(&self, depth: usize) -> usize {
        depth.div_ceil(depth.div_ceil(self.stage))
    }

    /// The products of a launch, forward. The first needs the most of shared memory; if it is the
    /// only one, the second has no registers.
    pub(crate) fn forward_products(&self) -> (Product, Product) {
        let [first, second] = [0, 1].map(|index| self.forward(self.half(index)));
        (first, self.only_if_both(second))
    }

    /// The same, backward.
    pub(crate) fn backward_products(&self) -> (Product, Product) {
        let [first, second] = [0, 1].map(|index| self.backward(self.half(index)));
        (first, self.only_if_both(second))
    }

    fn only_if_both(&self, second: Product) -> Product {
        Product {
            resident: second.resident && self.halves == Halves::Both,
            ..second
        }
    }

    /// Vectors of shared memory for a launch's first product: a stage of the left side, partial
    /// sums, and whether a meeting was lost. (A left side for matrix units may take half of it.)
    pub(crate) fn shared_vectors(&self, product: &Product) -> usize {
        let numbers = self.left_numbers(product) + self.partial(product);
        self.left_vectors(product) + numbers.div_ceil(self.team.width) + 1
    }

    /// Vectors of a stage of the left side; none where it is for matrix units.
    fn left_vectors(&self, product: &Product) -> usize {
        match self.team.matrices {
            Some(_) => 0,
            None => product.padded_stage(&self.team) * self.team.vectors(),
        }
    }

    /// Numbers of a stage of the left side for matrix units; none where it is not.
    fn left_numbers(&self, product: &Product) -> usize {
        match self.team.matrices {
            Some(_) => product.left_numbers(&self.team),
            None => 0,
        }
    }

    /// Partial sums in shared memory.
    fn partial(&self, product: &Product) -> usize {
        if self.team.finishes_its_sums() {
            1
        } else {
            self.team.splits * product.outs * self.team.rows * self.team.columns
        }
    }

    /// Cubes that stand side by side along the hidden units.
    pub(crate) fn cubes_per_row(&self) -> usize {
        self.hidden.div_ceil(self.team.columns)
    }
}
