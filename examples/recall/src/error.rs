//! Every error, each as one line for the user.

/// An error of the program. `Display` is the whole message.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Run(#[from] training_kit::error::Error),

    #[error("the loss is {loss} at update {update}: training diverged; try another seed")]
    Diverged { update: usize, loss: f64 },

    #[error("stopped at update {update}; resume with the same arguments and --resume")]
    Stopped { update: usize },
}

impl Error {
    /// 130 for a run that the user stopped (as shells), otherwise 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Stopped { .. } => 130,
            Self::Run(_) | Self::Diverged { .. } => 1,
        }
    }
}
