//! From a row of scalars to a call.

use super::encode::{Arguments, ENCODING};
use ScalarIr::{Bool, Float, UInt};
use burn::backend::ir::ScalarIr;
use gru_spec::{
    Activation, Activations, Checkpointing, Direction, GruSpec, Layout, Lengths, Order, PerInput,
    Reset, Update,
};

impl Arguments {
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
        let lengths = row.lengths()?;
        if row.0.next().is_some() {
            return Err(SCALARS.into());
        }
        spec.try_check()?;
        Ok(Self {
            spec,
            order,
            checkpointing,
            lengths,
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

    /// The rest of the row.
    fn lengths(&mut self) -> Result<Lengths, String> {
        let form = self.unsigned()?;
        let of_rows = match form {
            0 => return Ok(Lengths::All),
            1 => Lengths::Padded,
            2 => Lengths::Packed,
            form => return Err(format!("there is no form of lengths {form}")),
        };
        let mut lengths = Vec::with_capacity(self.0.len());
        while self.0.len() > 0 {
            lengths.push(usize::try_from(self.unsigned()?).map_err(|error| error.to_string())?);
        }
        Ok(of_rows(lengths.into()))
    }

    fn activation(&mut self) -> Result<Activation, String> {
        let number = self.unsigned()?;
        let parameters = [self.float()?, self.float()?];
        let activation = Activation::from_number(number, parameters);
        activation.ok_or_else(|| format!("there is no activation {number}"))
    }
}
