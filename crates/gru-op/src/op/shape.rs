//! Shapes taken at their word, zeros among them. To Burn's `reshape` a size of zero means "as
//! before", what its `narrow` and `cat` return without elements is no part of any graph, and not
//! every backend cuts a part out of nothing. Nothing has any shape that holds nothing, though.

use crate::backend::composed::prim::Prim;
use burn::{backend::Dispatch, tensor::Tensor};

fn prim<const D: usize>(tensor: Tensor<D>) -> Prim<Dispatch> {
    Prim(tensor.into_dispatch())
}

pub(crate) fn reshape<const D: usize, const E: usize>(
    tensor: Tensor<D>,
    shape: [usize; E],
) -> Tensor<E> {
    Tensor::from_dispatch(prim(tensor).reshape(shape).0)
}

/// One of a dimension, which goes.
pub(crate) fn at<const D: usize, const E: usize>(
    tensor: Tensor<D>,
    dim: usize,
    index: usize,
) -> Tensor<E> {
    let rest = without(tensor.dims(), dim);
    if is_nothing(rest) {
        reshape(tensor, rest)
    } else {
        let one = prim(tensor).narrow(dim, index..index + 1);
        Tensor::from_dispatch(one.reshape(rest).0)
    }
}

/// One beside the other; a single one is itself.
pub(crate) fn cat<const D: usize>(mut tensors: Vec<Tensor<D>>, dim: usize) -> Tensor<D> {
    if tensors.len() == 1 {
        return tensors.remove(0);
    }
    let mut shape = tensors[0].dims();
    shape[dim] = tensors.iter().map(|tensor| tensor.dims()[dim]).sum();
    if is_nothing(shape) {
        // A part of every graph that one of them is a part of.
        let all = tensors.into_iter().map(|tensor| reshape(tensor, shape));
        return all.reduce(|a, b| a + b).expect("there are several");
    }
    let parts = tensors.into_iter().map(prim).collect();
    Tensor::from_dispatch(Prim::cat(parts, dim).0)
}

/// In a new first dimension.
pub(crate) fn stack(tensors: Vec<Tensor<2>>) -> Tensor<3> {
    let one = |tensor: Tensor<2>| {
        let [rows, columns] = tensor.dims();
        reshape(tensor, [1, rows, columns])
    };
    cat(tensors.into_iter().map(one).collect(), 0)
}

fn is_nothing<const D: usize>(shape: [usize; D]) -> bool {
    shape.contains(&0)
}

fn without<const D: usize, const E: usize>(shape: [usize; D], dim: usize) -> [usize; E] {
    std::array::from_fn(|d| shape[d + usize::from(d >= dim)])
}
