//! Apple's `MPSGraph.GRU` and `GRUGradients`, under their own parameters, layouts and order.
//!
//! ```text
//! z[t] = fz((h[t−1] m)·Rzᵀ + x[t]·Wzᵀ + bz)       r[t] likewise
//! c[t] = (h[t−1] r[t] m)·Roᵀ                      by default
//! c[t] = ((h[t−1] m)·Roᵀ + b2) r[t]               with reset_after
//! o[t] = fo(c[t] + x[t]·Woᵀ + bo)
//! h[t] = z[t] h[t−1] + (1−z[t]) o[t]              Update::Keeps
//! h[t] = (1−z[t]) h[t−1] + z[t] o[t]              Update::Takes
//! ```
//!
//! Every gate has its own row block in R, W, b: z, r, o, or r, z, o with `reset_gate_first`.
//! Written from Apple's documentation, not checked against Apple's code.
//!
//! # Where the documentation is silent or contradicts itself
//!
//! | point | chosen |
//! |---|---|
//! | `flipZ` means opposite things: on the descriptor's page YES gives `z h + (1−z) o`, on the pages of the methods it gives `(1−z) h + z o` | the rule is named by what it does: [`Update`](crate::Update). [`flip_z_of_descriptor_page`] and [`flip_z_of_method_pages`] translate |
//! | `resetAfter`: the descriptor's page puts `b` inside the product, the pages of the methods `b2` | `b2` inside; the o part of `b` outside |
//! | secondary bias: "\[H\], i.e. a vector for each gate", though `[H]` is one gate | `[H]` or `[2H]`, of the o gate; ignored without `reset_after`, as documented |
//! | mask: no shape, "useful for dropout" | `[N,H]` or `[N,2H]`, the same at every step; multiplies the state on its way into the gates only |
//! | z state: "z\[t\]", but `[T,N,3H]` | the three gates after their activations, in gate order, `[T,N,3H]` or `[T,N,6H]` |
//! | hard sigmoid: no slope | `clamp(0.2 v + 0.5, 0, 1)`, [`HARD_SIGMOID`]; any other can be given |
//! | reverse: whether `h[t]` is in input or processing order | `h[t]` belongs to `source[t]` |
//! | bidirectional: "concatenated on the channel-axis" | forward before reverse everywhere |
//! | state gradient: no shape | `[N,H]` or `[N,2H]`, of the state after the last step walked |
//!
//! # Activations
//!
//! | `MPSGraphRNNActivation` | [`Activation`](crate::Activation) |
//! |---|---|
//! | `none` | `Identity` |
//! | `relu` | `Relu` |
//! | `tanh` | `Tanh` |
//! | `sigmoid` | `Sigmoid` |
//! | `hardSigmoid` | [`HARD_SIGMOID`] |
//!
//! Source: <https://developer.apple.com/documentation/metalperformanceshadersgraph/mpsgraphgrudescriptor>
//! and the GRU methods of `MPSGraph` there.

mod arguments;
mod check;
mod descriptor;
mod direction;
mod gradients;
mod weights;

pub use self::{
    arguments::RecurrentWeight,
    descriptor::{GruDescriptor, HARD_SIGMOID, flip_z_of_descriptor_page, flip_z_of_method_pages},
    gradients::Gradients,
    weights::weights,
};

use self::{
    arguments::Arguments,
    check::{check, check_gradients},
    direction::split,
    gradients::Collected,
};
use crate::{
    backend::{GruBackend, GruSaved},
    op::sequence::{optional, sequence_as},
};
use burn::{backend::Dispatch, tensor::Tensor};
use gru_spec::PerInput;

