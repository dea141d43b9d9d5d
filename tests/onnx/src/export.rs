//! Small models for the export: every operation of the table by itself, random chains of them, and GRUs.

use burn::{
    module::{Module, ModuleMapper, Param},
    nn::{
        BatchNorm, BatchNormConfig, Embedding, EmbeddingConfig, GroupNorm, GroupNormConfig,
        LayerNorm, LayerNormConfig, Linear, LinearConfig, PaddingConfig1d, PaddingConfig2d,
        RmsNorm, RmsNormConfig,
        attention::{MhaInput, MultiHeadAttention, MultiHeadAttentionConfig},
        conv::{
            Conv1d, Conv1dConfig, Conv2d, Conv2dConfig, ConvTranspose1d, ConvTranspose1dConfig,
        },
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

/// The layers of all models, with random parameters.
macro_rules! layers {
    ($($name:ident: $kind:ty = $value:expr;)+) => {
        #[derive(Module, Debug)]
        #[allow(missing_docs)]
        pub struct Layers {
            $(pub $name: $kind),+
        }

        impl Layers {
            /// Layers with random parameters.
            pub fn new(device: &Device) -> Self {
                Self {
                    $($name: $value(device)),+
                }
            }
        }
    };
}

layers! {
    linear: Linear = |d| LinearConfig::new(C, C).init(d);
    embedding: Embedding = |d| EmbeddingConfig::new(5, C).init(d);
    layer_norm: LayerNorm = |d| LayerNormConfig::new(C).init(d);
    rms_norm: RmsNorm = |d| RmsNormConfig::new(C).init(d);
    batch_norm: BatchNorm = |d| BatchNormConfig::new(C).init(d);
    group_norm: GroupNorm = |d| GroupNormConfig::new(2, C).init(d);
    conv1d: Conv1d = |d| Conv1dConfig::new(C, C, 3).with_padding(PaddingConfig1d::Explicit(1, 1)).init(d);
    strided: Conv1d = |d| {
        Conv1dConfig::new(C, C, 4).with_stride(2).with_padding(PaddingConfig1d::Explicit(2, 1)).init(d)
    };
    transposed: ConvTranspose1d = |d| {
        ConvTranspose1dConfig::new([C, C], 3).with_stride(2).with_padding(1).with_padding_out(1).init(d)
    };
    conv2d: Conv2d = |d| {
        Conv2dConfig::new([1, 3], [3, 3]).with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1)).init(d)
    };
    attention: MultiHeadAttention = |d| MultiHeadAttentionConfig::new(C, 2).init(d);
    gru: GruBlock = |d| random(config(), d);
    before: GruBlock = |d| random(config().with_num_layers(2).with_reset(Reset::BeforeMatmul), d);
    both: GruBlock = |d| random(config().with_num_layers(2).with_bidirectional(true), d);
    time_major: GruBlock = |d| {
        let gates = Activation::HardSigmoid { alpha: 0.25, beta: 0.5 };
        let unusual = Activations::from([gates, gates, Activation::Softsign]);
        let config = config().with_batch_first(false).with_bidirectional(true).with_activations(unusual);
        random(config.with_clip_gates(Some(0.9)), d)
    };
    takes: GruBlock = |d| random(config().with_update(Update::Takes), d);
    prepared: PreparedBlock = |d| PreparedBlock::new(random(config(), d), Precision::Full);
}

fn config() -> GruBlockConfig {
    GruBlockConfig::new(C, C)
}

/// A block whose parameters are all random, also the biases.
fn random(config: GruBlockConfig, device: &Device) -> GruBlock {
    struct Randomize;
    impl ModuleMapper for Randomize {
        fn map_float<const D: usize>(&mut self, parameter: Param<Tensor<D>>) -> Param<Tensor<D>> {
            parameter.map(|tensor| tensor.random_like(Distribution::Uniform(-0.5, 0.5)))
        }
    }
    config.init(device).map(&mut Randomize)
}

/// A function of a sequence `[N,T,C]`. T may change.
pub type Operation = fn(&Layers, Tensor<3>) -> Tensor<3>;

/// The integers below T, for each sequence.
fn steps(x: &Tensor<3>) -> Tensor<2, Int> {
    let [n, t, _] = x.dims();
    Tensor::<1, Int>::arange(0..t as i64, &x.device())
        .unsqueeze::<2>()
        .expand([n, t])
}

/// A mask whose rows have other lengths, some of them 0.
fn prefix_mask(x: &Tensor<3>) -> Tensor<2, Bool> {
    let ends = x.clone().sum_dim(2).abs().max_dim(1).squeeze_dim::<2>(2) - 2;
    steps(x).lower(ends.mul_scalar(2).int().expand([x.dims()[0], x.dims()[1]]))
}

macro_rules! operations {
    ($($name:ident |$model:ident, $x:ident| $result:expr;)+) => {
        /// All operations of the tables, in groups with a name.
        pub const OPERATIONS: &[(&str, Operation)] = &[$((stringify!($name), |$model, $x| $result)),+];
    };
}

