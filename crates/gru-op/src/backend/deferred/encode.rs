//! A call without its tensors as a row of numbers, and back.
//!
//! The row starts with [`ENCODING`]. Whoever changes what stands in it counts that up, so that a
//! client and a server of two releases refuse each other instead of reading one thing as another.

use super::Malformed;
use burn::backend::ir::ScalarIr;
use gru_spec::{
    Activation, Activations, Checkpointing, Direction, GruSpec, Layout, Order, PerInput, Reset,
    Update,
};

/// The version of everything below, of the ids of the operations and of the order of their tensors.
pub(crate) const ENCODING: u64 = 2;

/// What a call is besides its tensors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Arguments {
    pub(crate) spec: GruSpec,
    pub(crate) order: Order,
    pub(crate) checkpointing: Checkpointing,
    /// Which tensors were sent: a bit for each, in their order.
    pub(crate) present: u64,
    /// Which gradients are asked for.
    pub(crate) wanted: PerInput<bool>,
}

impl Arguments {
    pub(crate) fn encode(&self) -> Vec<ScalarIr> {
        let Self {
            spec,
            order,
            checkpointing,
            present,
            wanted,
        } = self;
        let mut row = vec![ScalarIr::UInt(ENCODING), ScalarIr::UInt(*present)];
        row.extend(wanted.map(ScalarIr::Bool).into_array());
        row.extend([
            ScalarIr::Bool(spec.reset == Reset::BeforeMatmul),
            ScalarIr::Bool(spec.update == Update::Takes),
            ScalarIr::Bool(order.layout == Layout::TimeMajor),
            ScalarIr::Bool(order.direction == Direction::Reverse),
            ScalarIr::Bool(*checkpointing == Checkpointing::Recompute),
        ]);
        for clip in [spec.clip_gates, spec.clip_state] {
            row.extend([
                ScalarIr::Bool(clip.is_some()),
                ScalarIr::Float(clip.unwrap_or_default()),
            ]);
        }
        let Activations {
            reset,
            update,
            candidate,
        } = spec.activations;
        for activation in [reset, update, candidate] {
            let (kind, [alpha, beta]) = numbered(activation);
            row.extend([
                ScalarIr::UInt(kind),
                ScalarIr::Float(alpha),
                ScalarIr::Float(beta),
            ]);
        }
        // What is not in the row would be lost on its way.
        assert!(
            Self::read(&row).is_ok_and(|again| again == *self),
            "no row of numbers stands for {self:?}"
        );
        row
    }

    /// # Errors
    /// If the row is of another version, too long, too short, or holds what no [`encode`] writes.
    ///
    /// [`encode`]: Self::encode
    pub(crate) fn decode(row: &[ScalarIr]) -> Result<Self, Malformed> {
        let arguments = Self::read(row)?;
        arguments.spec.try_check().map_err(Malformed::Spec)?;
        Ok(arguments)
    }

    fn read(row: &[ScalarIr]) -> Result<Self, Malformed> {
        let mut row = Row(row.iter());
        match row.unsigned()? {
            ENCODING => {}
            version => return Err(Malformed::Version(version)),
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
        let spec = GruSpec {
            reset,
            update,
            clip_gates: row.clip()?,
            clip_state: row.clip()?,
            activations: Activations {
                reset: row.activation()?,
                update: row.activation()?,
                candidate: row.activation()?,
            },
        };
        if row.0.next().is_some() {
            return Err(Malformed::Scalars);
        }
        Ok(Self {
            spec,
            order,
            checkpointing,
            present,
            wanted,
        })
    }
}

/// What is left of a row.
struct Row<'a>(std::slice::Iter<'a, ScalarIr>);

