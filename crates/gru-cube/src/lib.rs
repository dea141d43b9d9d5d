//! GRU recurrences for GPUs.
#![deny(missing_docs)]

mod error;
mod kernel;
mod launch;
mod limits;
mod plan;
mod rule;

pub use error::PlanError;
pub use launch::{
    BackwardInputs, BackwardOutputs, Call, ForwardInputs, ForwardOutputs, RecurrentInputs,
    backward, forward, launches, recurrent_inputs,
};
pub use limits::Limits;
pub use plan::{Cut, StepTile, Strategy, WalkTile};
