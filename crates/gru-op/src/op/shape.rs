//! Shape operations that accept sizes of zero.
//!
//! Burn's `reshape` reads zero as "the same size as before". Its empty results of `narrow` and `cat` are
//! constants under autodiff. Not every backend can slice an empty tensor. An empty tensor may be reshaped to
//! any empty shape.

use crate::backend::composed::prim::Prim;
use burn::{backend::Dispatch, tensor::Tensor};

pub(crate) fn prim<const D: usize>(tensor: Tensor<D>) -> Prim<Dispatch> {
    Prim(tensor.into_dispatch())
}

pub(crate) fn reshape<const D: usize, const E: usize>(
    tensor: Tensor<D>,
    shape: [usize; E],
) -> Tensor<E> {
    Tensor::from_dispatch(prim(tensor).reshape(shape).0)
}

/// The same tensor, if it already has this shape, or a reshape.
pub(crate) fn view<const D: usize, const E: usize>(
    tensor: Tensor<D>,
    shape: [usize; E],
) -> Tensor<E> {
    if D == E {
        Tensor::from_dispatch(tensor.into_dispatch())
    } else {
        reshape(tensor, shape)
    }
}

/// The dimensions of a sequence. A step `[N,·]` is a sequence `[1,N,·]`.
pub(crate) fn of_sequence<const D: usize>(x: &Tensor<D>) -> [usize; 3] {
    let dims = x.dims();
    std::array::from_fn(|at| if at + D < 3 { 1 } else { dims[at + D - 3] })
}

/// The inverse: a sequence of one step as `[N,·]`, if D is 2.
pub(crate) fn of_rank<const D: usize>(sequence: Tensor<3>) -> Tensor<D> {
    let dims = sequence.dims();
    view(sequence, std::array::from_fn(|at| dims[at + 3 - D]))
}

/// Repeats dimensions of size 1.
pub(crate) fn expand<const D: usize>(tensor: Tensor<D>, shape: [usize; D]) -> Tensor<D> {
    if tensor.dims() == shape {
        tensor
    } else {
        Tensor::from_dispatch(prim(tensor).expand(shape).0)
    }
}

/// One index of a dimension, without that dimension.
pub(crate) fn at<const D: usize, const E: usize>(
    tensor: Tensor<D>,
    dim: usize,
    index: usize,
) -> Tensor<E> {
    let shape = tensor.dims();
    let rest: [usize; E] = std::array::from_fn(|d| shape[d + usize::from(d >= dim)]);
    // The only index of a dimension needs no slice.
    if rest.contains(&0) || shape[dim] == 1 {
        reshape(tensor, rest)
    } else {
        let one = prim(tensor).narrow(dim, index..index + 1);
        Tensor::from_dispatch(one.reshape(rest).0)
    }
}

/// Concatenates tensors. A single tensor is returned as it is.
pub(crate) fn cat<const D: usize>(mut tensors: Vec<Tensor<D>>, dim: usize) -> Tensor<D> {
    if tensors.len() == 1 {
        return tensors.remove(0);
    }
    let mut shape = tensors[0].dims();
    shape[dim] = tensors.iter().map(|tensor| tensor.dims()[dim]).sum();
    if shape.contains(&0) {
        // The sum belongs to the graph of every tensor.
        let all = tensors.into_iter().map(|tensor| reshape(tensor, shape));
        return all.reduce(|a, b| a + b).expect("there are several");
    }
    let parts = tensors.into_iter().map(prim).collect();
    Tensor::from_dispatch(Prim::cat(parts, dim).0)
}

/// A matrix `[N,·]` with a new first dimension, `[1,N,·]`.
pub(crate) fn one_step(matrix: Tensor<2>) -> Tensor<3> {
    let [rows, columns] = matrix.dims();
    reshape(matrix, [1, rows, columns])
}

/// Stacks matrices in a new first dimension.
pub(crate) fn stack(matrices: Vec<Tensor<2>>) -> Tensor<3> {
    cat(matrices.into_iter().map(one_step).collect(), 0)
}