/// `GRU`: `[h]`, or `[h, z_state]` in training; `h [T,N,D·H]`, `z_state [T,N,D·3H]`.
///
/// Burn's autodiff differentiates `h`; the z state is a constant to it.
///
/// # Shapes
/// D is 2 with `bidirectional`, else 1.
/// - `source`: `[T,N,I]`; without `input_weight` already projected, `[T,N,D·3H]`.
/// - `recurrent_weight`: `[3H,H]`, or `[2,3H,H]` with `bidirectional`.
/// - `input_weight`: `[D·3H,I]`; `bias`: `[D·3H]`.
/// - `init_state`: `[N,D·H]`; zeros if absent.
/// - `mask`: `[N,D·H]`; a constant, it has no gradient.
/// - `secondary_bias`: `[D·H]`; ignored without `reset_after`.
///
/// # Panics
/// If shapes, devices or dtypes do not fit together.
///
/// ```
/// use burn::tensor::{Device, Distribution, Tensor};
/// use gru_op::{Update, mps_graph::{GruDescriptor, gru}};
///
/// let (t, n, i, h, device) = (5, 2, 3, 4, Device::flex());
/// let source = Tensor::<3>::random([t, n, i], Distribution::Default, &device);
/// let rows = |columns| Tensor::<2>::random([3 * h, columns], Distribution::Default, &device);
/// let descriptor = GruDescriptor::new(Update::Keeps);
/// let results = gru(source, rows(h), Some(rows(i)), None, None, None, None, &descriptor);
/// assert_eq!(results[0].dims(), [t, n, h]);
/// ```
#[allow(clippy::too_many_arguments)] // Apple's, in Apple's order.
pub fn gru(
    source: Tensor<3>,
    recurrent_weight: impl Into<RecurrentWeight>,
    input_weight: Option<Tensor<2>>,
    bias: Option<Tensor<1>>,
    init_state: Option<Tensor<2>>,
    mask: Option<Tensor<2>>,
    secondary_bias: Option<Tensor<1>>,
    descriptor: &GruDescriptor,
) -> Vec<Tensor<3>> {
    let arguments = Arguments {
        source,
        recurrent_weight: recurrent_weight.into(),
        input_weight,
        bias,
        init_state,
        mask,
        secondary_bias: secondary_bias.filter(|_| descriptor.reset_after),
    };
    const OP: &str = "mps_graph::gru";
    check(OP, &arguments, descriptor);
    let (mut states, mut z_states) = (Vec::new(), Vec::new());
    for one in split(&arguments, descriptor) {
        // Where autodiff listens, its node makes the states and keeps gates of its own.
        let autodiff = one.x.device().is_autodiff();
        if descriptor.training {
            let saved = Dispatch::gru_states_and_gates(one.call());
            let gates = saved.gates.expect("the operation returns gates");
            let gates = Tensor::<3>::from_dispatch(gates).narrow(2, 0, 3 * one.h);
            z_states.push(descriptor.gate_order().reorder(gates, 2, 1));
            if !autodiff {
                states.push(Tensor::from_dispatch(saved.states));
            }
        }
        if !descriptor.training || autodiff {
            let options = one.options();
            states.push(sequence_as(OP.into(), one.x, options, &one.weights, &one.spec).0);
        }
    }
    let mut results = vec![Tensor::cat(states, 2)];
    if descriptor.training {
        results.push(Tensor::cat(z_states, 2));
    }
    results
}

