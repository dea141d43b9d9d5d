//! A call without its tensors as a row of scalars.
//!
//! The row starts with [`ENCODING`]. Increment it with every change of the row, so that a client and a server
//! of different releases detect it.

use ScalarIr::{Bool, Float, UInt};
use burn::backend::ir::ScalarIr;
use gru_spec::{
    Activation, Activations, Direction, GruSpec, Layout, Lengths, Order, PerInput, Reset, Update,
};
use std::{mem::discriminant, slice, sync::Arc};

/// The version of the row, of the operation ids, and of the order of the tensors.
pub(super) const ENCODING: u64 = 5;

/// A call without its tensors.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Arguments {
    pub(super) spec: GruSpec,
    pub(super) order: Order,
    pub(super) lengths: Lengths,
    /// One bit for each tensor: whether it is present.
    pub(super) present: u64,
    /// The requested gradients.
    pub(super) wanted: PerInput<bool>,
}

impl Arguments {
    pub(super) fn encode(mut self) -> Vec<ScalarIr> {
        let mut row = vec![UInt(ENCODING)];
        let written = self.pass_through(&mut Row::Written(&mut row));
        written.expect("there is no error in a call");
        row
    }

    /// # Errors
    /// If the row is not a result of [`encode`](Self::encode) in this version, or the spec is invalid.
    #[cfg(any(feature = "fusion", feature = "remote", test))]
    pub(super) fn decode(row: &[ScalarIr]) -> Result<Self, String> {
        let [UInt(version), row @ ..] = row else {
            return Err(SCALARS.into());
        };
        if *version != ENCODING {
            return Err(format!(
                "the call uses encoding {version} of gru-op, this program uses encoding {ENCODING}; use the same \
                 release of gru-op on both sides"
            ));
        }
        let mut arguments = Self::default();
        arguments.pass_through(&mut Row::Read(row.iter()))?;
        arguments.spec.try_check()?;
        Ok(arguments)
    }

    /// Writes all fields to a row, or reads them from it.
    fn pass_through(&mut self, row: &mut Row) -> Result<(), String> {
        let Self {
            spec,
            order: Order { layout, direction },
            lengths,
            present,
            wanted,
        } = self;
        row.unsigned(present)?;
        for wanted in wanted.as_mut().into_array() {
            row.bool(wanted)?;
        }
        let GruSpec {
            reset,
            update,
            activations,
            clip_gates,
            clip_state,
        } = spec;
        row.either(reset, [Reset::AfterMatmul, Reset::BeforeMatmul])?;
        row.either(update, [Update::Keeps, Update::Takes])?;
        row.either(layout, [Layout::BatchMajor, Layout::TimeMajor])?;
        row.either(direction, [Direction::Forward, Direction::Reverse])?;
        for clip in [clip_gates, clip_state] {
            let (mut is_given, mut bound) = (clip.is_some(), clip.unwrap_or_default());
            row.bool(&mut is_given)?;
            row.float(&mut bound)?;
            *clip = is_given.then_some(bound);
        }
        let Activations {
            reset,
            update,
            candidate,
        } = activations;
        for activation in [reset, update, candidate] {
            let (mut number, mut parameters) = activation.numbered();
            row.unsigned(&mut number)?;
            for parameter in &mut parameters {
                row.float(parameter)?;
            }
            let known = Activation::from_number(number, parameters);
            *activation = known.ok_or_else(|| format!("there is no activation {number}"))?;
        }
        let mut form = match lengths {
            Lengths::All => 0,
            Lengths::Padded(_) => 1,
            Lengths::Packed(_) => 2,
        };
        row.unsigned(&mut form)?;
        let of_rows = row.rest(lengths.of_rows().unwrap_or_default())?;
        *lengths = match form {
            0 if of_rows.is_empty() => Lengths::All,
            0 => return Err(SCALARS.into()),
            1 => Lengths::Padded(of_rows),
            2 => Lengths::Packed(of_rows),
            form => return Err(format!("there is no form of lengths {form}")),
        };
        Ok(())
    }
}

