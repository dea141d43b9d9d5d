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
//! | `flipZ` means opposite things: on the descriptor's page YES gives `z h + (1−z) o`, on the pages of the methods it gives `(1−z) h + z o` | the rule is named by what it does: [`Update`]. [`flip_z_of_descriptor_page`] and [`flip_z_of_method_pages`] translate |
//! | `resetAfter`: the descriptor's page puts `b` inside the product, the pages of the methods `b2` | `b2` inside; the o part of `b` outside |
//! | secondary bias: "\[H\], i.e. a vector for each gate", though `[H]` is one gate; nothing without `resetAfter` | `[H]` or `[2H]`, of the o gate; refused without `reset_after` |
//! | mask: no shape, "useful for dropout" | `[N,H]` or `[N,2H]`, the same at every step; multiplies the state on its way into the gates only |
//! | z state: "z\[t\]", but `[T,N,3H]` | the three gates after their activations, in gate order, `[T,N,3H]` or `[T,N,6H]` |
//! | hard sigmoid: no slope | `clamp(0.2 v + 0.5, 0, 1)`, [`HARD_SIGMOID`]; any other can be given |
//! | reverse: whether `h[t]` is in input or processing order | `h[t]` belongs to `source[t]` |
//! | bidirectional: "concatenated on the channel-axis" | forward before reverse everywhere |
//! | state gradient: no shape | `[N,H]` or `[N,2H]`, of the state after the last step walked |
//!
//! Source: <https://developer.apple.com/documentation/metalperformanceshadersgraph/mpsgraphgrudescriptor>
//! and the GRU methods of `MPSGraph` there.

use crate::{
    GruBackend, GruInputs, GruOptions, GruSpec, GruWeights, OptionalTensor, Reset, Update, Wanted,
    api::{optional, sequence_as},
    convert::GateOrder,
    shape::{expect, expect_place},
    spec::{Activation, Activations, Direction, Layout},
};
use burn::{backend::Dispatch, tensor::Tensor};

/// The slope and offset that older pages of Apple's give as the defaults of a hard sigmoid.
pub const HARD_SIGMOID: Activation = Activation::HardSigmoid {
    alpha: 0.2,
    beta: 0.5,
};

/// The update rule that `flipZ` means on the page of `MPSGraphGRUDescriptor`.
pub fn flip_z_of_descriptor_page(flip_z: bool) -> Update {
    match flip_z {
        true => Update::Keeps,
        false => Update::Takes,
    }
}

/// The update rule that `flipZ` means on the pages of the GRU methods.
pub fn flip_z_of_method_pages(flip_z: bool) -> Update {
    match flip_z {
        true => Update::Takes,
        false => Update::Keeps,
    }
}

/// `MPSGraphGRUDescriptor`. Its `flipZ` is [`update`](Self::update), by name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GruDescriptor {
    /// Whether time is walked from the last step to the first. No effect with `bidirectional`.
    pub reverse: bool,
    /// Whether time is walked in both directions, with weights of its own for each.
    pub bidirectional: bool,
    /// Whether the forward also returns the z state, which the gradients need.
    pub training: bool,
    /// Whether gates are packed r, z, o instead of z, r, o.
    pub reset_gate_first: bool,
    /// Whether the reset gate acts after the recurrent product.
    pub reset_after: bool,
    /// What the update gate does with the previous state.
    pub update: Update,
    /// `fz`.
    pub update_gate_activation: Activation,
    /// `fr`.
    pub reset_gate_activation: Activation,
    /// `fo`.
    pub output_gate_activation: Activation,
}

impl GruDescriptor {
    /// Apple's defaults, but for the update rule, on which its pages disagree.
    pub fn new(update: Update) -> Self {
        Self {
            reverse: false,
            bidirectional: false,
            training: false,
            reset_gate_first: false,
            reset_after: false,
            update,
            update_gate_activation: Activation::Sigmoid,
            reset_gate_activation: Activation::Sigmoid,
            output_gate_activation: Activation::Tanh,
        }
    }

    fn directions(&self) -> usize {
        if self.bidirectional { 2 } else { 1 }
    }

    pub(crate) fn order(&self) -> GateOrder {
        match self.reset_gate_first {
            true => GateOrder::ResetFirst,
            false => GateOrder::UpdateFirst,
        }
    }

