//! The specification: both passes composed of Burn's operations, for any backend.

use burn::backend::{Backend, TensorMetadata, tensor::FloatTensor};
use burn::tensor::Shape;

/// Step `t` of a sequence, `[N,1,H]`.
fn at<B: Backend>(sequence: &FloatTensor<B>, t: usize) -> FloatTensor<B> {
    B::float_slice(
        sequence.clone(),
        &[(..).into(), (t..t + 1).into(), (..).into()],
    )
}

pub fn states<B: Backend>(
    x: FloatTensor<B>,
    a: FloatTensor<B>,
    h0: FloatTensor<B>,
) -> FloatTensor<B> {
    let [n, t, h] = x.shape().dims();
    if n * t * h == 0 {
        return x;
    }
    let a = B::float_reshape(a, Shape::new([1, 1, h]));
    let mut state = B::float_reshape(h0, Shape::new([n, 1, h]));
    let step = |t| {
        state = B::float_add(B::float_mul(a.clone(), state.clone()), at::<B>(&x, t));
        state.clone()
    };
    B::float_cat((0..t).map(step).collect(), 1)
}

pub fn gradients<B: Backend>(
    a: FloatTensor<B>,
    h0: FloatTensor<B>,
    states: FloatTensor<B>,
    d: FloatTensor<B>,
) -> (FloatTensor<B>, FloatTensor<B>, FloatTensor<B>) {
    let [n, t, h] = states.shape().dims();
    let zeros = |shape| B::float_zeros(shape, &states.device(), states.dtype().into());
    if n * t * h == 0 {
        return (d, zeros(Shape::new([h])), zeros(Shape::new([n, h])));
    }
    let a = B::float_reshape(a, Shape::new([1, 1, h]));
    let (mut da, mut carry) = (zeros(Shape::new([n, 1, h])), zeros(Shape::new([n, 1, h])));
    let mut dx = vec![carry.clone(); t];
    for t in (0..t).rev() {
        let previous = if t == 0 {
            B::float_reshape(h0.clone(), Shape::new([n, 1, h]))
        } else {
            at::<B>(&states, t - 1)
        };
        let dh = B::float_add(at::<B>(&d, t), carry);
        da = B::float_add(da, B::float_mul(dh.clone(), previous));
        carry = B::float_mul(a.clone(), dh.clone());
        dx[t] = dh;
    }
    let da = B::float_reshape(B::float_sum_dim(da, 0), Shape::new([h]));
    (
        B::float_cat(dx, 1),
        da,
        B::float_reshape(carry, Shape::new([n, h])),
    )
}