impl Row<'_> {
    fn unsigned(&mut self) -> Result<u64, Malformed> {
        match self.0.next() {
            Some(&ScalarIr::UInt(value)) => Ok(value),
            _ => Err(Malformed::Scalars),
        }
    }

    fn bool(&mut self) -> Result<bool, Malformed> {
        match self.0.next() {
            Some(&ScalarIr::Bool(value)) => Ok(value),
            _ => Err(Malformed::Scalars),
        }
    }

    fn float(&mut self) -> Result<f64, Malformed> {
        match self.0.next() {
            Some(&ScalarIr::Float(value)) => Ok(value),
            _ => Err(Malformed::Scalars),
        }
    }

    fn either<T>(&mut self, no: T, yes: T) -> Result<T, Malformed> {
        Ok(if self.bool()? { yes } else { no })
    }

    fn clip(&mut self) -> Result<Option<f64>, Malformed> {
        let given = self.bool()?;
        let bound = self.float()?;
        Ok(given.then_some(bound))
    }

    fn activation(&mut self) -> Result<Activation, Malformed> {
        let kind = self.unsigned()?;
        let parameters = [self.float()?, self.float()?];
        activation(kind, parameters).ok_or(Malformed::Activation(kind))
    }
}

/// An activation's number on the wire, and its parameters with zeros for those that it has not.
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

    fn call(spec: GruSpec) -> Arguments {
        Arguments {
            spec,
            order: Order::default(),
            checkpointing: Checkpointing::default(),
            present: 0b1001,
            wanted: PerInput::default(),
        }
    }

    /// Each choice on its own, every activation in every place.
    fn arguments() -> Vec<Arguments> {
        let usual = GruSpec::default();
        let mut specs = vec![
            usual,
            usual.with_reset(Reset::BeforeMatmul),
            usual.with_update(Update::Takes),
            usual.with_clip_gates(Some(0.7)),
            usual.with_clip_state(Some(f64::INFINITY)),
        ];
        for activation in ACTIVATIONS {
            for place in 0..3 {
                let mut gates = Activations::default();
                *[&mut gates.reset, &mut gates.update, &mut gates.candidate][place] = activation;
                specs.push(usual.with_activations(gates));
            }
        }
        let mut all: Vec<_> = specs.into_iter().map(call).collect();
        let usual = call(usual);
        let [mut time_major, mut reverse, mut recompute] = [usual; 3];
        time_major.order.layout = Layout::TimeMajor;
        reverse.order.direction = Direction::Reverse;
        recompute.checkpointing = Checkpointing::Recompute;
        all.extend([time_major, reverse, recompute]);
        for (k, arguments) in all.iter_mut().enumerate() {
            arguments.present += k as u64;
            let mut bits = 0..;
            arguments.wanted = PerInput::<bool>::default().map(|_| bits.next() == Some(k % 7));
        }
        all
    }

    #[test]
    fn every_call_comes_back() {
        for arguments in arguments() {
            assert_eq!(Arguments::decode(&arguments.encode()).unwrap(), arguments);
        }
    }

    /// Numbers, operations and tensors. A change of one of them counts [`ENCODING`] up.
    #[test]
    fn encoding_2_stays() {
        use crate::backend::deferred::{GRADIENTS, STATES, STATES_AND_GATES, TENSORS};
        use ScalarIr::{Bool, Float, UInt};

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
        assert_eq!(
            [STATES, STATES_AND_GATES, GRADIENTS],
            [
                "gru_op::states",
                "gru_op::states_and_gates",
                "gru_op::gradients"
            ]
        );
        let expected =
            "x h0 w_ih w_hh b_ih b_hh recurrent_mask step_mask zoneout states gates d_states";
        assert_eq!(TENSORS.join(" "), expected);
    }

    #[test]
    fn calls_that_differ_are_rows_that_differ() {
        let rows: Vec<_> = arguments().iter().map(Arguments::encode).collect();
        for (k, row) in rows.iter().enumerate() {
            assert!(!rows[..k].contains(row), "{k}");
        }
    }

    #[test]
    fn another_version_is_named() {
        let mut row = arguments()[0].encode();
        row[0] = ScalarIr::UInt(ENCODING + 1);
        let error = Arguments::decode(&row).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the call is written in encoding 3 of gru-op, this is encoding 2: use the same \
             release of gru-op on both sides"
        );
    }

    /// A row of another length, or with one number of another kind, is none.
    #[test]
    fn what_nobody_wrote_is_refused() {
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
        assert_eq!(error.to_string(), "there is no activation 12");
    }

    #[test]
    fn a_spec_that_no_operator_takes_is_refused() {
        let mut arguments = arguments()[0];
        arguments.spec.clip_state = Some(-1.0);
        let error = Arguments::decode(&arguments.encode()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "GruSpec: clip_state must be positive, expected > 0, got -1"
        );
    }
}