    pub(crate) fn spec(&self, direction: Direction) -> GruSpec {
        GruSpec::default()
            .with_reset(match self.reset_after {
                true => Reset::AfterMatmul,
                false => Reset::BeforeMatmul,
            })
            .with_update(self.update)
            .with_activations(Activations {
                reset: self.reset_gate_activation,
                update: self.update_gate_activation,
                candidate: self.output_gate_activation,
            })
            .with_layout(Layout::TimeMajor)
            .with_direction(direction)
    }
}

/// `recurrentWeight`, or its gradient.
#[derive(Debug, Clone)]
pub enum RecurrentWeight {
    /// `[3H,H]`.
    One(Tensor<2>),
    /// `[2,3H,H]`, with `bidirectional`.
    Two(Tensor<3>),
}

impl From<Tensor<2>> for RecurrentWeight {
    fn from(weight: Tensor<2>) -> Self {
        Self::One(weight)
    }
}

impl From<Tensor<3>> for RecurrentWeight {
    fn from(weight: Tensor<3>) -> Self {
        Self::Two(weight)
    }
}

impl RecurrentWeight {
    /// `[3H,H]` of one direction.
    fn direction(&self, d: usize) -> Tensor<2> {
        match self {
            Self::One(weight) => weight.clone(),
            Self::Two(weights) => weights.clone().narrow(0, d, 1).squeeze_dim(0),
        }
    }
}

/// The tensors of a call. D is 2 with `bidirectional`, else 1.
#[derive(Debug, Clone)]
pub struct GruArguments {
    /// `[T,N,I]`; without `input_weight` already projected, `[T,N,D·3H]`.
    pub source: Tensor<3>,
    /// `[3H,H]` or `[2,3H,H]`.
    pub recurrent_weight: RecurrentWeight,
    /// `[D·3H,I]`.
    pub input_weight: Option<Tensor<2>>,
    /// `[D·3H]`.
    pub bias: Option<Tensor<1>>,
    /// `[N,D·H]`; zeros if absent.
    pub init_state: Option<Tensor<2>>,
    /// `[N,D·H]`; a constant, it has no gradient.
    pub mask: Option<Tensor<2>>,
    /// `[D·H]`, with `reset_after` only.
    pub secondary_bias: Option<Tensor<1>>,
}

impl GruArguments {
    /// A call with nothing optional.
    pub fn new(source: Tensor<3>, recurrent_weight: impl Into<RecurrentWeight>) -> Self {
        Self {
            source,
            recurrent_weight: recurrent_weight.into(),
            input_weight: None,
            bias: None,
            init_state: None,
            mask: None,
            secondary_bias: None,
        }
    }
}

/// What `GRUGradients` returns, in its order. Each is there exactly if its input was.
#[derive(Debug, Clone)]
pub struct GruGradients {
    /// As `source`.
    pub source: Tensor<3>,
    /// As `recurrent_weight`.
    pub recurrent_weight: RecurrentWeight,
    /// As `input_weight`.
    pub input_weight: Option<Tensor<2>>,
    /// As `bias`.
    pub bias: Option<Tensor<1>>,
    /// As `init_state`.
    pub init_state: Option<Tensor<2>>,
    /// As `secondary_bias`.
    pub secondary_bias: Option<Tensor<1>>,
}