operations! {
    exponentials |_m, x| x.clone().abs().add_scalar(0.5).log() - x.clone().exp() + x.abs().log1p();
    roots |_m, x| x.clone().abs().sqrt() + x.abs().add_scalar(1).recip();
    trigonometry |_m, x| x.clone().sin() * x.clone().cos() - x.clone().tanh() + x.clone().erf();
    rounding |_m, x| x.clone().mul_scalar(3.3).round() + x.clone().floor() - x.clone().ceil() + x.sign();
    powers |_m, x| x.clone().powi_scalar(3) + x.clone().abs().powf_scalar(1.5) - x.clone().square() + x.clone().abs().powf(x);
    clamps |_m, x| x.clone().clamp(-0.5, 0.3) + x.clone().clamp_min(0.1) - x.clone().clamp_max(0.2) + x.neg().div_scalar(3);
    kinks |_m, x| activation::relu(x.clone()) + activation::leaky_relu(x.clone(), 0.1) + activation::hard_sigmoid(x, 0.2, 0.5);
    smooth |_m, x| activation::gelu(x.clone()) - activation::silu(x.clone()) + activation::sigmoid(x.clone())
        + activation::softplus(x.clone(), 1.0) + activation::mish(x);
    softmaxes |_m, x| activation::softmax(x.clone(), 1) + activation::log_softmax(x, 2);
    gated |_m, x| activation::glu(Tensor::cat(vec![x.clone(), x.mul_scalar(0.5)], 2), 2);
    sums |_m, x| x.clone() - x.clone().mean_dim(1) + x.clone().mean().unsqueeze() * x.sum().mul_scalar(0.001).unsqueeze();
    extremes |_m, x| x.clone() * x.clone().max_dim(2) + x.clone().min_dim(1) - x.clone().max().unsqueeze() * x.min().unsqueeze();
    variance |_m, x| x.clone() / x.clone().var(2).add_scalar(0.1) + x.sum_dim(2);
    mean_of_steps |_m, x| {
        let t = x.dims()[1];
        x.clone().sum_dim(1).div_scalar(t as f64) + x
    };
    choices |_m, x| {
        let other = x.clone().neg() + 0.3;
        x.clone().mask_where(x.clone().greater(other.clone()).bool_and(x.lower_equal_elem(0.6)), other)
    };
    masks |_m, x| {
        let mask = x.clone().greater_elem(0.2).bool_xor(x.clone().lower_elem(-0.1)).bool_not();
        x.clone().mask_fill(mask.clone().bool_or(x.greater_equal_elem(0.9)), 0.25) + mask.float()
    };
    equality |_m, x| {
        let whole = x.clone().mul_scalar(2).int();
        let scalars = whole.clone().equal_elem(1).float() + whole.clone().not_equal_elem(0).float();
        scalars + whole.clone().equal(whole.clone().flip([1])).float() + whole.not_equal(x.int()).float()
    };
    positions |_m, x| x.clone().argmax(2).float() + steps(&x).float().unsqueeze_dim::<3>(2).mul_scalar(0.05).sin() + x;
    counts |_m, x| x.clone().cumsum(1).mul_scalar(0.1) + x.greater_elem(0).int().cumsum(1).float();
    gather |_m, x| x.clone().gather(2, x.abs().mul_scalar(2).int());
    select |_m, x| x.clone().select(2, Tensor::from_ints([3, 1, 1, 7, 0, 2, 5, 4], &x.device()));
    embedding |m, x| m.embedding.forward(x.mean_dim(2).squeeze_dim::<2>(2).abs().mul_scalar(3).clamp(0, 4).int());
    transposes |_m, x| x.clone().swap_dims(1, 2).permute([2, 0, 1]).mul_scalar(2).permute([1, 0, 2]) + x;
    reshapes |m, x| {
        let [n, t, c] = x.dims();
        let rows = m.linear.forward(x.reshape([n * t, c]));
        rows.reshape([n, t, 2, c / 2]).flatten::<3>(2, 3)
    };
    slices |_m, x| {
        let middle = x.clone().slice(s![.., 1..x.dims()[1] - 1, ..]);
        Tensor::cat(vec![x.clone().narrow(1, 0, 1), middle, x.slice(s![.., -1.., ..])], 1)
    };
    strides |_m, x| x.clone().slice(s![.., .., 1..2]) + x.slice(s![.., .., ..;4]).mean_dim(2);
    table |m, x| {
        let t = x.dims()[1];
        let table = Tensor::cat(vec![m.linear.weight.val(); 40], 0);
        x + table.slice(s![0..t, ..]).unsqueeze::<3>()
    };
    expansions |_m, x| {
        let [n, t, c] = x.dims();
        let first = x.clone().narrow(1, 0, 1).expand([n, t, c]) + x.clone().narrow(1, 1, 1).repeat_dim(1, t);
        first + Tensor::<3>::full([n, t, c], 0.1, &x.device()) + x.ones_like()
    };
    joined |_m, x| Tensor::stack::<4>(vec![x.clone(), x.flip([1])], 1).mean_dim(1).squeeze_dim::<3>(1);
    padding |_m, x| {
        let past = x.clone().narrow(1, 0, 1).zeros_like();
        let shifted = Tensor::cat(vec![past, x.clone()], 1).narrow(1, 0, x.dims()[1]);
        shifted + x.pad((1, 1, 0, 0), 0.5).narrow(2, 0, C)
    };
    norms |m, x| m.layer_norm.forward(x.clone()) + m.rms_norm.forward(m.linear.forward(x));
    channel_norms |m, x| {
        let x = x.swap_dims(1, 2);
        (m.batch_norm.forward(x.clone()) + m.group_norm.forward(x)).swap_dims(1, 2)
    };
    conv1d |m, x| m.conv1d.forward(x.swap_dims(1, 2)).swap_dims(1, 2);
    strided |m, x| m.strided.forward(x.swap_dims(1, 2)).swap_dims(1, 2);
    transposed |m, x| m.transposed.forward(m.strided.forward(x.swap_dims(1, 2))).swap_dims(1, 2);
    conv2d |m, x| m.conv2d.forward(x.unsqueeze_dim::<4>(1)).mean_dim(1).squeeze_dim::<3>(1);
    pooling |_m, x| {
        let padding = PaddingConfig1d::Explicit(1, 1);
        let max = MaxPool1dConfig::new(3).with_stride(1).with_padding(padding.clone()).init().forward(x.clone());
        let mean = AvgPool1dConfig::new(3).with_stride(1).with_padding(padding).init().forward(x.clone());
        max + mean + AdaptiveAvgPool1dConfig::new(1).init().forward(x)
    };
    pooling2d |_m, x| {
        let pool = MaxPool2dConfig::new([3, 3]).with_strides([1, 1]);
        let pool = pool.with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1)).init();
        pool.forward(x.unsqueeze_dim::<4>(1)).squeeze_dim::<3>(1)
    };
    attention |m, x| {
        let [n, t, _] = x.dims();
        let [keys, queries] = [1, 2].map(|dim| steps(&x).unsqueeze_dim::<3>(dim).expand([n, t, t]));
        m.attention.forward(MhaInput::self_attn(x).mask_attn(keys.greater(queries))).context
    };
    gru |m, x| {
        let (y, state) = m.gru.forward(x, None);
        let (z, last) = m.gru.forward(y.clone(), Some(state.clone()));
        y + z + (state + last).swap_dims(0, 1)
    };
    gru_ends |m, x| {
        let (y, _) = m.gru.forward(x.clone(), None);
        let (z, _) = m.time_major.forward(x.clone().swap_dims(0, 1), None);
        let ends = y.clone().slice(s![.., ..1, ..]) - y.clone().slice(s![.., -2..-1, ..]) + y.slice(s![.., -1.., ..]);
        let reversed = z.clone().slice(s![..1, .., C..]) - z.slice(s![-1.., .., C..]);
        x + ends + reversed.swap_dims(0, 1)
    };
    gru_layers |m, x| {
        let (y, state) = m.before.forward(x, None);
        y + state.mean_dim(0).swap_dims(0, 1)
    };
    gru_bidirectional |m, x| {
        let (y, state) = m.both.forward(x, None);
        y.clone().narrow(2, 0, C) + y.narrow(2, C, C) + state.mean_dim(0).swap_dims(0, 1)
    };
    gru_time_major |m, x| {
        let start = Tensor::<3>::full([2, x.dims()[0], C], 0.3, &x.device());
        let (y, state) = m.time_major.forward(x.swap_dims(0, 1), Some(start));
        (y.clone().narrow(2, 0, C) + y.narrow(2, C, C) + state.mean_dim(0)).swap_dims(0, 1)
    };
    gru_mask |m, x| {
        let start = x.clone().narrow(1, 0, 1).swap_dims(0, 1).repeat_dim(0, 4);
        let options = SequenceOptions::new().mask(prefix_mask(&x)).state(Some(start));
        let (y, state) = m.both.forward_with(x, options);
        y.clone().narrow(2, 0, C) + y.narrow(2, C, C) + state.mean_dim(0).swap_dims(0, 1)
    };
    gru_takes |m, x| m.takes.forward(x, None).0;
    gru_prepared |m, x| m.prepared.forward_with(x, SequenceOptions::new()).0;
    gru_step |m, x| {
        let last = x.clone().slice(s![.., -1.., ..]).squeeze_dim::<2>(1);
        let (y, state) = m.before.step(last, None);
        x + y.unsqueeze_dim::<3>(1) + state.mean_dim(0).swap_dims(0, 1)
    };
}

/// A chain of random operations.
pub fn chain(layers: &Layers, mut x: Tensor<3>, seed: u64) -> Tensor<3> {
    let mut random = SplitMix64(seed);
    for _ in 0..4 {
        let (_, operation) = OPERATIONS[(random.bits() % OPERATIONS.len() as u64) as usize];
        let y = operation(layers, x.clone());
        // The values stay small.
        let [n, t, c] = y.dims();
        x = if [n, t] == x.dims()[..2] {
            // One feature counts for all.
            y.tanh() + x.mul_scalar(0.5)
        } else {
            assert_eq!(c, C);
            y.tanh()
        };
    }
    x
}
