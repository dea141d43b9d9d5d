//! A call without its tensors as a row of scalars, and back.
//!
//! The row starts with [`ENCODING`]. Increment it with every change of the row, so that a client and a server
//! of different releases detect it.

use ScalarIr::{Bool, Float, UInt};
use burn::backend::ir::ScalarIr;
use gru_spec::{
    Activation, Activations, Checkpointing, Direction, GruSpec, Layout, Order, PerInput, Reset,
    Update,
};

/// The version of the row, of the operation ids, and of the order of the tensors.
pub(super) const ENCODING: u64 = 2;

/// A call without its tensors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Arguments {
    pub(super) spec: GruSpec,
    pub(super) order: Order,
    pub(super) checkpointing: Checkpointing,
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
            let (kind, [alpha, beta]) = numbered(activation);
            row.extend([UInt(kind), Float(alpha), Float(beta)]);
        }
        row
    }

    /// # Errors
    /// If the row is not a result of [`encode`](Self::encode) in this version, or the spec is invalid.
    pub(super) fn decode(row: &[ScalarIr]) -> Result<Self, String> {
        let mut row = Row(row.iter());
        let version = row.unsigned()?;
        if version != ENCODING {
            return Err(format!(
                "the call uses encoding {version} of gru-op, this program uses encoding {ENCODING}; use the same \
                 release of gru-op on both sides"
            ));
        }
        let present = row.unsigned()?;
        let mut wanted = PerInput::<bool>::default();
        for wanted in wanted.as_mut().into_array() {
            *wanted = row.bool()?;
        }
        let reset = row.either(Reset::AfterMatmul, Reset::BeforeMatmul)?;
        let update = row.either(Update::Keeps, Update::Takes)?;
        let order = Order {
            layout: row.either(Layout::BatchMajor, Layout::TimeMajor)?,
            direction: row.either(Direction::Forward, Direction::Reverse)?,
        };
        let checkpointing = row.either(Checkpointing::KeepGates, Checkpointing::Recompute)?;
        let (clip_gates, clip_state) = (row.clip()?, row.clip()?);
        let activations = Activations {
            reset: row.activation()?,
            update: row.activation()?,
            candidate: row.activation()?,
        };
        let spec = GruSpec {
            reset,
            update,
            activations,
            clip_gates,
            clip_state,
        };
        if row.0.next().is_some() {
            return Err(SCALARS.into());
        }
        spec.try_check()?;
        Ok(Self {
            spec,
            order,
            checkpointing,
            present,
            wanted,
        })
    }
}

const SCALARS: &str = "the scalars are not a call of gru-op";

/// The rest of a row.
struct Row<'a>(std::slice::Iter<'a, ScalarIr>);

impl Row<'_> {
    fn unsigned(&mut self) -> Result<u64, String> {
        match self.0.next() {
            Some(&UInt(value)) => Ok(value),
            _ => Err(SCALARS.into()),
        }
    }

    fn bool(&mut self) -> Result<bool, String> {
        match self.0.next() {
            Some(&Bool(value)) => Ok(value),
            _ => Err(SCALARS.into()),
        }
    }

    fn float(&mut self) -> Result<f64, String> {
        match self.0.next() {
            Some(&Float(value)) => Ok(value),
            _ => Err(SCALARS.into()),
        }
    }

    fn either<T>(&mut self, no: T, yes: T) -> Result<T, String> {
        Ok(if self.bool()? { yes } else { no })
    }

    fn clip(&mut self) -> Result<Option<f64>, String> {
        let given = self.bool()?;
        let bound = self.float()?;
        Ok(given.then_some(bound))
    }

    fn activation(&mut self) -> Result<Activation, String> {
        let kind = self.unsigned()?;
        let parameters = [self.float()?, self.float()?];
        activation(kind, parameters).ok_or_else(|| format!("there is no activation {kind}"))
    }
}

/// The number of an activation on the wire, and its parameters, or zeros.
fn numbered(activation: Activation) -> (u64, [f64; 2]) {
    match activation {
        Activation::Sigmoid => (0, [0.0; 2]),
        Activation::Tanh => (1, [0.0; 2]),
        Activation::Relu => (2, [0.0; 2]),
        Activation::HardSigmoid { alpha, beta } => (3, [alpha, beta]),
        Activation::Identity => (4, [0.0; 2]),
        Activation::Affine { alpha, beta } => (5, [alpha, beta]),
        Activation::LeakyRelu { alpha } => (6, [alpha, 0.0]),
        Activation::ThresholdedRelu { alpha } => (7, [alpha, 0.0]),
        Activation::ScaledTanh { alpha, beta } => (8, [alpha, beta]),
        Activation::Elu { alpha } => (9, [alpha, 0.0]),
        Activation::Softsign => (10, [0.0; 2]),
        Activation::Softplus => (11, [0.0; 2]),
    }
}

