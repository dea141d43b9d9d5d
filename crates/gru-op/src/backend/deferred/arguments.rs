//! A call without its tensors as a row of scalars.
//!
//! The row contains [`ENCODING`], a bit for each tensor, and the other arguments as bytes of CBOR, eight in a
//! scalar. Increment the encoding with every change of the row, so that a client and a server of different releases
//! detect it.

use burn::backend::ir::ScalarIr::{self, UInt};
use gru_spec::{GRADIENTS, GruSpec, Lengths, Order, PerInput};

/// The version of the row, of the operation ids, and of the order of the tensors.
pub(super) const ENCODING: u64 = 6;

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

/// The arguments in CBOR: spec, order, requested gradients, and whether rows are packed, with their lengths.
type Encoded = (
    GruSpec,
    Order,
    [bool; GRADIENTS],
    Option<(bool, Vec<usize>)>,
);

impl Arguments {
    pub(super) fn encode(&self) -> Vec<ScalarIr> {
        let is_packed = matches!(self.lengths, Lengths::Packed(_));
        let of_rows = self.lengths.of_rows();
        let of_rows = of_rows.map(|lengths| (is_packed, lengths.to_vec()));
        let encoded: Encoded = (self.spec, self.order, self.wanted.into_array(), of_rows);
        let mut bytes = Vec::new();
        ciborium::into_writer(&encoded, &mut bytes).expect("memory is written");
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let (words, _) = bytes.as_chunks();
        let words = words.iter().map(|&word| u64::from_le_bytes(word));
        let head = [ENCODING, self.present];
        head.into_iter().chain(words).map(UInt).collect()
    }

    /// # Errors
    /// If the row is not a result of [`encode`](Self::encode) in this version, or the spec is invalid.
    #[cfg(any(feature = "fusion", feature = "router", test))]
    pub(super) fn decode(row: &[ScalarIr]) -> Result<Self, String> {
        const SCALARS: &str = "the scalars are not a call of gru-op";
        let [UInt(version), rest @ ..] = row else {
            return Err(SCALARS.into());
        };
        if *version != ENCODING {
            return Err(format!(
                "the call uses encoding {version} of gru-op, this program uses encoding {ENCODING}; use the same \
                 release of gru-op on both sides"
            ));
        }
        let [UInt(present), words @ ..] = rest else {
            return Err(SCALARS.into());
        };
        let bytes = words.iter().map(|word| match word {
            UInt(word) => Ok(word.to_le_bytes()),
            _ => Err(SCALARS),
        });
        let bytes = bytes.collect::<Result<Vec<_>, _>>()?.concat();
        let encoded: Result<Encoded, _> = ciborium::from_reader(&bytes[..]);
        let (spec, order, wanted, of_rows) =
            encoded.map_err(|error| format!("{SCALARS}: {error}"))?;
        let arguments = Self {
            spec,
            order,
            lengths: match of_rows {
                None => Lengths::All,
                Some((false, lengths)) => Lengths::Padded(lengths.into()),
                Some((true, lengths)) => Lengths::Packed(lengths.into()),
            },
            present: *present,
            wanted: PerInput::from_array(wanted),
        };
        if arguments.encode() != row {
            return Err(SCALARS.into());
        }
        arguments.spec.try_check().map_err(|e| e.to_string())?;
        Ok(arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gru_spec::{Direction, Layout, Reset, Update};
    use gru_testkit::activations::ACTIVATIONS;

    /// Every combination of the options, with every activation in every place.
    fn example(k: usize) -> Arguments {
        let bit = |bit: usize| k >> bit & 1;
        let activation = |place: usize| ACTIVATIONS[(k + place) % ACTIVATIONS.len()];
        let mut place = 0..;
        Arguments {
            spec: GruSpec::default()
                .with_reset([Reset::AfterMatmul, Reset::BeforeMatmul][bit(0)])
                .with_update([Update::Keeps, Update::Takes][bit(1)])
                .with_activations([0, 1, 2].map(activation).into())
                .with_clip_gates([None, Some(0.7)][bit(2)])
                .with_clip_state([None, Some(f64::INFINITY)][bit(3)]),
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
            let row = arguments.encode();
            assert_eq!(Arguments::decode(&row).unwrap(), arguments);
        }
    }

    /// The row, the operations and the tensors. Increment [`ENCODING`] with every change here.
    #[test]
    fn encoding_6() {
        use crate::backend::deferred::{GRADIENTS, STATES, STATES_AND_GATES, TENSORS};

        let row = example(0b101101).encode();
        assert_eq!(row[..2], [UInt(6), UInt(0b101101)]);
        let bytes = row[2..].iter().map(|word| word.elem::<u64>().to_le_bytes());
        let bytes = bytes.collect::<Vec<_>>().concat();
        let expected = r"\x84\xa5eresetlBeforeMatmulfupdateeKeepskactivations\xa3ereset\xa1cElu\xa1ealpha\xfb?\xe6fffffffupdatehSoftsignicandidatehSoftplusjclip_gates\xfb?\xe6ffffffjclip_state\xf9|\x00\xa2flayoutjBatchMajoridirectiongReverse\x87\xf4\xf4\xf4\xf4\xf4\xf5\xf4\xf6\x00\x00\x00";
        assert_eq!(bytes.escape_ascii().to_string(), expected);

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
        row[0] = UInt(ENCODING + 1);
        let error = Arguments::decode(&row).unwrap_err();
        assert!(error.contains("encoding 7"), "{error}");
    }

    /// A row of another length, or with a scalar of another type.
    #[test]
    fn an_invalid_row_is_an_error() {
        let row = example(0).encode();
        for len in 0..row.len() {
            assert!(Arguments::decode(&row[..len]).is_err(), "{len}");
        }
        for extra in [0, 1] {
            let longer = [row.as_slice(), &[UInt(extra)]].concat();
            assert!(Arguments::decode(&longer).is_err());
        }
        for place in 0..row.len() {
            let mut row = row.clone();
            row[place] = ScalarIr::Int(1);
            assert!(Arguments::decode(&row).is_err(), "{place}");
        }
    }

    #[test]
    fn an_invalid_spec_is_an_error() {
        let mut arguments = example(0);
        arguments.spec.clip_state = Some(-1.0);
        let error = Arguments::decode(&arguments.encode()).unwrap_err();
        assert!(error.contains("clip_state must be positive"), "{error}");
    }
}
