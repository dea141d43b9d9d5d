//! Starts of new sequences within a row: conversions for users.

use crate::op::check::Check;
use burn::tensor::{Bool, Tensor};

/// The starts `[N,T]` for flags that mark the last step of each sequence, such as `done` of an environment.
///
/// `starts[n,0] = first[n]` and `starts[n,t] = dones[n,t − 1]`. `first` marks the rows that begin with a new
/// sequence: for consecutive windows of the same rows, `dones[:,T − 1]` of the previous window.
///
/// Use the flags themselves as starts if they already mark the first step of a sequence (TorchRL's `is_init`).
/// Flags that are one step late or early train without an error, and the model learns nothing that needs memory.
///
/// # Panics
/// If `first` does not have one flag for every row.
///
/// ```
/// use burn::tensor::{Bool, Device, Tensor};
///
/// let device = Device::flex();
/// let dones = Tensor::<2, Bool>::from_bool([[false, true, false, false]], &device);
/// let first = Tensor::<1, Bool>::from_bool([true], &device);
/// let starts = gru_op::starts_after(dones, first).into_data();
/// assert_eq!(starts.try_into_vec::<bool>().unwrap(), [true, false, true, false]);
/// ```
pub fn starts_after(dones: Tensor<2, Bool>, first: Tensor<1, Bool>) -> Tensor<2, Bool> {
    let ([n, t], [rows]) = (dones.dims(), first.dims());
    assert!(
        rows == n,
        "starts_after: first [N] must be [{n}], got [{rows}]; dones [N, T] is [{n}, {t}]"
    );
    if n * t == 0 {
        return dones;
    }
    let first = first.unsqueeze_dim::<2>(1);
    match t {
        1 => first,
        _ => Tensor::cat(vec![first, dones.narrow(1, 0, t - 1)], 1),
    }
}

/// The states `[L·D,N,H]` for the next step: the rows that start a new sequence get the start state, zeros if
/// absent, `[L·D,N,H]` or `[L·D,1,H]`.
///
/// With [`GruBlock::step`](crate::GruBlock::step) it acts step by step as
/// [`SequenceOptions::starts`](crate::SequenceOptions::starts) does for a sequence.
///
/// # Panics
/// If shapes, devices or dtypes do not match.
///
/// ```
/// use burn::tensor::{Bool, Device, Tensor};
///
/// let device = Device::flex();
/// let state = Tensor::<3>::ones([1, 2, 3], &device);
/// let starts = Tensor::<1, Bool>::from_bool([true, false], &device);
/// let state = gru_op::restart(state, starts, None);
/// assert_eq!(state.into_data().try_into_vec::<f32>().unwrap(), [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
/// ```
pub fn restart(
    state: Tensor<3>,
    starts: Tensor<1, Bool>,
    start_state: Option<Tensor<3>>,
) -> Tensor<3> {
    let shape = state.dims();
    let [layers, n, h] = shape;
    let because = || format!("state [L·D, N, H] is {shape:?}");
    let mut check = Check::new("restart", ("state", &state), &because);
    check.argument("starts", "[N]", Some(&starts), [n]);
    if let Some(start_state) = &start_state {
        let rows = if start_state.dims()[1] == 1 { 1 } else { n };
        let dims = "[L·D, N, H] or [L·D, 1, H]";
        check.argument("start_state", dims, Some(start_state), [layers, rows, h]);
    }
    if shape.contains(&0) {
        return state;
    }
    let starts = starts.reshape([1, n, 1]).expand(shape);
    match start_state {
        Some(start_state) => state.mask_where(starts, start_state.expand(shape)),
        None => state.mask_fill(starts, 0),
    }
}
