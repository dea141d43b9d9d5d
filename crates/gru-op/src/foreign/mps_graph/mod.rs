//! Apple's `MPSGraph.GRU` and `GRUGradients`, with their own signatures.
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
//! Each gate has its own rows in R, W and b: z, r, o, or r, z, o with `reset_gate_first`. This follows Apple's
//! documentation, and was not compared with Apple's implementation.
//!
//! # Where the documentation is unclear or contradicts itself
//!
//! | point | chosen here |
//! |---|---|
//! | `flipZ` has opposite meanings: YES is `z h + (1−z) o` on the descriptor's page, `(1−z) h + z o` on the methods' pages | an [`Update`](crate::Update), from [`flip_z_of_descriptor_page`] or [`flip_z_of_method_pages`] |
//! | `resetAfter`: the descriptor's page puts `b` inside the product, the methods' pages `b2` | `b2` is inside, the o part of `b` outside |
//! | secondary bias: "\[H\], i.e. a vector for each gate", but `[H]` is one gate | `[H]` or `[2H]`, of the o gate; ignored without `reset_after`, as documented |
//! | mask: no shape, "useful for dropout" | `[N,H]` or `[N,2H]`, the same at every step; multiplies only the state that the gates read |
//! | z state: "z\[t\]", but `[T,N,3H]` | the three gates after their activations, in gate order, `[T,N,3H]` or `[T,N,6H]` |
//! | hard sigmoid: no slope | `clamp(0.2 v + 0.5, 0, 1)`, [`HARD_SIGMOID`]; other parameters are possible |
//! | reverse: whether `h[t]` is in input or processing order | `h[t]` belongs to `source[t]` |
//! | bidirectional: "concatenated on the channel-axis" | forward before reverse everywhere |
//! | state gradient: no shape | `[N,H]` or `[N,2H]`, of the state after the last computed step |
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
mod descriptor;
mod direction;
mod gradients;

pub use self::{
    arguments::{RecurrentWeight, weights},
    descriptor::{GruDescriptor, HARD_SIGMOID, flip_z_of_descriptor_page, flip_z_of_method_pages},
    gradients::Gradients,
};

use self::{
    arguments::{Arguments, Parameters, Upstream},
    direction::calls,
};
use crate::{
    backend::{GruBackend, GruSaved, composed},
    op::{sequence::optional, shape},
};
use burn::{backend::Dispatch, tensor::Tensor};
use gru_spec::PerInput;

/// `GRU`: `[h]`, or `[h, z_state]` with `training`; `h [T,N,D·H]`, `z_state [T,N,D·3H]`.
///
/// Burn's autodiff differentiates `h`. The z state is a constant.
///
/// # Shapes
/// D is 2 with `bidirectional`, else 1.
/// - `source`: `[T,N,I]`, or already projected `[T,N,D·3H]` without `input_weight`.
/// - `recurrent_weight`: `[3H,H]`, or `[2,3H,H]` with `bidirectional`.
/// - `input_weight`: `[D·3H,I]`; `bias`: `[D·3H]`.
/// - `init_state`: `[N,D·H]`; zeros if absent.
/// - `mask`: `[N,D·H]`; it has no gradient.
/// - `secondary_bias`: `[D·H]`; ignored without `reset_after`.
///
/// # Panics
/// If shapes, devices or dtypes do not match.
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
#[allow(clippy::too_many_arguments)] // Apple's signature.
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
    let recurrent = recurrent_weight.into();
    let arguments = Arguments {
        source,
        parameters: Parameters::new(recurrent, input_weight, bias, secondary_bias, descriptor),
        init_state,
        mask,
    };
    let (mut states, mut z_states) = (Vec::new(), Vec::new());
    let h = arguments.check("mps_graph::gru", descriptor, None);
    for call in calls(&arguments, descriptor) {
        let saved = Dispatch::gru_forward(call, descriptor.training);
        states.push(Tensor::from_dispatch(saved.states));
        if let Some(gates) = saved.gates {
            let gates = Tensor::<3>::from_dispatch(gates).narrow(2, 0, 3 * h);
            z_states.push(descriptor.gate_order().reorder(gates, 2, 1));
        }
    }
    let mut results = vec![shape::cat(states, 2)];
    if descriptor.training {
        results.push(shape::cat(z_states, 2));
    }
    results
}

