//! The public passes: checked, and compiled in this crate for both float types.

use crate::{
    call::{Gradients, Gru, Inputs, check_backward, check_forward, gradient_lens},
    memory::{overwritten, request_large_pages},
    pass::{self, Targets},
    simd::Lanes,
    spec::{Lengths, PerInput},
};
use alloc::vec::Vec;
use core::mem::MaybeUninit;

/// A float type of the kernels: `f32` or `f64`. The trait is sealed. Its supertraits may change in any release.
pub trait Element: Lanes {
    /// They are compiled in this crate, and not in every crate that calls them.
    #[doc(hidden)]
    fn passes() -> &'static Passes<Self>;
}

/// The passes of a float type.
#[doc(hidden)]
#[allow(clippy::type_complexity)]
pub struct Passes<E> {
    forward: fn(&Gru, &Lengths, &Inputs<'_, E>, &mut [E], Option<&mut [E]>),
    backward: fn(&Gru, &Lengths, &Inputs<'_, E>, &[E], Option<&[E]>, &[E], Targets<'_, E>),
}

macro_rules! element {
    ($t:ty) => {
        impl Element for $t {
            fn passes() -> &'static Passes<Self> {
                static PASSES: Passes<$t> = Passes {
                    forward: pass::forward,
                    backward: pass::backward,
                };
                &PASSES
            }
        }
    };
}
element!(f32);
element!(f64);

impl Gru {
    /// Writes the state after every step to `states` (`[N,T,H]` or `[T,N,H]`).
    ///
    /// `saved` receives the gates for [`backward`](Self::backward): `[…,4H]` for reset-after, which holds r, z, n and
    /// the candidate's recurrent part q_n; `[…,3H]` for reset-before, which holds r, z, n.
    ///
    /// At a skipped step the state is kept, and the saved gates have no meaning.
    ///
    /// # Panics
    /// If the sizes exceed the address space, [`GruSpec::check`](crate::spec::GruSpec::check) panics, a slice does not have
    /// the required length, or there is a start state without starts.
    pub fn forward<E: Element>(
        &self,
        inputs: &Inputs<'_, E>,
        states: &mut [E],
        saved: Option<&mut [E]>,
    ) {
        self.forward_ragged(&Lengths::All, inputs, states, saved);
    }

    /// [`forward`](Self::forward) for rows of different lengths.
    ///
    /// What is past the end of a row is neither read nor written. So pass zeros for states that are zero there. If
    /// the rows are [packed](Lengths::Packed), `x` is `[M,I]`, the states are `[M,H]`, and so on, with M = Σ lengths.
    /// T is at least the largest length. The reverse direction starts at the end of each row. The final state of a
    /// row is the state of its last step (in reverse of its first), or its initial state if the row has no steps.
    ///
    /// The time is nearly proportional to the sum of the lengths.
    ///
    /// # Panics
    /// As [`forward`](Self::forward), and if there is not one length for each row, or a length is larger than T.
    ///
    /// ```
    /// use gru_cpu::{Gru, Inputs, Sequence, Weights, spec::{GruSpec, Lengths, Sizes}};
    ///
    /// let (n, t, i, h) = (2, 5, 3, 4);
    /// let gru = Gru::new(Sizes { n, t, i, h }, GruSpec::default());
    /// let (w_ih, w_hh) = (vec![0.1f32; i * 3 * h], vec![0.2; h * 3 * h]);
    /// let weights = Weights::new(Some(&w_ih), &w_hh);
    ///
    /// let x = vec![1.0; (5 + 2) * i]; // the rows have 5 and 2 steps
    /// let inputs = Inputs { sequence: Sequence::new(&x), weights };
    /// let mut states = vec![0.0; (5 + 2) * h];
    /// gru.forward_ragged(&Lengths::Packed([5, 2].into()), &inputs, &mut states, None);
    /// assert_eq!(states[..2 * h], states[5 * h..]);
    /// ```
    pub fn forward_ragged<E: Element>(
        &self,
        lengths: &Lengths,
        inputs: &Inputs<'_, E>,
        states: &mut [E],
        saved: Option<&mut [E]>,
    ) {
        check_forward(self, lengths, inputs, states, saved.as_deref());
        if !states.is_empty() {
            (E::passes().forward)(self, lengths, inputs, states, saved);
        }
    }

