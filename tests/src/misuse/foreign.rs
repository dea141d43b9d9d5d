//! Operators with the shapes of TensorFlow and MPSGraph.

use super::{H, I, Misuse, N, T, zeros};
use gru_op::{
    Update,
    mps_graph::{self, GruDescriptor},
    tensorflow::{self, gru_block_cell, gru_block_cell_grad},
};

fn descriptor(change: impl FnOnce(&mut GruDescriptor)) -> GruDescriptor {
    let mut descriptor = GruDescriptor::new(Update::Keeps);
    change(&mut descriptor);
    descriptor
}

pub const ALL: &[Misuse] = &[
    misuse!(
        "block-cell-weights",
        gru_block_cell(
            zeros([N, I]),
            zeros([N, H]),
            zeros([I + H, H]),
            zeros([I + H, H]),
            zeros([2 * H]),
            zeros([H])
        ),
        "gru_block_cell: w_ru [I+H, 2H] must be [9, 10], got [9, 5]"
    ),
    misuse!(
        "block-cell-saved",
        gru_block_cell_grad(
            zeros([N, I]),
            zeros([N, H]),
            zeros([I + H, 2 * H]),
            zeros([I + H, H]),
            zeros([2 * H]),
            zeros([H]),
            zeros([N, H]),
            zeros([N - 1, H]),
            zeros([N, H]),
            zeros([N, H])
        ),
        "gru_block_cell_grad: u [N, H] must be [2, 5], got [1, 5]"
    ),
    misuse!(
        "block-cell-weights-rows",
        tensorflow::weights(zeros([H, 2 * H]), zeros([H, H]), zeros([2 * H]), zeros([H])),
        "tensorflow::weights: w_c [I+H, H] must have more rows than columns, got [5, 5]"
    ),
    misuse!(
        "tensorflow-weights",
        tensorflow::weights(
            zeros([I + H, 2 * H]),
            zeros([I + H, H]),
            zeros([H]),
            zeros([H])
        ),
        "tensorflow::weights: b_ru [2H] must be [10], got [5]; w_c is [9, 5]"
    ),
    misuse!(
        "mps-weights-direction",
        mps_graph::weights(
            &zeros::<3>([2, 3 * H, H]).into(),
            None,
            None,
            None,
            &GruDescriptor::new(Update::Keeps)
        ),
        "mps_graph::weights: recurrent_weight must be [3H, H] without bidirectional, got [2, 15, 5]"
    ),
    misuse!(
        "mps-weights-input",
        mps_graph::weights(
            &zeros::<2>([3 * H, H]).into(),
            Some(&zeros([H, I])),
            None,
            None,
            &GruDescriptor::new(Update::Keeps)
        ),
        "mps_graph::weights: input_weight [D·3H, I] must be [15, 4], got [5, 4]"
    ),
    misuse!(
        "mps-recurrent-weight",
        mps_graph::gru(
            zeros([T, N, 3 * H]),
            zeros::<2>([3 * H, H]),
            None,
            None,
            None,
            None,
            None,
            &descriptor(|d| d.bidirectional = true)
        ),
        "mps_graph::gru: recurrent_weight must be [2, 3H, H] with bidirectional, got [15, 5]"
    ),
    misuse!(
        "mps-secondary-bias",
        mps_graph::gru(
            zeros([T, N, 3 * H]),
            zeros::<2>([3 * H, H]),
            None,
            None,
            None,
            None,
            Some(zeros([3 * H])),
            &descriptor(|d| d.reset_after = true)
        ),
        "mps_graph::gru: secondary_bias [D·H] must be [5], got [15]"
    ),
    misuse!(
        "mps-z-state",
        mps_graph::gru_gradients(
            zeros([T, N, 3 * H]),
            zeros::<2>([3 * H, H]),
            zeros([T, N, H]),
            zeros([T, N, H]),
            zeros([T, N, H]),
            None,
            None,
            None,
            None,
            None,
            None,
            &GruDescriptor::new(Update::Keeps)
        ),
        "mps_graph::gru_gradients: z_state [T, N, D·3H] must be [3, 2, 15], got [3, 2, 5]"
    ),
];