/// `GRUGradients`: the gradients of `Σ h ⊙ source_gradient + Σ h_T ⊙ state_gradient`, on the device without autodiff.
///
/// # Shapes
/// As for [`gru`], and
/// - `source_gradient`: `[T,N,D·H]`, the gradient of `h`.
/// - `z_state`, `output_fwd`: the two results of [`gru`] with `training`.
/// - `state_gradient`: `[N,D·H]`, of the state after the last computed step.
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
#[allow(clippy::too_many_arguments)] // Apple's signature.
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
    let [source, source_gradient] = [source, source_gradient].map(Tensor::inner);
    let [z_state, output_fwd] = [z_state, output_fwd].map(Tensor::inner);
    let matrices = [state_gradient, input_weight, init_state, mask];
    let [state_gradient, input_weight, init_state, mask] = matrices.map(|m| m.map(Tensor::inner));
    let [bias, secondary_bias] = [bias, secondary_bias].map(|b| b.map(Tensor::inner));
    let ignored = secondary_bias.clone().filter(|_| !descriptor.reset_after);
    let (recurrent, projected) = (recurrent_weight.into().inner(), input_weight.is_none());
    let arguments = Arguments {
        source,
        parameters: Parameters::new(recurrent, input_weight, bias, secondary_bias, descriptor),
        init_state,
        mask,
    };
    let upstream = Upstream {
        source_gradient,
        z_state,
        output_fwd,
        state_gradient,
    };
    let h = arguments.check("mps_graph::gru_gradients", descriptor, Some(&upstream));
    let [t, n, _] = arguments.source.dims();
    let order = descriptor.gate_order();
    let mut both = None;
    for (d, call) in calls(&arguments, descriptor).into_iter().enumerate() {
        let states = upstream.output_fwd.clone().narrow(2, d * h, h);
        let z_state = upstream.z_state.clone().narrow(2, d * 3 * h, 3 * h);
        let mut gates = order.reorder(z_state, 2, 1);
        if descriptor.reset_after {
            // The z state does not contain q_n.
            let q_n = composed::q_n(call.clone(), states.clone().into_dispatch());
            gates = shape::cat(vec![gates, Tensor::from_dispatch(q_n)], 2);
        }
        let mut d_states = upstream.source_gradient.clone().narrow(2, d * h, h);
        let d_last = upstream.state_gradient.clone();
        let d_last = d_last.map(|gradient| gradient.narrow(1, d * h, h));
        if let Some(gradient) = &d_last
            && t > 0
        {
            let last = call.order.direction.time(t - 1, t);
            let gradient = shape::reshape(gradient.clone(), [1, n, h]);
            let sum = d_states.clone().narrow(0, last, 1) + gradient;
            d_states = d_states.slice_assign([last..last + 1, 0..n, 0..h], sum);
        }
        let wanted: PerInput<bool> = call.inputs.differentiable().map(|input| input.is_some());
        let saved = GruSaved {
            states: states.into_dispatch(),
            gates: optional(Some(gates)),
        };
        let gradients = Dispatch::gru_gradients(call, saved, d_states.into_dispatch(), wanted);
        let mut gradients = Gradients::of_direction(gradients, order, h, projected);
        // The final state of an empty sequence is the initial state.
        if t == 0 && d_last.is_some() && gradients.init_state.is_some() {
            gradients.init_state = d_last;
        }
        both = Some(match both {
            None => gradients,
            Some(forward) => Gradients::join(forward, gradients, projected),
        });
    }
    let mut gradients = both.expect("there is a direction");
    if let Some(bias) = ignored {
        gradients.secondary_bias = Some(bias.zeros_like());
    }
    gradients
}