/// The activation of a number on the wire.
fn activation(kind: u64, [alpha, beta]: [f64; 2]) -> Option<Activation> {
    Some(match kind {
        0 => Activation::Sigmoid,
        1 => Activation::Tanh,
        2 => Activation::Relu,
        3 => Activation::HardSigmoid { alpha, beta },
        4 => Activation::Identity,
        5 => Activation::Affine { alpha, beta },
        6 => Activation::LeakyRelu { alpha },
        7 => Activation::ThresholdedRelu { alpha },
        8 => Activation::ScaledTanh { alpha, beta },
        9 => Activation::Elu { alpha },
        10 => Activation::Softsign,
        11 => Activation::Softplus,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gru_testkit::activations::ACTIVATIONS;

    fn arguments_of(spec: GruSpec) -> Arguments {
        Arguments {
            spec,
            order: Order::default(),
            checkpointing: Checkpointing::default(),
            present: 0b1001,
            wanted: PerInput::default(),
        }
    }

    /// Each option by itself, and every activation in every place.
    fn arguments() -> Vec<Arguments> {
        let spec = GruSpec::default();
        let mut specs = vec![
            spec,
            spec.with_reset(Reset::BeforeMatmul),
            spec.with_update(Update::Takes),
            spec.with_clip_gates(Some(0.7)),
            spec.with_clip_state(Some(f64::INFINITY)),
        ];
        for activation in ACTIVATIONS {
            for place in 0..3 {
                let mut gates = Activations::default();
                *[&mut gates.reset, &mut gates.update, &mut gates.candidate][place] = activation;
                specs.push(spec.with_activations(gates));
            }
        }
        let mut all: Vec<_> = specs.into_iter().map(arguments_of).collect();
        let [mut time_major, mut reverse, mut recompute] = [arguments_of(spec); 3];
        time_major.order.layout = Layout::TimeMajor;
        reverse.order.direction = Direction::Reverse;
        recompute.checkpointing = Checkpointing::Recompute;
        all.extend([time_major, reverse, recompute]);
        for (k, arguments) in all.iter_mut().enumerate() {
            let mut bits = 0..;
            arguments.wanted = PerInput::<bool>::default().map(|_| bits.next() == Some(k % 7));
        }
        all
    }

    #[test]
    fn decode_is_the_inverse_of_encode() {
        for arguments in arguments() {
            assert_eq!(Arguments::decode(&arguments.encode()).unwrap(), arguments);
        }
    }

    /// The row, the operations and the tensors. Increment [`ENCODING`] with every change here.
    #[test]
    fn encoding_2() {
        use crate::backend::deferred::{GRADIENTS, STATES, STATES_AND_GATES, TENSORS};

        let (alpha, beta) = (0.25, 0.5);
        let arguments = Arguments {
            order: Order {
                direction: Direction::Reverse,
                ..Order::default()
            },
            checkpointing: Checkpointing::KeepGates,
            spec: GruSpec::default()
                .with_reset(Reset::BeforeMatmul)
                .with_clip_state(Some(1.5))
                .with_activations(Activations {
                    reset: Activation::HardSigmoid { alpha, beta },
                    candidate: Activation::Elu { alpha },
                    ..Activations::default()
                }),
            present: 0b1011,
            wanted: PerInput::from_array([true, false, true, true, false, false]),
        };
        let mut row = vec![UInt(2), UInt(0b1011)];
        row.extend([true, false, true, true, false, false].map(Bool));
        row.extend([true, false, false, true, false].map(Bool));
        row.extend([Bool(false), Float(0.0), Bool(true), Float(1.5)]);
        row.extend([UInt(3), Float(0.25), Float(0.5)]);
        row.extend([UInt(0), Float(0.0), Float(0.0)]);
        row.extend([UInt(9), Float(0.25), Float(0.0)]);
        assert_eq!(arguments.encode(), row);
        assert_eq!(Arguments::decode(&row).unwrap(), arguments);

        let numbered = (0..12).map(|kind| activation(kind, [alpha, beta]));
        let expected = [
            Activation::Sigmoid,
            Activation::Tanh,
            Activation::Relu,
            Activation::HardSigmoid { alpha, beta },
            Activation::Identity,
            Activation::Affine { alpha, beta },
            Activation::LeakyRelu { alpha },
            Activation::ThresholdedRelu { alpha },
            Activation::ScaledTanh { alpha, beta },
            Activation::Elu { alpha },
            Activation::Softsign,
            Activation::Softplus,
        ];
        assert!(numbered.eq(expected.map(Some)));
        let operations = [STATES, STATES_AND_GATES, GRADIENTS].join(" ");
        let expected = "gru_op::states gru_op::states_and_gates gru_op::gradients";
        assert_eq!(operations, expected);
        let expected =
            "x h0 w_ih w_hh b_ih b_hh recurrent_mask step_mask zoneout states gates d_states";
        assert_eq!(TENSORS.join(" "), expected);
    }

    #[test]
    fn another_encoding_is_an_error() {
        let mut row = arguments()[0].encode();
        row[0] = ScalarIr::UInt(ENCODING + 1);
        let error = Arguments::decode(&row).unwrap_err();
        assert!(error.contains("encoding 3"), "{error}");
    }

    /// A row of another length, or with a scalar of another type.
    #[test]
    fn an_invalid_row_is_an_error() {
        let row = arguments()[0].encode();
        for len in 0..row.len() {
            assert!(Arguments::decode(&row[..len]).is_err(), "{len}");
        }
        let longer = [row.as_slice(), &[ScalarIr::UInt(0)]].concat();
        assert!(Arguments::decode(&longer).is_err());
        for place in 0..row.len() {
            let mut row = row.clone();
            row[place] = ScalarIr::Int(1);
            assert!(Arguments::decode(&row).is_err(), "{place}");
        }
        let mut unknown = row.clone();
        unknown[row.len() - 3] = ScalarIr::UInt(12);
        let error = Arguments::decode(&unknown).unwrap_err();
        assert_eq!(error, "there is no activation 12");
    }

    #[test]
    fn an_invalid_spec_is_an_error() {
        let mut arguments = arguments()[0];
        arguments.spec.clip_state = Some(-1.0);
        let error = Arguments::decode(&arguments.encode()).unwrap_err();
        assert!(error.contains("clip_state must be positive"), "{error}");
    }
}
