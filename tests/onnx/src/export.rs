//! Small models for the export: every operation of the table by itself, random chains of them, and GRUs.

use burn::{
    module::Module,
    nn::{
        BatchNorm, BatchNormConfig, Embedding, EmbeddingConfig, GroupNorm, GroupNormConfig, LayerNorm,
        LayerNormConfig, Linear, LinearConfig, PaddingConfig1d, PaddingConfig2d, RmsNorm, RmsNormConfig,
        attention::{MhaInput, MultiHeadAttention, MultiHeadAttentionConfig},
        conv::{Conv1d, Conv1dConfig, Conv2d, Conv2dConfig, ConvTranspose1d, ConvTranspose1dConfig},
        pool::{AdaptiveAvgPool1dConfig, AvgPool1dConfig, MaxPool1dConfig, MaxPool2dConfig},
    },
    tensor::{Bool, Device, Distribution, Int, Tensor, activation, s},
};
use gru_convert::onnx::{Gru, PreparedBlock};
use gru_op::{
    Activation, Activations, GruBlock, GruBlockConfig, Precision, Reset, SequenceOptions, Update,
};
use gru_testkit::random::SplitMix64;

/// The features of every sequence.
pub const C: usize = 8;

/// The layers of all models.
#[derive(Module, Debug)]
pub struct Layers {
    linear: Linear,
    embedding: Embedding,
    layer_norm: LayerNorm,
    rms_norm: RmsNorm,
    batch_norm: BatchNorm,
    group_norm: GroupNorm,
    conv1d: Conv1d,
    strided: Conv1d,
    transposed: ConvTranspose1d,
    conv2d: Conv2d,
    attention: MultiHeadAttention,
    gru: GruBlock,
    before: GruBlock,
    both: GruBlock,
    time_major: GruBlock,
    takes: GruBlock,
    prepared: PreparedBlock,
}

impl Layers {
    /// Layers with random parameters.
    pub fn new(device: &Device) -> Self {
        let gru = || GruBlockConfig::new(C, C);
        let gates = Activation::HardSigmoid { alpha: 0.25, beta: 0.5 };
        let unusual = Activations::from([gates, gates, Activation::Softsign]);
        let random = |gru: GruBlockConfig| randomized(gru.init(device));
        Self {
            linear: LinearConfig::new(C, C).init(device),
            embedding: EmbeddingConfig::new(5, C).init(device),
            layer_norm: LayerNormConfig::new(C).init(device),
            rms_norm: RmsNormConfig::new(C).init(device),
            batch_norm: BatchNormConfig::new(C).init(device),
            group_norm: GroupNormConfig::new(2, C).init(device),
            conv1d: Conv1dConfig::new(C, C, 3).with_padding(PaddingConfig1d::Explicit(1, 1)).init(device),
            strided: Conv1dConfig::new(C, C, 4).with_stride(2).with_padding(PaddingConfig1d::Explicit(2, 1)).init(device),
            transposed: ConvTranspose1dConfig::new([C, C], 3).with_stride(2).with_padding(1).with_padding_out(1).init(device),
            conv2d: Conv2dConfig::new([1, 3], [3, 3]).with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1)).init(device),
            attention: MultiHeadAttentionConfig::new(C, 2).init(device),
            gru: random(gru()),
            before: random(gru().with_num_layers(2).with_reset(Reset::BeforeMatmul)),
            both: random(gru().with_num_layers(2).with_bidirectional(true)),
            time_major: random(
                gru()
                    .with_batch_first(false)
                    .with_bidirectional(true)
                    .with_activations(unusual)
                    .with_clip_gates(Some(0.9)),
            ),
            takes: random(gru().with_update(Update::Takes)),
            prepared: PreparedBlock::new(random(gru()), Precision::Int8),
        }
    }
}

/// Every parameter random, also the biases.
pub fn randomized(gru: GruBlock) -> GruBlock {
    struct Randomize;
    impl burn::module::ModuleMapper for Randomize {
        fn map_float<const D: usize>(
            &mut self,
            parameter: burn::module::Param<Tensor<D>>,
        ) -> burn::module::Param<Tensor<D>> {
            parameter.map(|tensor| tensor.random_like(Distribution::Uniform(-0.5, 0.5)))
        }
    }
    gru.map(&mut Randomize)
}

