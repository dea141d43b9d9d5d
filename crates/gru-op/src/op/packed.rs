//! Packed batches: rows of different lengths without padding, one after the other.

use crate::{
    GruWeights, SequenceOptions,
    backend::padded::Places,
    op::{check::OpNames, options::Padding, padding, sequence::Operation, shape},
};
use burn::tensor::{Bool, Tensor, TensorData};
use gru_spec::{GruSpec, Layout, Lengths};

/// [`gru_sequence_with`](crate::gru_sequence_with) for a packed batch: row `n` has `lengths[n]` steps, and the rows
/// follow each other without padding.
///
/// The CPU backends compute the packed rows in place. Other backends pad them, run as with
/// [lengths](SequenceOptions::lengths), and pack the result.
///
/// # Shapes
/// - `x`: `[M,I]`, or `[M,3H]` without `w_ih`. M is the sum of the lengths, N their number.
/// - `options`: direction, checkpointing, state `[N,H]` and recurrent mask `[N,H]`.
/// - returns the states `[M,H]`, and the final state `[N,H]`: after the last step of each row, in reverse after its
///   first. A row without steps keeps its initial state.
///
/// # Panics
/// As [`gru_sequence`](crate::gru_sequence), if M is not the sum of the lengths, or if an option is set whose shape
/// requires padding: lengths, mask, starts, start state, zoneout, and the time-major layout.
///
/// ```
/// use burn::tensor::{Device, Distribution, Tensor};
/// use gru_op::{GruSpec, GruWeights, SequenceOptions, gru_packed};
///
/// let (i, h, device) = (3, 4, Device::flex());
/// let draw = |rows| Tensor::random([rows, 3 * h], Distribution::Default, &device);
/// let weights = GruWeights::new(draw(i), draw(h));
/// let x = Tensor::<2>::random([5 + 2, i], Distribution::Default, &device);
/// let (y, state) = gru_packed(x, &[5, 2], &weights, &GruSpec::default(), SequenceOptions::new());
/// assert_eq!((y.dims(), state.dims()), ([7, h], [2, h]));
/// ```
pub fn gru_packed(
    x: Tensor<2>,
    lengths: &[usize],
    weights: &GruWeights,
    spec: &GruSpec,
    options: SequenceOptions<2>,
) -> (Tensor<2>, Tensor<2>) {
    const OP: &str = "gru_packed";
    assert!(
        options.order.layout == Layout::BatchMajor,
        "{OP}: layout must be BatchMajor, as packed rows have no other, got {:?}",
        options.order.layout
    );
    let is_padded = !matches!(options.padding, Padding::None)
        || options.starts.flags.is_some()
        || options.zoneout.is_some();
    assert!(
        !is_padded,
        "{OP}: lengths, mask, starts and zoneout require padded rows, expected none of these options"
    );
    in_sequence(OP, x, lengths, options, |x, options| {
        Operation::new(OpNames::new(OP), weights, spec, options).states(x)
    })
}

/// Runs a packed batch `[M,I]` through a function of sequences `[1,M,·]`.
///
/// # Panics
/// If M is not the sum of the lengths.
pub(crate) fn in_sequence<const D: usize>(
    op: &str,
    x: Tensor<2>,
    lengths: &[usize],
    mut options: SequenceOptions<D>,
    run: impl FnOnce(Tensor<3>, SequenceOptions<D>) -> (Tensor<3>, Tensor<D>),
) -> (Tensor<2>, Tensor<D>) {
    let [m, features] = x.dims();
    check_sum(op, m, lengths, [m, features]);
    options.padding = Padding::Lengths(Lengths::Packed(lengths.into()));
    let (y, state) = run(shape::reshape(x, [1, m, features]), options);
    let [_, m, width] = y.dims();
    (shape::reshape(y, [m, width]), state)
}

fn check_sum(op: &str, m: usize, lengths: &[usize], dims: [usize; 2]) {
    let mut counts = lengths.iter();
    let sum = counts.try_fold(0usize, |sum, &len| sum.checked_add(len));
    assert!(
        sum == Some(m),
        "{op}: the sum of lengths must be M = {m}, got {}; x [M, I] is {dims:?}",
        sum.map_or_else(|| "more than a usize".into(), |sum| sum.to_string())
    );
}

/// Packs a padded batch: `[N,T,I]` to `[M,I]`, the first `lengths[n]` steps of each row one after the other.
///
/// # Panics
/// If there is not one length for each row, or a length is larger than T.
///
/// ```
/// use burn::tensor::{Device, Tensor};
///
/// let x = Tensor::<3>::from_floats([[[1.0], [2.0]], [[3.0], [0.0]]], &Device::flex());
/// let packed = gru_op::pack(x, &[2, 1]).into_data();
/// assert_eq!(packed.try_into_vec::<f32>().unwrap(), [1.0, 2.0, 3.0]);
/// ```
pub fn pack(x: Tensor<3>, lengths: &[usize]) -> Tensor<2> {
    let [n, t, features] = x.dims();
    let sizes = gru_spec::Sizes { n, t, i: 0, h: 0 };
    if let Err(error) = Lengths::Padded(lengths.into()).try_check(&sizes) {
        panic!("pack: {error}; x [N, T, I] is {:?}", [n, t, features]);
    }
    let x = shape::reshape(x, [n * t, features]);
    if lengths.iter().all(|&len| len == 0) || features == 0 {
        return Tensor::zeros([lengths.iter().sum(), features], (&x.device(), x.dtype()));
    }
    let places = Places::of_valid(lengths, 0..t, Layout::BatchMajor, x.device().as_dispatch());
    Tensor::from_dispatch(places.pick(shape::prim(x)).0)
}

/// Pads a packed batch: `[M,I]` to `[N,T,I]`, with zeros after the `lengths[n]` steps of each row. T is the largest
/// length.
///
/// # Panics
/// If M is not the sum of the lengths.
///
/// ```
/// use burn::tensor::{Device, Tensor};
///
/// let x = Tensor::<2>::from_floats([[1.0], [2.0], [3.0]], &Device::flex());
/// let padded = gru_op::unpack(x, &[2, 1]).into_data();
/// assert_eq!(padded.try_into_vec::<f32>().unwrap(), [1.0, 2.0, 3.0, 0.0]);
/// ```
pub fn unpack(x: Tensor<2>, lengths: &[usize]) -> Tensor<3> {
    let [m, features] = x.dims();
    check_sum("unpack", m, lengths, [m, features]);
    let (n, t) = (lengths.len(), lengths.iter().max().copied().unwrap_or(0));
    if m * features == 0 {
        return shape::reshape(x, [n, t, features]);
    }
    let device = x.device();
    let places = Places::of_valid(lengths, 0..t, Layout::BatchMajor, device.as_dispatch());
    let padded = Tensor::<2>::from_dispatch(places.spread(shape::prim(x)).0);
    let past = (0..n * t).map(|step| step % t >= lengths[step / t]);
    let past = TensorData::new(past.collect::<Vec<bool>>(), [n, t]);
    let past = Tensor::<2, Bool>::from_data(past, &device);
    padding::zeroed(padded.reshape([n, t, features]), past)
}
