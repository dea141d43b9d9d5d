//! The tensors of a call: the only list of inputs, gradients and their shapes.

use core::ops::Deref;

use crate::{order::Layout, sizes::Sizes};

/// A sequence and the tensors of its rows and steps. Make it from [`new`](Self::new), with `..Sequence::new(x)`: it may get
/// more fields.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sequence<T> {
    /// The input, `[N,T,I]` or `[T,N,I]`. Without an input weight it is already projected, with `3H`
    /// features.
    pub x: T,
    /// Initial state `[N,H]`; zeros if absent.
    pub h0: Option<T>,
    /// Recurrent mask `[N,H]`, equal at every step. It multiplies the state as input of the gates, not
    /// the state that the update gate keeps. It has no gradient.
    pub recurrent_mask: Option<T>,
    /// `[N,T]` or `[T,N]`: 0 if a step is skipped and the state is kept. It has no gradient.
    pub step_mask: Option<T>,
    /// Share of the previous state that a valid step keeps, `[N,T,H]` or `[N,T,1]` (`[T,N,·]`): `h =
    /// zoneout ⊙ h₋₁ + (1 − zoneout) ⊙ h'`. It has no gradient.
    pub zoneout: Option<T>,
    /// Starts `[N,T]` or `[T,N]`: nonzero if the row starts a new sequence at this time. The step that
    /// crosses the boundary before this time, in either direction, begins with `start_state` instead of
    /// the previous state. It has no gradient.
    pub starts: Option<T>,
    /// The state with which a row starts, `[N,H]`; zeros if absent. It requires `starts`.
    pub start_state: Option<T>,
}

/// The weights of one direction of one layer, gates packed `r | z | n` in columns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weights<T> {
    /// Input weight `[I,3H]`. Without it the sequence is already projected.
    pub w_ih: Option<T>,
    /// Recurrent weight `[H,3H]`.
    pub w_hh: T,
    /// Bias of the input product, `[3H]`.
    pub b_ih: Option<T>,
    /// Bias of the recurrent product, `[3H]`.
    pub b_hh: Option<T>,
}

/// All inputs of a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Inputs<T> {
    /// The sequence.
    pub sequence: Sequence<T>,
    /// The weights.
    pub weights: Weights<T>,
}

impl<T> Weights<T> {
    /// Weights without biases.
    pub fn new(w_ih: Option<T>, w_hh: T) -> Self {
        Self {
            w_ih,
            w_hh,
            b_ih: None,
            b_hh: None,
        }
    }
}

/// The error of [`Inputs::from_slots`]: the name of a missing required input.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissingInput(pub &'static str);

/// Functions of a group of tensors.
macro_rules! per_tensor {
    ($group:ident: $required:ident, $($optional:ident),+) => {
        impl<T> $group<T> {
            /// Borrows each tensor.
            pub fn as_ref(&self) -> $group<&T> {
                $group {
                    $required: &self.$required,
                    $($optional: self.$optional.as_ref()),+
                }
            }

            /// Applies a function to each tensor.
            pub fn map<U>(self, mut f: impl FnMut(T) -> U) -> $group<U> {
                $group {
                    $required: f(self.$required),
                    $($optional: self.$optional.map(&mut f)),+
                }
            }
        }
    };
}

/// Lists the tensors: each group with its required tensor first, and all inputs in order. Inputs with a gradient come
/// first.
macro_rules! tensors {
    (
        Sequence: $x:ident, $($sequence:ident),+;
        Weights: $w_hh:ident, $($weight:ident),+;
        with_gradient: $($with:ident),+;
        without_gradient: $($without:ident),+;
    ) => {
        /// The names of the inputs, in the order of [`Inputs::into_slots`]. The inputs of [`PerInput`] come first.
        #[doc(hidden)]
        pub const NAMES: [&str; COUNT] = [$(stringify!($with),)+ $(stringify!($without)),+];
        const COUNT: usize = GRADIENTS + [$(stringify!($without)),+].len();
        /// The number of inputs that have a gradient.
        #[doc(hidden)]
        pub const GRADIENTS: usize = [$(stringify!($with)),+].len();

        /// One value for each input that has a gradient.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        #[allow(missing_docs)] // The names of the inputs.
        pub struct PerInput<T> {
            $(pub $with: T),+
        }

        impl<T> PerInput<T> {
            /// The values in the order of the inputs.
            #[doc(hidden)]
            pub fn into_array(self) -> [T; GRADIENTS] {
                let Self { $($with),+ } = self;
                [$($with),+]
            }

            /// The inverse of [`into_array`](Self::into_array).
            #[doc(hidden)]
            pub fn from_array([$($with),+]: [T; GRADIENTS]) -> Self {
                Self { $($with),+ }
            }

            /// Borrows each value.
            pub fn as_ref(&self) -> PerInput<&T> {
                let Self { $($with),+ } = self;
                PerInput { $($with),+ }
            }

            /// Borrows each value mutably.
            pub fn as_mut(&mut self) -> PerInput<&mut T> {
                let Self { $($with),+ } = self;
                PerInput { $($with),+ }
            }
        }

        impl<T> Inputs<T> {
            /// The inputs in order. Absent inputs are `None`.
            #[doc(hidden)]
            pub fn into_slots(self) -> [Option<T>; COUNT] {
                let Sequence { $x, $($sequence),+ } = self.sequence;
                let Weights { $w_hh, $($weight),+ } = self.weights;
                let ($x, $w_hh) = (Some($x), Some($w_hh));
                [$($with,)+ $($without),+]
            }

            /// The inverse of [`into_slots`](Self::into_slots).
            ///
            /// # Errors
            /// If `x` or `w_hh` is absent.
            #[doc(hidden)]
            pub fn from_slots(slots: [Option<T>; COUNT]) -> Result<Self, MissingInput> {
                let [$($with,)+ $($without),+] = slots;
                let $x = $x.ok_or(MissingInput(stringify!($x)))?;
                let $w_hh = $w_hh.ok_or(MissingInput(stringify!($w_hh)))?;
                Ok(Self {
                    sequence: Sequence { $x, $($sequence),+ },
                    weights: Weights { $w_hh, $($weight),+ },
                })
            }
        }

        impl<T> Sequence<T> {
            /// A sequence with only its input.
            pub fn new($x: T) -> Self {
                Self { $x, $($sequence: None),+ }
            }
        }

        per_tensor!(Sequence: $x, $($sequence),+);
        per_tensor!(Weights: $w_hh, $($weight),+);
    };
}