/// A function of a sequence `[N,T,C]`. T may change.
pub type Operation = fn(&Layers, Tensor<3>) -> Tensor<3>;

/// The integers below a size, for each sequence and step.
fn steps(x: &Tensor<3>) -> Tensor<2, Int> {
    let [n, t, _] = x.dims();
    Tensor::<1, Int>::arange(0..t as i64, &x.device()).unsqueeze::<2>().expand([n, t])
}

/// The step after the last valid step of each row, which depends on the row.
fn prefix_mask(x: &Tensor<3>) -> Tensor<2, Bool> {
    let ends = x.clone().sum_dim(2).abs().max_dim(1).squeeze_dim::<2>(2).mul_scalar(4).int();
    steps(x).lower(ends.expand([x.dims()[0], x.dims()[1]]))
}

/// Operations of one tensor for each line: a name, and the result.
pub const OPERATIONS: &[(&str, Operation)] = &[
    ("exponentials", |_, x| x.clone().abs().add_scalar(0.5).log() - x.clone().exp() + x.abs().log1p()),
    ("roots", |_, x| x.clone().abs().sqrt() + x.abs().add_scalar(1).recip()),
    ("trigonometry", |_, x| x.clone().sin() * x.clone().cos() - x.clone().tanh() + x.clone().erf() + x.sinh()),
    ("rounding", |_, x| x.clone().mul_scalar(3.3).round() + x.clone().floor() - x.clone().ceil() + x.sign()),
    ("powers", |_, x| x.clone().powi_scalar(3) + x.clone().abs().powf_scalar(1.5) - x.clone().square() + x.clone().abs().powf(x)),
    ("clamps", |_, x| x.clone().clamp(-0.5, 0.3) + x.clone().clamp_min(0.1) - x.clone().clamp_max(0.2) + x.neg().div_scalar(3)),
    ("activations", |_, x| activation::relu(x.clone()) + activation::gelu(x.clone()) - activation::silu(x.clone()) + activation::leaky_relu(x.clone(), 0.1) + activation::sigmoid(x)),
    ("smooth", |_, x| activation::softplus(x.clone(), 1.0) + activation::mish(x.clone()) - activation::log_sigmoid(x.clone()) + activation::hard_sigmoid(x, 0.2, 0.5)),
    ("elu", |_, x| activation::elu(x.clone(), 0.7) + activation::selu(x.clone()) + activation::softsign(x)),
    ("softmaxes", |_, x| activation::softmax(x.clone(), 1) + activation::log_softmax(x.clone(), 2) + activation::softmin(x.clone(), 2) + activation::quiet_softmax(x, 2)),
    ("gated", |_, x| activation::glu(Tensor::cat(vec![x.clone(), x.mul_scalar(0.5)], 2), 2)),
    ("means", |_, x| x.clone() - x.clone().mean_dim(1) + x.clone().mean() * x.clone().sum().mul_scalar(0.001)),
    ("extremes", |_, x| x.clone() * x.clone().max_dim(2) + x.clone().min_dim(1) - x.clone().max() * x.clone().min() + x.prod_dim(2)),
    ("variance", |_, x| x.clone() / (x.clone().var(2).add_scalar(0.1)) + x.sum_dim(2)),
    ("mean_of_steps", |_, x| {
        let t = x.dims()[1];
        x.clone().sum_dim(1).div_scalar(t as f64) + x
    }),
    ("where", |_, x| {
        let other = x.clone().neg() + 0.3;
        x.clone().mask_where(x.clone().greater(other.clone()).bool_and(x.lower_equal_elem(0.6)), other)
    }),
    ("masks", |_, x| {
        let mask = x.clone().greater_elem(0.2).bool_xor(x.clone().lower_elem(-0.1)).bool_not();
        x.clone().mask_fill(mask.clone().bool_or(x.greater_equal_elem(0.9)), 0.25) + mask.float()
    }),
    ("reduced_masks", |_, x| {
        let mask = x.clone().greater_elem(-0.8);
        x + mask.clone().all_dim(2).float() + mask.clone().any_dim(1).float() * mask.all().float().unsqueeze::<3>()
    }),
    ("equality", |_, x| {
        let whole = x.clone().mul_scalar(2).int();
        let is_one = whole.clone().equal_elem(1).float() + whole.clone().not_equal_elem(0).float();
        is_one + whole.clone().equal(whole.clone().flip([1])).float() + whole.not_equal(x.int()).float()
    }),
    ("index_of_max", |_, x| {
        let (max, index) = x.clone().max_dim_with_indices(1);
        max + index.float().mul_scalar(0.1) + x.clone().argmax(2).float() - x.argmin(1).float()
    }),
    ("positions", |_, x| x.clone() + steps(&x).float().unsqueeze_dim::<3>(2).mul_scalar(0.05).sin()),
    ("counts", |_, x| x.clone().cumsum(1).mul_scalar(0.1) + x.greater_elem(0).int().cumsum(1).float()),
    ("gather", |_, x| {
        let index = x.clone().abs().mul_scalar(2).clamp(0, C as i32 - 1).int();
        x.gather(2, index)
    }),
    ("select", |_, x| x.clone().select(2, Tensor::from_ints([3, 1, 1, 7, 0, 2, 5, 4], &x.device()))),
    ("embedding", |m, x| {
        let tokens = x.mean_dim(2).squeeze_dim::<2>(2).abs().mul_scalar(3).clamp(0, 4).int();
        m.embedding.forward(tokens)
    }),
    ("transposes", |_, x| {
        let turned = x.clone().swap_dims(1, 2).permute([2, 0, 1]).mul_scalar(2);
        turned.permute([1, 0, 2]) + x
    }),
    ("reshapes", |m, x| {
        let [n, t, c] = x.dims();
        let rows = x.reshape([n * t, c]).mul_scalar(0.5);
        m.linear.forward(rows).reshape([n, t, 2, c / 2]).flatten::<3>(2, 3)
    }),
    ("slices", |_, x| {
        let [_, t, _] = x.dims();
        let middle = x.clone().slice(s![.., 1..t - 1, ..]);
        Tensor::cat(vec![x.clone().narrow(1, 0, 1), middle, x.slice(s![.., -1.., ..])], 1)
    }),
    ("strides", |_, x| x.clone().slice(s![.., .., ..;2]).repeat_dim(2, 2) + x.slice(s![.., .., 1..2])),
    ("table", |m, x| {
        let t = x.dims()[1];
        let table = m.linear.weight.val().repeat_dim(0, 40).slice(s![0..t, ..]);
        x + table.unsqueeze::<3>()
    }),
    ("expansions", |_, x| {
        let [n, t, c] = x.dims();
        let first = x.clone().narrow(1, 0, 1).expand([n, t, c]);
        first + x.clone().narrow(1, 1, 1).repeat_dim(1, t) + Tensor::<3>::full([n, t, c], 0.1, &x.device()) + x.ones_like()
    }),
    ("joined", |_, x| {
        let stacked: Tensor<4> = Tensor::stack(vec![x.clone(), x.flip([1])], 1);
        stacked.mean_dim(1).squeeze_dim::<3>(1)
    }),
    ("padding", |_, x| {
        let past = x.clone().narrow(1, 0, 1).zeros_like();
        let t = x.dims()[1];
        Tensor::cat(vec![past, x.clone()], 1).narrow(1, 0, t) + x.pad((1, 1, 0, 0), 0.5).narrow(2, 0, C)
    }),
    ("linear", |m, x| m.linear.forward(x)),
    ("norms", |m, x| m.layer_norm.forward(x.clone()) + m.rms_norm.forward(x)),
    ("channel_norms", |m, x| (m.batch_norm.forward(x.clone().swap_dims(1, 2)) + m.group_norm.forward(x.swap_dims(1, 2))).swap_dims(1, 2)),
    ("conv1d", |m, x| m.conv1d.forward(x.swap_dims(1, 2)).swap_dims(1, 2)),
    ("strided", |m, x| m.strided.forward(x.swap_dims(1, 2)).swap_dims(1, 2)),
    ("transposed", |m, x| m.transposed.forward(m.strided.forward(x.swap_dims(1, 2))).swap_dims(1, 2)),
    ("conv2d", |m, x| m.conv2d.forward(x.unsqueeze_dim::<4>(1)).mean_dim(1).squeeze_dim::<3>(1)),
    ("pooling", |_, x| {
        let pooled = MaxPool1dConfig::new(3).with_stride(1).with_padding(PaddingConfig1d::Explicit(1, 1)).init().forward(x.clone());
        let mean = AvgPool1dConfig::new(3).with_stride(1).with_padding(PaddingConfig1d::Explicit(1, 1)).init().forward(x.clone());
        pooled + mean + AdaptiveAvgPool1dConfig::new(1).init().forward(x)
    }),
    ("pooling2d", |_, x| {
        let pool = MaxPool2dConfig::new([3, 3]).with_strides([1, 1]).with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1)).init();
        pool.forward(x.unsqueeze_dim::<4>(1)).squeeze_dim::<3>(1)
    }),
    ("attention", |m, x| {
        let steps = steps(&x);
        let [n, t] = steps.dims();
        let future = steps.clone().unsqueeze_dim::<3>(1).expand([n, t, t]).greater(steps.unsqueeze_dim::<3>(2).expand([n, t, t]));
        m.attention.forward(MhaInput::self_attn(x).mask_attn(future)).context
    }),
    ("gru", |m, x| {
        let (y, state) = m.gru.forward(x, None);
        let (z, last) = m.gru.forward(y.clone(), Some(state.clone()));
        y + z + (state + last).swap_dims(0, 1)
    }),
    ("gru_layers", |m, x| {
        let (y, state) = m.before.forward(x, None);
        y + state.mean_dim(0).swap_dims(0, 1)
    }),
    ("gru_bidirectional", |m, x| {
        let (y, state) = m.both.forward(x, None);
        y.clone().narrow(2, 0, C) + y.narrow(2, C, C) + state.mean_dim(0).swap_dims(0, 1)
    }),
    ("gru_time_major", |m, x| {
        let n = x.dims()[0];
        let start = Tensor::<3>::full([2, n, C], 0.3, &x.device());
        let (y, state) = m.time_major.forward(x.swap_dims(0, 1), Some(start));
        (y.clone().narrow(2, 0, C) + y.narrow(2, C, C) + state.mean_dim(0)).swap_dims(0, 1)
    }),
    ("gru_mask", |m, x| {
        let mask = prefix_mask(&x);
        let start = x.clone().narrow(1, 0, 1).swap_dims(0, 1).repeat_dim(0, 4);
        let (y, state) = m.both.forward_with(x, SequenceOptions::new().mask(mask).state(Some(start)));
        y.clone().narrow(2, 0, C) + y.narrow(2, C, C) + state.mean_dim(0).swap_dims(0, 1)
    }),
    ("gru_takes", |m, x| m.takes.forward(x, None).0),
    ("gru_prepared", |m, x| m.prepared.forward_with(x, SequenceOptions::new()).0),
    ("gru_step", |m, x| {
        let last = x.clone().slice(s![.., -1.., ..]).squeeze_dim::<2>(1);
        let (y, state) = m.before.step(last, None);
        x + y.unsqueeze_dim::<3>(1) + state.mean_dim(0).swap_dims(0, 1)
    }),
];

/// A chain of random operations.
pub fn chain(layers: &Layers, mut x: Tensor<3>, seed: u64) -> Tensor<3> {
    let mut random = SplitMix64(seed);
    for _ in 0..4 {
        let (_, operation) = OPERATIONS[(random.bits() % OPERATIONS.len() as u64) as usize];
        let y = operation(layers, x.clone());
        // The values stay small.
        x = if y.dims() == x.dims() { y.tanh() + x.mul_scalar(0.5) } else { y.tanh() };
    }
    x
}
