//! The documented equations in Burn's operations, one row and one step at a time, differentiated by
//! Burn.

use burn::tensor::{Tensor, activation::sigmoid};
use gru_op::{Direction, GruWeights, Layout, Reset, Update};

use super::{Options, T, Which};
use crate::runs::values;

/// Rows are sliced, not masked: a skipped step is left out, and a start replaces the state.
pub fn stepwise(x: Tensor<3>, weights: &GruWeights, options: Options) -> (Tensor<3>, Tensor<2>) {
    let (spec, order) = (options.case.spec(), options.case.order());
    let time_major = order.layout == Layout::TimeMajor;
    let batch_first = |sequence: Tensor<3>| {
        if time_major {
            sequence.swap_dims(0, 1)
        } else {
            sequence
        }
    };
    let [_, h] = options.h0.dims();
    let valid = if time_major {
        options.valid.transpose()
    } else {
        options.valid
    };
    let valid = values(valid.float());
    let rows = valid.chunks_exact(T);
    let counts: Vec<Vec<bool>> = rows
        .map(|row| row.iter().map(|&v| v != 0.0).collect())
        .collect();
    let starts = options.starts.map(|starts| {
        let starts = if time_major {
            starts.transpose()
        } else {
            starts
        };
        values(starts.float())
    });
    let past_the_end_is_zero = options.case.steps == Which::Lengths;
    let place = (x.device(), x.dtype());
    let zeros = || Tensor::<2>::zeros([1, h], (&place.0, place.1));
    let x = batch_first(x);
    let zoneout = options.zoneout.map(batch_first);
    let block = |w: &Tensor<2>, k: usize| w.clone().narrow(1, k * h, h);
    let bias = |b: &Option<Tensor<1>>, k: usize| match b {
        Some(b) => b.clone().narrow(0, k * h, h).unsqueeze(),
        None => zeros(),
    };
    let at = |sequence: &Tensor<3>, n: usize, t: usize| -> Tensor<2> {
        let row = sequence.clone().narrow(0, n, 1).narrow(1, t, 1);
        row.squeeze_dim(1)
    };
    let row_of = |rows: &Tensor<2>, n: usize| rows.clone().narrow(0, n, 1);

    let (mut outputs, mut finals) = (Vec::new(), Vec::new());
    for (n, counts) in counts.iter().enumerate() {
        let mut state = row_of(&options.h0, n);
        let mut output = zeros();
        let mut row = vec![zeros(); T];
        let times: Vec<usize> = match order.direction {
            Direction::Forward => (0..T).collect(),
            Direction::Reverse => (0..T).rev().collect(),
        };
        for t in times {
            // In reverse, the boundary before time t + 1 is crossed on the way to t.
            let boundary = match order.direction {
                Direction::Forward => t,
                Direction::Reverse => t + 1,
            };
            let is_start = starts
                .as_ref()
                .is_some_and(|starts| boundary < T && starts[n * T + boundary] != 0.0);
            // With lengths, a start past the end has no effect.
            if is_start && (!past_the_end_is_zero || counts[boundary]) {
                state = match &options.start_state {
                    Some(state) if state.dims()[0] == 1 => state.clone(),
                    Some(state) => row_of(state, n),
                    None => zeros(),
                };
                output = zeros();
            }
            if counts[t] {
                let x = at(&x, n, t);
                let p = |k: usize| {
                    let product = match &weights.w_ih {
                        Some(w) => x.clone().matmul(block(w, k)),
                        None => block(&x, k),
                    };
                    product + bias(&weights.b_ih, k)
                };
                let g = match &options.recurrent_mask {
                    Some(mask) => state.clone() * row_of(mask, n),
                    None => state.clone(),
                };
                let q =
                    |g: Tensor<2>, k| g.matmul(block(&weights.w_hh, k)) + bias(&weights.b_hh, k);
                let r = sigmoid(clip(p(0) + q(g.clone(), 0), spec.clip_gates));
                let z = sigmoid(clip(p(1) + q(g.clone(), 1), spec.clip_gates));
                let recurrent = match spec.reset {
                    Reset::AfterMatmul => r * q(g, 2),
                    Reset::BeforeMatmul => q(r * g, 2),
                };
                let candidate = clip(p(2) + recurrent, spec.clip_gates).tanh();
                let kept = match spec.update {
                    Update::Keeps => z,
                    Update::Takes => 1.0 - z,
                };
                let new = kept.clone() * state.clone() + (1.0 - kept) * candidate;
                let new = clip(new, spec.clip_state);
                state = match &zoneout {
                    Some(zoneout) => {
                        let kept = at(zoneout, n, t);
                        kept.clone() * state + (1.0 - kept) * new
                    }
                    None => new,
                };
                output = state.clone();
            } else if past_the_end_is_zero {
                output = zeros();
            }
            row[t] = output.clone();
        }
        let row: Tensor<2> = Tensor::cat(row, 0);
        outputs.push(row);
        finals.push(state);
    }
    let y: Tensor<3> = Tensor::stack(outputs, 0);
    (batch_first(y), Tensor::cat(finals, 0))
}

fn clip(tensor: Tensor<2>, bound: Option<f64>) -> Tensor<2> {
    match bound {
        Some(c) => tensor.clamp(-c, c),
        None => tensor,
    }
}