    /// Writes the requested gradients of `Σ states ⊙ d_states`.
    ///
    /// `states` and `saved` are the results of [`forward`](Self::forward). Without `saved` the gates are recomputed
    /// from the states, some steps at a time. This costs about a third more arithmetic, and memory for the gates of
    /// these steps.
    ///
    /// At skipped steps `x` and `saved` may hold any value, NaN included.
    ///
    /// # Panics
    /// As [`forward`](Self::forward), and if the gradient of an absent input is requested.
    pub fn backward<E: Element>(
        &self,
        inputs: &Inputs<'_, E>,
        states: &[E],
        saved: Option<&[E]>,
        d_states: &[E],
        to: Gradients<'_, E>,
    ) {
        self.backward_ragged(&Lengths::All, inputs, states, saved, d_states, to);
    }

    /// [`backward`](Self::backward) for rows of different lengths, after [`forward_ragged`](Self::forward_ragged).
    ///
    /// What is past the end of a row is not read in any tensor, and not written in the gradient of x. Without hidden
    /// units the whole gradient of x is zero.
    ///
    /// # Panics
    /// As [`backward`](Self::backward), and if there is not one length for each row, or a length is larger than T.
    pub fn backward_ragged<E: Element>(
        &self,
        lengths: &Lengths,
        inputs: &Inputs<'_, E>,
        states: &[E],
        saved: Option<&[E]>,
        d_states: &[E],
        to: Gradients<'_, E>,
    ) {
        let lens = to.as_ref().map(|to| to.as_deref().map(<[E]>::len));
        check_backward(self, lengths, inputs, states, saved, d_states, lens);
        // SAFETY: the passes write elements.
        let to = to.map(|to| to.map(|to| unsafe { overwritten(to) }));
        self.write_gradients(lengths, inputs, states, saved, d_states, to);
    }

    /// [`backward_ragged`](Self::backward_ragged) into new memory, which is faster than memory of zeros. Past the end of a
    /// row the gradient of x is zero.
    ///
    /// # Panics
    /// As [`backward_ragged`](Self::backward_ragged).
    pub fn gradients_ragged<E: Element>(
        &self,
        lengths: &Lengths,
        inputs: &Inputs<'_, E>,
        states: &[E],
        saved: Option<&[E]>,
        d_states: &[E],
        wanted: PerInput<bool>,
    ) -> PerInput<Option<Vec<E>>> {
        let lens = wanted.zip(gradient_lens(self, inputs));
        let lens = lens.map(|(wanted, len)| len.filter(|_| wanted));
        check_backward(self, lengths, inputs, states, saved, d_states, lens);
        let mut gradients = lens.map(|len| len.map(Vec::with_capacity));
        let mut to = gradients.as_mut().zip(lens).map(|(gradient, len)| {
            let memory = &mut gradient.as_mut()?.spare_capacity_mut()[..len?];
            request_large_pages(memory);
            Some(memory)
        });
        if let (Some(x), Some(_)) = (&mut to.x, lengths.of_rows()) {
            x.fill(MaybeUninit::new(E::zero()));
        }
        self.write_gradients(lengths, inputs, states, saved, d_states, to);
        gradients.zip(lens).map(|(gradient, len)| {
            let (mut gradient, len) = (gradient?, len?);
            // SAFETY: `write_gradients` wrote every element, except of x past the end of a row, which are zeros from above.
            // The tests compare each gradient with one in memory that was filled before.
            unsafe { gradient.set_len(len) };
            Some(gradient)
        })
    }

    /// Writes every element of the gradients, except of x past the end of a row. The arguments were checked.
    fn write_gradients<E: Element>(
        &self,
        lengths: &Lengths,
        inputs: &Inputs<'_, E>,
        states: &[E],
        saved: Option<&[E]>,
        d_states: &[E],
        to: Targets<'_, E>,
    ) {
        let no_steps = |lengths: &[usize]| lengths.iter().all(|&len| len == 0);
        if states.is_empty() || lengths.of_rows().is_some_and(no_steps) {
            let x =
                to.x.filter(|_| self.sizes.h == 0 || lengths.of_rows().is_none());
            let all = Targets { x, ..to }.into_array().into_iter().flatten();
            all.for_each(|d| d.fill(MaybeUninit::new(E::zero())));
        } else {
            (E::passes().backward)(self, lengths, inputs, states, saved, d_states, to);
        }
    }
}