/// `GRU`: `[h]`, or `[h, z_state]` in training; `h [T,N,D·H]`, `z_state [T,N,D·3H]`.
///
/// Burn's autodiff differentiates `h`; the z state is a constant to it.
///
/// # Panics
/// If shapes, devices or dtypes do not fit together, or a secondary bias is given without
/// `reset_after`.
pub fn gru(arguments: GruArguments, descriptor: &GruDescriptor) -> Vec<Tensor<3>> {
    const OP: &str = "mps_graph::gru";
    check(OP, &arguments, descriptor);
    let (mut states, mut z_states) = (Vec::new(), Vec::new());
    for one in split(&arguments, descriptor) {
        // Where autodiff listens, its node makes the states and keeps gates of its own.
        let autodiff = one.x.device().is_autodiff();
        if descriptor.training {
            let forward = Dispatch::gru_states_and_gates(one.inputs(), one.spec);
            let gates = Tensor::<3>::from_dispatch(forward.gates).narrow(2, 0, 3 * one.h);
            z_states.push(descriptor.order().reorder(gates, 2, 1));
            if !autodiff {
                states.push(Tensor::from_dispatch(forward.states));
            }
        }
        if !descriptor.training || autodiff {
            let options = GruOptions {
                h0: one.h0,
                mask: one.mask,
                ..Default::default()
            };
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
/// - `source_gradient`: `[T,N,D·H]`, the gradient of `h`.
/// - `z_state`, `output_fwd`: the two results of [`gru`] in training.
/// - `state_gradient`: `[N,D·H]`, of the state after the last step walked.
///
/// The results are constants to autodiff.
///
/// # Panics
/// As [`gru`].
pub fn gru_gradients(
    arguments: GruArguments,
    source_gradient: Tensor<3>,
    z_state: Tensor<3>,
    output_fwd: Tensor<3>,
    state_gradient: Option<Tensor<2>>,
    descriptor: &GruDescriptor,
) -> GruGradients {
    const OP: &str = "mps_graph::gru_gradients";
    let h = check(OP, &arguments, descriptor);
    let ([t, n, _], directions) = (arguments.source.dims(), descriptor.directions());
    for (name, tensor, features) in [
        ("source_gradient [T, N, D·H]", &source_gradient, h),
        ("z_state [T, N, D·3H]", &z_state, 3 * h),
        ("output_fwd [T, N, D·H]", &output_fwd, h),
    ] {
        expect(
            OP,
            name,
            tensor.dims(),
            [t, n, directions * features],
            || {
                format!(
                    "D is {directions}, H is {h}, the source is {:?}",
                    arguments.source.dims()
                )
            },
        );
        expect_place(OP, name, tensor, &arguments.source);
    }
    if let Some(gradient) = &state_gradient {
        let name = "state_gradient [N, D·H]";
        expect(OP, name, gradient.dims(), [n, directions * h], || {
            format!("D is {directions}, H is {h}")
        });
        expect_place(OP, name, gradient, &arguments.source);
    }

    let order = descriptor.order();
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
        let wanted = Wanted {
            x: true,
            h0: one.h0.is_some(),
            w_ih: one.weights.w_ih.is_some(),
            w_hh: true,
            b_ih: one.weights.b_ih.is_some(),
            b_hh: one.weights.b_hh.is_some(),
        };
        let g = Dispatch::gru_gradients(
            one.inputs(),
            states.into_dispatch(),
            optional(Some(gates)),
            d_states.into_dispatch(),
            one.spec,
            wanted,
        );
        all.take(g, order, h, arguments.input_weight.is_none());
        // Nothing reaches the end of an empty sequence but what goes straight to its beginning.
        if let Some(gradient) = &state_gradient
            && t == 0
            && let Some(d_h0) = all.init_state.last_mut()
        {
            *d_h0 = gradient.clone().narrow(1, d * h, h);
        }
    }
    all.finish(arguments.input_weight.is_none())
}

/// One direction of a call, in the terms of the operator.
struct OneDirection {
    h: usize,
    x: Tensor<3>,
    h0: Option<Tensor<2>>,
    mask: Option<Tensor<2>>,
    weights: GruWeights,
    spec: GruSpec,
}

impl OneDirection {
    fn inputs(&self) -> GruInputs<Dispatch> {
        let w = self.weights.clone();
        GruInputs {
            x: self.x.clone().into_dispatch(),
            h0: optional(self.h0.clone()),
            w_ih: optional(w.w_ih),
            w_hh: w.w_hh.into_dispatch(),
            b_ih: optional(w.b_ih),
            b_hh: optional(w.b_hh),
            mask: optional(self.mask.clone()),
            valid: OptionalTensor::Absent,
            take: OptionalTensor::Absent,
        }
    }

    /// The time index of the last step walked.
    fn last_step(&self, t: usize) -> usize {
        self.spec.direction.time(t - 1, t)
    }

    /// The recurrent product of the candidate before its reset, `[T,N,H]`, which the z state does
    /// not hold: one large product.
    fn q_n(&self, states: &Tensor<3>) -> Tensor<3> {
        let ([t, n, _], h) = (states.dims(), self.h);
        if t == 0 || n == 0 {
            return states.clone(); // as empty
        }
        let first = match &self.h0 {
            Some(h0) => h0.clone().unsqueeze_dim(0),
            None => Tensor::zeros([1, n, h], (&states.device(), states.dtype())),
        };
        // Burn has no empty `narrow`.
        let but_one = |from| (t > 1).then(|| states.clone().narrow(0, from, t - 1));
        let before: Vec<Tensor<3>> = match self.spec.direction {
            Direction::Forward => [Some(first), but_one(0)].into_iter().flatten().collect(),
            Direction::Reverse => [but_one(1), Some(first)].into_iter().flatten().collect(),
        };
        let mut g = Tensor::cat(before, 0);
        if let Some(mask) = &self.mask {
            g = g * mask.clone().unsqueeze_dim(0);
        }
        let w_hn = self.weights.w_hh.clone().narrow(1, 2 * h, h);
        let q_n = g.reshape([t * n, h]).matmul(w_hn).reshape([t, n, h]);
        match &self.weights.b_hh {
            Some(b_hh) => q_n + b_hh.clone().narrow(0, 2 * h, h).unsqueeze(),
            None => q_n,
        }
    }
}

fn split(arguments: &GruArguments, descriptor: &GruDescriptor) -> Vec<OneDirection> {
    let order = descriptor.order();
    let directions: &[Direction] = match (descriptor.bidirectional, descriptor.reverse) {
        (true, _) => &[Direction::Forward, Direction::Reverse],
        (false, false) => &[Direction::Forward],
        (false, true) => &[Direction::Reverse],
    };
    let one = |(d, &direction): (usize, &Direction)| {
        let weights = weights(
            order,
            d,
            &arguments.recurrent_weight,
            arguments.input_weight.as_ref(),
            &arguments.bias,
            &arguments.secondary_bias,
        );
        let [h, gates] = weights.w_hh.dims();
        let states = |t: &Option<Tensor<2>>| t.clone().map(|t| t.narrow(1, d * h, h));
        let x = arguments.source.clone();
        let none = |len| Tensor::zeros([len], (&x.device(), x.dtype()));
        let all_gates = |b: Tensor<1>| Tensor::cat(vec![none(2 * h), b], 0);
        OneDirection {
            h,
            h0: states(&arguments.init_state),
            mask: states(&arguments.mask),
            weights: GruWeights {
                b_hh: weights.b_hh.map(all_gates),
                ..weights
            },
            x: match arguments.input_weight {
                Some(_) => x,
                None => order.reorder(x.narrow(2, d * gates, gates), 2, 1),
            },
            spec: descriptor.spec(direction),
        }
    };
    directions.iter().enumerate().map(one).collect()
}

/// The weights of direction `d` as the operator takes them, the secondary bias as `[H]`.
pub(crate) fn weights(
    order: GateOrder,
    d: usize,
    recurrent: &RecurrentWeight,
    input: Option<&Tensor<2>>,
    bias: &Option<Tensor<1>>,
    secondary: &Option<Tensor<1>>,
) -> GruWeights {
    let r = recurrent.direction(d);
    let [gates, h] = r.dims();
    let columns = |rows: Tensor<2>| order.reorder(rows, 0, 1).transpose();
    GruWeights {
        w_ih: input.map(|w| columns(w.clone().narrow(0, d * gates, gates))),
        w_hh: columns(r),
        b_ih: bias
            .clone()
            .map(|b| order.reorder(b.narrow(0, d * gates, gates), 0, 1)),
        b_hh: secondary.clone().map(|b| b.narrow(0, d * h, h)),
    }
}

/// The gradients of each direction, in Apple's layouts.
#[derive(Default)]
struct Collected {
    source: Vec<Tensor<3>>,
    recurrent_weight: Vec<Tensor<2>>,
    input_weight: Vec<Tensor<2>>,
    bias: Vec<Tensor<1>>,
    init_state: Vec<Tensor<2>>,
    secondary_bias: Vec<Tensor<1>>,
}

impl Collected {
    fn take(
        &mut self,
        d: crate::GruGradients<Dispatch>,
        order: GateOrder,
        h: usize,
        projected: bool,
    ) {
        fn of<const D: usize>(d: OptionalTensor<Dispatch>) -> Option<Tensor<D>> {
            d.into_option().map(Tensor::from_dispatch)
        }
        let rows = |columns: Tensor<2>| order.reorder(columns.transpose(), 0, 1);
        self.source.extend(of::<3>(d.x).map(|x| match projected {
            true => order.reorder(x, 2, 1),
            false => x,
        }));
        self.recurrent_weight.extend(of(d.w_hh).map(rows));
        self.input_weight.extend(of(d.w_ih).map(rows));
        self.bias
            .extend(of::<1>(d.b_ih).map(|b| order.reorder(b, 0, 1)));
        self.init_state.extend(of::<2>(d.h0));
        let candidate = |b: Tensor<1>| b.narrow(0, 2 * h, h);
        self.secondary_bias.extend(of(d.b_hh).map(candidate));
    }

    fn finish(self, projected: bool) -> GruGradients {
        fn side_by_side<const D: usize>(parts: Vec<Tensor<D>>, dim: usize) -> Option<Tensor<D>> {
            (!parts.is_empty()).then(|| Tensor::cat(parts, dim))
        }
        const ALWAYS: &str = "the source and the recurrent weight are always there";
        let source = match projected {
            true => side_by_side(self.source, 2),
            false => self.source.into_iter().reduce(|a, b| a + b),
        };
        let mut recurrent = self.recurrent_weight;
        GruGradients {
            source: source.expect(ALWAYS),
            recurrent_weight: match recurrent.len() {
                1 => RecurrentWeight::One(recurrent.remove(0)),
                _ => RecurrentWeight::Two(Tensor::stack(recurrent, 0)),
            },
            input_weight: side_by_side(self.input_weight, 0),
            bias: side_by_side(self.bias, 0),
            init_state: side_by_side(self.init_state, 1),
            secondary_bias: side_by_side(self.secondary_bias, 0),
        }
    }
}

/// Checks a call; H.
fn check(op: &str, arguments: &GruArguments, descriptor: &GruDescriptor) -> usize {
    descriptor.spec(Direction::Forward).check();
    let directions = descriptor.directions();
    let x = &arguments.source;
    let [_, n, features] = x.dims();
    let (gates, h) = match (&arguments.recurrent_weight, descriptor.bidirectional) {
        (RecurrentWeight::One(weight), false) => {
            let [gates, h] = weight.dims();
            expect_place(op, "recurrent_weight", weight, x);
            (gates, h)
        }
        (RecurrentWeight::Two(weights), true) => {
            let [two, gates, h] = weights.dims();
            let name = "the first dimension of recurrent_weight [2, 3H, H]";
            expect(op, name, [two], [2], || {
                "the descriptor is bidirectional".into()
            });
            expect_place(op, "recurrent_weight", weights, x);
            (gates, h)
        }
        (RecurrentWeight::One(weight), true) => panic!(
            "{op}: recurrent_weight must be [2, 3H, H] with bidirectional, got {:?}",
            weight.dims()
        ),
        (RecurrentWeight::Two(weights), false) => panic!(
            "{op}: recurrent_weight must be [3H, H] without bidirectional, got {:?}",
            weights.dims()
        ),
    };
    assert!(
        h.checked_mul(3) == Some(gates),
        "{op}: recurrent_weight must have 3H rows and H columns, got {gates} and {h}"
    );
    let because = || format!("D is {directions}, H is {h}, the source is {:?}", x.dims());
    let all_gates = directions * gates;
    match &arguments.input_weight {
        Some(weight) => {
            let name = "input_weight [D·3H, I]";
            expect(op, name, weight.dims(), [all_gates, features], because);
            expect_place(op, "input_weight", weight, x);
        }
        None => {
            let name = "the last dimension of source, D·3H without input_weight,";
            expect(op, name, [features], [all_gates], because);
        }
    }
    if let Some(bias) = &arguments.bias {
        expect(op, "bias [D·3H]", bias.dims(), [all_gates], because);
        expect_place(op, "bias", bias, x);
    }
    for (name, state) in [
        ("init_state [N, D·H]", &arguments.init_state),
        ("mask [N, D·H]", &arguments.mask),
    ] {
        if let Some(state) = state {
            expect(op, name, state.dims(), [n, directions * h], because);
            expect_place(op, name, state, x);
        }
    }
    if let Some(bias) = &arguments.secondary_bias {
        assert!(
            descriptor.reset_after,
            "{op}: secondary_bias must be absent without reset_after, got {:?}",
            bias.dims()
        );
        expect(
            op,
            "secondary_bias [D·H]",
            bias.dims(),
            [directions * h],
            because,
        );
        expect_place(op, "secondary_bias", bias, x);
    }
    h
}