/// `GRUGradients`: the gradients of `Σ h ⊙ source_gradient + Σ h_T ⊙ state_gradient`.
///
/// # Shapes
/// Those of [`gru`], and
/// - `source_gradient`: `[T,N,D·H]`, the gradient of `h`.
/// - `z_state`, `output_fwd`: the two results of [`gru`] in training.
/// - `state_gradient`: `[N,D·H]`, of the state after the last step walked.
///
/// The results are constants to autodiff.
///
/// # Panics
/// As [`gru`].
///
/// ```
/// use burn::tensor::{Device, Distribution, Tensor};
/// use gru_op::{Update, mps_graph::{GruDescriptor, gru, gru_gradients}};
///
/// let (t, n, h, device) = (5, 2, 4, Device::flex());
/// let source = Tensor::<3>::random([t, n, 3 * h], Distribution::Default, &device);
/// let weight = Tensor::<2>::random([3 * h, h], Distribution::Default, &device);
/// let mut descriptor = GruDescriptor::new(Update::Keeps);
/// descriptor.training = true;
/// let results =
///     gru(source.clone(), weight.clone(), None, None, None, None, None, &descriptor);
/// let (h_all, z_state) = (results[0].clone(), results[1].clone());
/// let gradients = gru_gradients(
///     source, weight.clone(), h_all.ones_like(), z_state, h_all, None, None, None, None, None, None,
///     &descriptor,
/// );
/// assert_eq!(gradients.source.dims(), [t, n, 3 * h]);
/// ```
#[allow(clippy::too_many_arguments)] // Apple's, in Apple's order.
pub fn gru_gradients(
    source: Tensor<3>,
    recurrent_weight: impl Into<RecurrentWeight>,
    source_gradient: Tensor<3>,
    z_state: Tensor<3>,
    output_fwd: Tensor<3>,
    state_gradient: Option<Tensor<2>>,
    input_weight: Option<Tensor<2>>,
    bias: Option<Tensor<1>>,
    init_state: Option<Tensor<2>>,
    mask: Option<Tensor<2>>,
    secondary_bias: Option<Tensor<1>>,
    descriptor: &GruDescriptor,
) -> Gradients {
    let ignored = secondary_bias.clone().filter(|_| !descriptor.reset_after);
    let arguments = Arguments {
        source,
        recurrent_weight: recurrent_weight.into(),
        input_weight,
        bias,
        init_state,
        mask,
        secondary_bias: secondary_bias.filter(|_| descriptor.reset_after),
    };
    const OP: &str = "mps_graph::gru_gradients";
    let h = check(OP, &arguments, descriptor);
    let [t, n, _] = arguments.source.dims();
    check_gradients(
        OP,
        &arguments,
        descriptor,
        h,
        [&source_gradient, &z_state, &output_fwd],
        state_gradient.as_ref(),
    );

    let order = descriptor.gate_order();
    let mut all = Collected::default();
    for (d, one) in split(&arguments, descriptor).into_iter().enumerate() {
        let states = output_fwd.clone().narrow(2, d * h, h);
        let z_state = z_state.clone().narrow(2, d * 3 * h, 3 * h);
        let mut gates = order.reorder(z_state, 2, 1);
        if descriptor.reset_after {
            gates = Tensor::cat(vec![gates, one.q_n(&states)], 2);
        }
        let mut d_states = source_gradient.clone().narrow(2, d * h, h);
        if let Some(gradient) = &state_gradient
            && t > 0
        {
            let gradient = gradient.clone().narrow(1, d * h, h).unsqueeze_dim::<3>(0);
            let last = one.last_step(t);
            let at_last = d_states.clone().narrow(0, last, 1) + gradient;
            d_states = d_states.slice_assign([last..last + 1, 0..n, 0..h], at_last);
        }
        let call = one.call();
        let wanted: PerInput<bool> = call.inputs.differentiable().map(|input| input.is_some());
        let saved = GruSaved {
            states: states.into_dispatch(),
            gates: optional(Some(gates)),
        };
        let g = Dispatch::gru_gradients(call, saved, d_states.into_dispatch(), wanted);
        all.take(g, order, h, arguments.input_weight.is_none());
        // Nothing reaches the end of an empty sequence but what goes straight to its beginning.
        if let Some(gradient) = &state_gradient
            && t == 0
            && let Some(d_h0) = all.init_state.last_mut()
        {
            *d_h0 = gradient.clone().narrow(1, d * h, h);
        }
    }
    let gradients = all.finish(arguments.input_weight.is_none());
    Gradients {
        secondary_bias: gradients
            .secondary_bias
            .or_else(|| ignored.map(|bias| bias.zeros_like())),
        ..gradients
    }
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use super::*;
    use crate::Update;
    use burn::tensor::{Device, Distribution};

    #[test]
    fn a_secondary_bias_without_reset_after_is_ignored() {
        let (t, n, h, device) = (4, 2, 3, Device::flex());
        let source = Tensor::<3>::random([t, n, 3 * h], Distribution::Default, &device);
        let weight = Tensor::<2>::random([3 * h, h], Distribution::Default, &device);
        let bias = Tensor::<1>::random([h], Distribution::Default, &device);
        let mut descriptor = GruDescriptor::new(Update::Keeps);
        descriptor.training = true;
        let run = |secondary: Option<Tensor<1>>, descriptor: &GruDescriptor| {
            let weight = weight.clone();
            gru(
                source.clone(),
                weight,
                None,
                None,
                None,
                None,
                secondary,
                descriptor,
            )
        };
        let (with, without) = (run(Some(bias.clone()), &descriptor), run(None, &descriptor));
        assert_eq!(with[0].to_data(), without[0].to_data());
        let gradients = gru_gradients(
            source.clone(),
            weight.clone(),
            with[0].clone(),
            with[1].clone(),
            with[0].clone(),
            None,
            None,
            None,
            None,
            None,
            Some(bias.clone()),
            &descriptor,
        );
        let d_bias = gradients.secondary_bias.expect("its input was there");
        assert_eq!(d_bias.to_data(), bias.zeros_like().to_data());
        // It is not so with resetAfter.
        descriptor.reset_after = true;
        let (with, without) = (run(Some(bias), &descriptor), run(None, &descriptor));
        assert_ne!(with[0].to_data(), without[0].to_data());
    }
}