tensors! {
    Sequence: x, h0, recurrent_mask, step_mask, zoneout, starts, start_state;
    Weights: w_hh, w_ih, b_ih, b_hh;
    with_gradient: x, h0, w_ih, w_hh, b_ih, b_hh, start_state;
    without_gradient: recurrent_mask, step_mask, zoneout, starts;
}

impl<T> Inputs<T> {
    /// Borrows each input.
    pub fn as_ref(&self) -> Inputs<&T> {
        Inputs {
            sequence: self.sequence.as_ref(),
            weights: self.weights.as_ref(),
        }
    }

    /// Applies a function to each input.
    pub fn map<U>(self, mut f: impl FnMut(T) -> U) -> Inputs<U> {
        let Self { sequence, weights } = self;
        Inputs {
            sequence: sequence.map(&mut f),
            weights: weights.map(&mut f),
        }
    }

    /// The inputs that are present.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.as_ref().into_slots().into_iter().flatten()
    }

    /// The inputs that are present, with their names.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, &T)> {
        let slots = NAMES.into_iter().zip(self.as_ref().into_slots());
        slots.filter_map(|(name, input)| Some((name, input?)))
    }

    /// The inputs that have a gradient. Absent inputs are `None`.
    pub fn differentiable(&self) -> PerInput<Option<&T>> {
        let mut slots = self.as_ref().into_slots().into_iter();
        PerInput::from_array(core::array::from_fn(|_| slots.next().flatten()))
    }
}

impl<T> PerInput<T> {
    /// Applies a function to each value.
    pub fn map<U>(self, f: impl FnMut(T) -> U) -> PerInput<U> {
        PerInput::from_array(self.into_array().map(f))
    }

    /// Pairs the values of each input.
    pub fn zip<U>(self, other: PerInput<U>) -> PerInput<(T, U)> {
        let mut other = other.into_array().map(Some);
        let mut others = other.iter_mut();
        let mut next = || others.next().and_then(Option::take);
        self.map(|value| (value, next().expect("both have a value for each input")))
    }

    /// The values, with the names of their inputs.
    pub fn named(self) -> impl Iterator<Item = (&'static str, T)> {
        NAMES.into_iter().zip(self.into_array())
    }
}

/// The shape of a tensor with at most three dimensions, without an allocation.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    rank: usize,
    sizes: [usize; 3],
}

impl Shape {
    /// The number of elements.
    pub fn elements(&self) -> usize {
        self.iter().product()
    }
}

impl<const D: usize> From<[usize; D]> for Shape {
    /// # Panics
    /// If there are more than three sizes.
    fn from(from: [usize; D]) -> Self {
        let mut sizes = [1; 3];
        sizes[..D].copy_from_slice(&from);
        Self { rank: D, sizes }
    }
}

impl Deref for Shape {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        &self.sizes[..self.rank]
    }
}

impl Sizes {
    /// The shape of each input for a sequence in this layout. An already projected `x` has `3H` features
    /// instead of I. Zoneout may have one feature instead of H.
    #[doc(hidden)]
    pub fn shapes(&self, layout: Layout) -> Inputs<Shape> {
        let Self { n, t, i, h } = *self;
        let gates = Shape::from([3 * h]);
        Inputs {
            sequence: Sequence {
                x: self.sequence(layout, i),
                h0: Some(Shape::from([n, h])),
                recurrent_mask: Some(Shape::from([n, h])),
                step_mask: Some(Shape::from(layout.split([n, t]))),
                zoneout: Some(self.sequence(layout, h)),
                starts: Some(Shape::from(layout.split([n, t]))),
                start_state: Some(Shape::from([n, h])),
            },
            weights: Weights {
                w_ih: Some(Shape::from([i, 3 * h])),
                w_hh: Shape::from([h, 3 * h]),
                b_ih: Some(gates),
                b_hh: Some(gates),
            },
        }
    }

    /// The shape of a sequence with this number of features.
    #[doc(hidden)]
    pub fn sequence(&self, layout: Layout, features: usize) -> Shape {
        let [first, second] = layout.split([self.n, self.t]);
        Shape::from([first, second, features])
    }
}

#[cfg(test)]
mod tests;