const SCALARS: &str = "the scalars are not a call of gru-op";

/// Scalars in one order, for both directions.
enum Row<'a> {
    Written(&'a mut Vec<ScalarIr>),
    /// The rest of the row.
    #[cfg_attr(
        not(any(feature = "fusion", feature = "remote", test)),
        allow(dead_code)
    )]
    Read(slice::Iter<'a, ScalarIr>),
}

impl Row<'_> {
    /// Writes this scalar and returns it, or returns the next scalar of the same type.
    fn scalar(&mut self, scalar: ScalarIr) -> Result<ScalarIr, String> {
        match self {
            Self::Written(row) => {
                row.push(scalar);
                Ok(scalar)
            }
            Self::Read(row) => match row.next() {
                Some(next) if discriminant(next) == discriminant(&scalar) => Ok(*next),
                _ => Err(SCALARS.into()),
            },
        }
    }

    fn unsigned(&mut self, value: &mut u64) -> Result<(), String> {
        *value = self.scalar(UInt(*value))?.elem();
        Ok(())
    }

    fn bool(&mut self, value: &mut bool) -> Result<(), String> {
        *value = self.scalar(Bool(*value))?.elem();
        Ok(())
    }

    fn float(&mut self, value: &mut f64) -> Result<(), String> {
        *value = self.scalar(Float(*value))?.elem();
        Ok(())
    }

    fn either<T: Copy + PartialEq>(&mut self, value: &mut T, of: [T; 2]) -> Result<(), String> {
        let mut is_second = *value == of[1];
        self.bool(&mut is_second)?;
        *value = of[usize::from(is_second)];
        Ok(())
    }

    /// The rest of the row.
    fn rest(&mut self, values: &[usize]) -> Result<Arc<[usize]>, String> {
        let mut rest = values.to_vec();
        if let Self::Read(row) = self {
            rest = vec![0; row.len()];
        }
        for value in &mut rest {
            let mut number = *value as u64;
            self.unsigned(&mut number)?;
            *value = usize::try_from(number).map_err(|error| error.to_string())?;
        }
        Ok(rest.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
                activations: [0, 1, 2].map(activation).into(),
                clip_gates: [None, Some(0.7)][bit(2)],
                clip_state: [None, Some(f64::INFINITY)][bit(3)],
            },
            order: Order {
                layout: [Layout::BatchMajor, Layout::TimeMajor][bit(4)],
                direction: [Direction::Forward, Direction::Reverse][bit(5)],
            },
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
        for arguments in (0..64).map(example) {
            let row = arguments.clone().encode();
            assert_eq!(Arguments::decode(&row).unwrap(), arguments);
        }
    }

    /// The row, the operations and the tensors. Increment [`ENCODING`] with every change here.
    #[test]
    fn encoding_5() {
        use crate::backend::deferred::{GRADIENTS, STATES, STATES_AND_GATES, TENSORS};

        let (alpha, beta) = (0.25, 0.5);
        let arguments = Arguments {
            order: Order {
                direction: Direction::Reverse,
                ..Order::default()
            },
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
        let mut row = vec![UInt(5), UInt(0b1011)];
        row.extend([true, false, true, true, false, false, true].map(Bool));
        row.extend([true, false, false, true].map(Bool));
        row.extend([Bool(false), Float(0.0), Bool(true), Float(1.5)]);
        row.extend([UInt(3), Float(0.25), Float(0.5)]);
        row.extend([UInt(0), Float(0.0), Float(0.0)]);
        row.extend([UInt(9), Float(0.25), Float(0.0)]);
        row.extend([2, 2, 0, 5].map(UInt));
        assert_eq!(arguments.clone().encode(), row);
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
        assert!(error.contains("encoding 6"), "{error}");
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
        let count = ACTIVATIONS.len();
        unknown[row.len() - 4] = ScalarIr::UInt(count as u64);
        let error = Arguments::decode(&unknown).unwrap_err();
        assert_eq!(error, format!("there is no activation {count}"));
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
