//! A call without its tensors as a row of scalars.
//!
//! The row starts with [`ENCODING`]. Increment it with every change of the row, so that a client and a server
//! of different releases detect it.

use ScalarIr::{Bool, Float, UInt};
use burn::backend::ir::ScalarIr;
use gru_spec::{
    Activations, Checkpointing, Direction, GruSpec, Layout, Lengths, Order, PerInput, Reset, Update,
};

/// The version of the row, of the operation ids, and of the order of the tensors.
pub(super) const ENCODING: u64 = 4;

/// A call without its tensors.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Arguments {
    pub(super) spec: GruSpec,
    pub(super) order: Order,
    pub(super) checkpointing: Checkpointing,
    pub(super) lengths: Lengths,
    /// One bit for each tensor: whether it is present.
    pub(super) present: u64,
    /// The requested gradients.
    pub(super) wanted: PerInput<bool>,
}

impl Arguments {
    pub(super) fn encode(&self) -> Vec<ScalarIr> {
        let Self {
            spec,
            order,
            checkpointing,
            lengths,
            present,
            wanted,
        } = self;
        let GruSpec {
            reset,
            update,
            activations,
            clip_gates,
            clip_state,
        } = *spec;
        let Order { layout, direction } = *order;
        let mut row = vec![UInt(ENCODING), UInt(*present)];
        row.extend(wanted.map(Bool).into_array());
        row.extend([
            Bool(reset == Reset::BeforeMatmul),
            Bool(update == Update::Takes),
            Bool(layout == Layout::TimeMajor),
            Bool(direction == Direction::Reverse),
            Bool(*checkpointing == Checkpointing::Recompute),
        ]);
        for clip in [clip_gates, clip_state] {
            row.extend([Bool(clip.is_some()), Float(clip.unwrap_or_default())]);
        }
        let Activations {
            reset,
            update,
            candidate,
        } = activations;
        for activation in [reset, update, candidate] {
            let (number, [alpha, beta]) = activation.numbered();
            row.extend([UInt(number), Float(alpha), Float(beta)]);
        }
        row.push(UInt(match lengths {
            Lengths::All => 0,
            Lengths::Padded(_) => 1,
            Lengths::Packed(_) => 2,
        }));
        let of_rows = lengths.of_rows().unwrap_or_default();
        row.extend(of_rows.iter().map(|&len| UInt(len as u64)));
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gru_spec::Activation;
    use gru_testkit::activations::ACTIVATIONS;

    /// Every combination of the options, with every activation in every place.
    fn example(k: usize) -> Arguments {
        let bit = |bit: usize| k >> bit & 1;
        let activation = |place: usize| ACTIVATIONS[(k + place) % ACTIVATIONS.len()];
        let mut place = 0..;
        Arguments {
            spec: GruSpec {
                reset: [Reset::AfterMatmul, Reset::BeforeMatmul][bit(0)],
                update: [Update::Keeps, Update::Takes][bit(1)],
                activations: Activations {
                    reset: activation(0),
                    update: activation(1),
                    candidate: activation(2),
                },
                clip_gates: [None, Some(0.7)][bit(2)],
                clip_state: [None, Some(f64::INFINITY)][bit(3)],
            },
            order: Order {
                layout: [Layout::BatchMajor, Layout::TimeMajor][bit(4)],
                direction: [Direction::Forward, Direction::Reverse][bit(5)],
            },
            checkpointing: [Checkpointing::KeepGates, Checkpointing::Recompute][bit(6)],
            lengths: match k % 3 {
                0 => Lengths::All,
                1 => Lengths::Padded([3, 0, k].into()),
                _ => Lengths::Packed([k].into()),
            },
            present: k as u64,
            wanted: PerInput::<bool>::default().map(|_| place.next() == Some(k % 8)),
        }
    }

    #[test]
    fn decode_is_the_inverse_of_encode() {
        for arguments in (0..128).map(example) {
            assert_eq!(Arguments::decode(&arguments.encode()).unwrap(), arguments);
        }
    }

    /// The row, the operations and the tensors. Increment [`ENCODING`] with every change here.
    #[test]
    fn encoding_4() {
        use crate::backend::deferred::{GRADIENTS, STATES, STATES_AND_GATES, TENSORS};

        let (alpha, beta) = (0.25, 0.5);
        let arguments = Arguments {
            order: Order {
                direction: Direction::Reverse,
                ..Order::default()
            },
            checkpointing: Checkpointing::KeepGates,
            lengths: Lengths::Packed([2, 0, 5].into()),
            spec: GruSpec::default()
                .with_reset(Reset::BeforeMatmul)
                .with_clip_state(Some(1.5))
                .with_activations(Activations {
                    reset: Activation::HardSigmoid { alpha, beta },
                    candidate: Activation::Elu { alpha },
                    ..Activations::default()
                }),
            present: 0b1011,
            wanted: PerInput::from_array([true, false, true, true, false, false, true]),
        };
        let mut row = vec![UInt(4), UInt(0b1011)];
        row.extend([true, false, true, true, false, false, true].map(Bool));
        row.extend([true, false, false, true, false].map(Bool));
        row.extend([Bool(false), Float(0.0), Bool(true), Float(1.5)]);
        row.extend([UInt(3), Float(0.25), Float(0.5)]);
        row.extend([UInt(0), Float(0.0), Float(0.0)]);
        row.extend([UInt(9), Float(0.25), Float(0.0)]);
        row.extend([2, 2, 0, 5].map(UInt));
        assert_eq!(arguments.encode(), row);
        assert_eq!(Arguments::decode(&row).unwrap(), arguments);

        let operations = [STATES, STATES_AND_GATES, GRADIENTS].join(" ");
        let expected = "gru_op::states gru_op::states_and_gates gru_op::gradients";
        assert_eq!(operations, expected);
        let expected = "x h0 w_ih w_hh b_ih b_hh start_state recurrent_mask step_mask zoneout starts states \
             gates d_states";
        assert_eq!(TENSORS.join(" "), expected);
    }

    #[test]
    fn another_encoding_is_an_error() {
        let mut row = example(0).encode();
        row[0] = ScalarIr::UInt(ENCODING + 1);
        let error = Arguments::decode(&row).unwrap_err();
        assert!(error.contains("encoding 5"), "{error}");
    }

    /// A row of another length, or with a scalar of another type.
    #[test]
    fn an_invalid_row_is_an_error() {
        let row = example(0).encode();
        for len in 0..row.len() {
            assert!(Arguments::decode(&row[..len]).is_err(), "{len}");
        }
        // Rows of T steps have no lengths.
        let longer = [row.as_slice(), &[ScalarIr::UInt(0)]].concat();
        assert!(Arguments::decode(&longer).is_err());
        for place in 0..row.len() {
            let mut row = row.clone();
            row[place] = ScalarIr::Int(1);
            assert!(Arguments::decode(&row).is_err(), "{place}");
        }
        let mut unknown = row.clone();
        unknown[row.len() - 4] = ScalarIr::UInt(12);
        let error = Arguments::decode(&unknown).unwrap_err();
        assert_eq!(error, "there is no activation 12");
        let mut unknown = row.clone();
        unknown[row.len() - 1] = ScalarIr::UInt(3);
        let error = Arguments::decode(&unknown).unwrap_err();
        assert_eq!(error, "there is no form of lengths 3");
    }

    #[test]
    fn an_invalid_spec_is_an_error() {
        let mut arguments = example(0);
        arguments.spec.clip_state = Some(-1.0);
        let error = Arguments::decode(&arguments.encode()).unwrap_err();
        assert!(error.contains("clip_state must be positive"), "{error}");
    }
}
