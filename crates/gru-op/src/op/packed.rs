//! Packed batches: rows of different lengths without padding, one after the other.

use crate::{
    GruWeights, SequenceOptions,
    op::{options::Padding, sequence::Operation, shape},
};
use burn::tensor::{Bool, Int, Tensor, TensorData};
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
/// requires padding: lengths, mask, starts, zoneout.
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
    mut options: SequenceOptions<2>,
) -> (Tensor<2>, Tensor<2>) {
    const OP: &str = "gru_packed";
    let is_padded = !matches!(options.padding, Padding::None)
        || options.starts.flags.is_some()
        || options.zoneout.is_some();
    assert!(
        !is_padded,
        "{OP}: lengths, mask, starts and zoneout require padded rows, expected none of these options"
    );
    options.order.layout = Layout::BatchMajor;
    in_sequence(OP, x, lengths, options, |x, options| {
        Operation::new(OP, weights, spec, options).states(x)
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
    let sum = sum(lengths);
    assert!(
        sum == Some(m),
        "{op}: the sum of lengths must be M = {m}, got {}; x [M, I] is {dims:?}",
        sum.map_or_else(|| "more than a usize".into(), |sum| sum.to_string())
    );
}

fn sum(counts: &[usize]) -> Option<usize> {
    let mut counts = counts.iter();
    counts.try_fold(0usize, |sum, &count| sum.checked_add(count))
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
    if let Err(error) = Lengths::Padded(lengths.into()).check(&sizes) {
        panic!("pack: {error}; x [N, T, I] is {:?}", [n, t, features]);
    }
    let rows = lengths.iter().enumerate();
    let places = rows.flat_map(|(n, &len)| n * t..n * t + len);
    select(shape::reshape(x, [n * t, features]), places.collect())
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
        return Tensor::zeros([n, t, features], (&x.device(), x.dtype()));
    }
    let (mut places, mut past, mut begin) = (Vec::new(), Vec::new(), 0);
    for &len in lengths {
        // The padding repeats a row that exists, and becomes zero.
        places.extend((0..t).map(|time| if time < len { begin + time } else { 0 }));
        past.extend((0..t).map(|time| time >= len));
        begin += len;
    }
    let device = x.device();
    let padded = select(x, places).reshape([n, t, features]);
    let past = Tensor::<3, Bool>::from_data(TensorData::new(past, [n, t, 1]), &device);
    padded.mask_fill(past.expand([n, t, features]), 0)
}

/// A batch in the order of PyTorch's `PackedSequence`: sorted by length, and step by step.
#[derive(Debug, Clone)]
pub struct PackedSteps {
    /// `[M,I]`: the first step of every row, then the second step of every row that has one, and so on.
    pub data: Tensor<2>,
    /// The number of rows at each step.
    pub batch_sizes: Vec<usize>,
    /// The row of the batch that is at each place of a step. The identity if absent.
    pub sorted_indices: Option<Vec<usize>>,
}

impl PackedSteps {
    /// Sorts a packed batch: row `n` of `x [M,I]` has `lengths[n]` steps. Rows without steps, which PyTorch does not
    /// support, are lost: all lengths must be positive.
    ///
    /// # Panics
    /// If M is not the sum of the lengths, or a length is zero.
    pub fn from_packed(x: Tensor<2>, lengths: &[usize]) -> Self {
        const OP: &str = "PackedSteps::from_packed";
        let [m, features] = x.dims();
        check_sum(OP, m, lengths, [m, features]);
        if let Some(row) = lengths.iter().position(|&len| len == 0) {
            panic!("{OP}: lengths[{row}] must be positive, got 0");
        }
        let mut sorted: Vec<usize> = (0..lengths.len()).collect();
        sorted.sort_by_key(|&n| std::cmp::Reverse(lengths[n]));
        let longest = lengths.iter().max().copied().unwrap_or(0);
        let live = |t: usize| sorted.iter().take_while(move |&&n| lengths[n] > t);
        let begin = begins(lengths);
        let places = (0..longest).flat_map(|t| live(t).map(|&n| begin[n] + t).collect::<Vec<_>>());
        Self {
            data: select(x, places.collect()),
            batch_sizes: (0..longest).map(|t| live(t).count()).collect(),
            sorted_indices: Some(sorted),
        }
    }

    /// The packed batch `[M,I]`, row after row, and its lengths: the arguments of [`gru_packed`].
    ///
    /// # Panics
    /// If the batch sizes grow or do not sum to M, or the sorted indices are not a permutation of the rows.
    pub fn into_packed(self) -> (Tensor<2>, Vec<usize>) {
        const OP: &str = "PackedSteps::into_packed";
        let Self {
            data,
            batch_sizes,
            sorted_indices,
        } = self;
        let ([m, _], n) = (data.dims(), batch_sizes.first().copied().unwrap_or(0));
        assert!(
            batch_sizes.is_sorted_by(|a, b| a >= b) && sum(&batch_sizes) == Some(m),
            "{OP}: batch_sizes must not grow and must sum to M = {m}, got {batch_sizes:?}"
        );
        let sorted = sorted_indices.unwrap_or_else(|| (0..n).collect());
        let mut check = sorted.clone();
        check.sort_unstable();
        assert!(
            check.into_iter().eq(0..n),
            "{OP}: sorted_indices must be a permutation of {n} rows, got {sorted:?}"
        );
        let mut lengths = vec![0; n];
        for (place, &row) in sorted.iter().enumerate() {
            lengths[row] = batch_sizes.iter().take_while(|&&size| size > place).count();
        }
        let begin = begins(&lengths);
        let (mut places, mut next) = (vec![0; m], 0);
        for (t, &size) in batch_sizes.iter().enumerate() {
            for &row in &sorted[..size] {
                places[begin[row] + t] = next;
                next += 1;
            }
        }
        (select(data, places), lengths)
    }
}

/// The first place of each row of a packed batch.
fn begins(lengths: &[usize]) -> Vec<usize> {
    let sum = |sum: &mut usize, &len: &usize| Some(std::mem::replace(sum, *sum + len));
    lengths.iter().scan(0, sum).collect()
}

/// Some rows of a matrix.
fn select(x: Tensor<2>, places: Vec<usize>) -> Tensor<2> {
    let ([rows, features], count, device) = (x.dims(), places.len(), x.device());
    if rows * features * count == 0 {
        return Tensor::zeros([count, features], (&device, x.dtype()));
    }
    let places: Vec<i64> = places.into_iter().map(|place| place as i64).collect();
    let places = Tensor::<1, Int>::from_data(TensorData::new(places, [count]), &device);
    x.select(0, places)
}
