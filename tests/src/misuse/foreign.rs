//! Operators with the shapes of TensorFlow and MPSGraph.

use super::{H, I, Misuse, N, T, zeros};
use crate::conformance::mps_graph::arguments::Arguments;
use gru_op::{
    Update,
    mps_graph::{self, GruDescriptor},
    tensorflow::{self, gru_block_cell_grad},
};

/// `mps_graph::gru` with a recurrent weight, a secondary bias and changed options.
fn mps_gru(secondary_bias: Option<usize>, change: fn(&mut GruDescriptor)) {
    let mut descriptor = GruDescriptor::new(Update::Keeps);
    change(&mut descriptor);
    let arguments = Arguments::new(zeros([T, N, 3 * H]), zeros::<2>([3 * H, H]));
    Arguments {
        secondary_bias: secondary_bias.map(|len| zeros([len])),
        ..arguments
    }
    .gru(&descriptor);
}

pub const ALL: &[Misuse] = &[
    (
        || {
            let (state, w_ru) = (|| zeros([N, H]), zeros([I + H, 2 * H]));
            gru_block_cell_grad(
                zeros([N, I]),
                state(),
                w_ru,
                zeros([I + H, H]),
                zeros([2 * H]),
                zeros([H]),
                state(),
                zeros([N - 1, H]),
                state(),
                state(),
            );
        },
        "gru_block_cell_grad: u [N, H] must be [2, 5], got [1, 5]",
    ),
    (
        || {
            drop(tensorflow::weights(
                zeros([H, 2 * H]),
                zeros([H, H]),
                zeros([2 * H]),
                zeros([H]),
            ))
        },
        "tensorflow::weights: w_c [I+H, H] must have more rows than columns, got [5, 5]",
    ),
    (
        || {
            let (w_ru, w_c) = (zeros([I + H, 2 * H]), zeros([I + H, H]));
            let _ = tensorflow::weights(w_ru, w_c, zeros([H]), zeros([H]));
        },
        "tensorflow::weights: b_ru [2H] must be [10], got [5]; w_c is [9, 5]",
    ),
    (
        || {
            let descriptor = GruDescriptor::new(Update::Keeps);
            let input = zeros([H, I]);
            let weight = zeros::<2>([3 * H, H]).into();
            mps_graph::weights(&weight, Some(&input), None, None, &descriptor);
        },
        "mps_graph::weights: input_weight [D·3H, I] must be [15, 4], got [5, 4]",
    ),
    (
        || mps_gru(None, |descriptor| descriptor.bidirectional = true),
        "mps_graph::gru: recurrent_weight must be [3H, H], or [2, 3H, H] with bidirectional, got [15, 5]",
    ),
    (
        || mps_gru(Some(3 * H), |descriptor| descriptor.reset_after = true),
        "mps_graph::gru: secondary_bias [D·H] must be [5], got [15]",
    ),
    (
        || {
            let state = || zeros([T, N, H]);
            let arguments = Arguments::new(zeros([T, N, 3 * H]), zeros::<2>([3 * H, H]));
            let descriptor = GruDescriptor::new(Update::Keeps);
            arguments.gradients(state(), state(), state(), None, &descriptor);
        },
        "mps_graph::gru_gradients: z_state [T, N, D·3H] must be [3, 2, 15], got [3, 2, 5]",
    ),
];
