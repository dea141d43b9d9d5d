//! Every error, each as one line for the user.

/// An error of the program. `Display` is the whole message.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Run(#[from] training_kit::error::Error),

    #[error("the loss is {loss} at update {update}: training diverged; try another seed")]
    Diverged { update: usize, loss: f64 },
}
