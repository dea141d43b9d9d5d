//! Why a test of a kernel failed.

use crate::plan::error::PlanError;
use cubecl::server::{IoError, LaunchError, ServerError};

/// Why a test failed.
#[derive(Debug, PartialEq)]
pub(super) enum Failure {
    /// The device does not run the kernel, or its results are wrong.
    OfKernel(String),
    /// The device had no memory left. A later test may pass.
    OutOfMemory(String),
}

/// A wrong result.
impl From<String> for Failure {
    fn from(reason: String) -> Self {
        Self::OfKernel(reason)
    }
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        Self::OfKernel(error.to_string())
    }
}

impl From<ServerError> for Failure {
    fn from(error: ServerError) -> Self {
        let reason = error.to_string();
        if is_out_of_memory(&error) {
            Self::OutOfMemory(reason)
        } else {
            Self::OfKernel(reason)
        }
    }
}

fn is_out_of_memory(error: &ServerError) -> bool {
    match error {
        ServerError::Io(IoError::OutOfMemory { .. } | IoError::PageSizesExhausted { .. })
        | ServerError::Launch(LaunchError::OutOfMemory { .. }) => true,
        ServerError::Unwritten { root, .. } => is_out_of_memory(root),
        ServerError::Several { errors, .. } => errors.iter().any(is_out_of_memory),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cubecl_environment::backtrace::BackTrace;

    fn out_of_memory() -> ServerError {
        let (size, backtrace) = (8, BackTrace::capture());
        IoError::OutOfMemory { size, backtrace }.into()
    }

    fn other() -> ServerError {
        let (reason, backtrace) = ("rejected".to_owned(), BackTrace::capture());
        LaunchError::Unknown { reason, backtrace }.into()
    }

    fn unwritten(root: ServerError) -> ServerError {
        ServerError::Unwritten {
            failure: 1,
            claimed: 1,
            chain: vec![],
            root: root.into(),
            backtrace: BackTrace::capture(),
        }
    }

    #[test]
    fn a_full_memory_is_no_fault_of_the_kernel() {
        for error in [out_of_memory(), unwritten(out_of_memory())] {
            assert!(matches!(Failure::from(error), Failure::OutOfMemory(_)));
        }
        for error in [other(), unwritten(other()), ServerError::Skipped] {
            assert!(matches!(Failure::from(error), Failure::OfKernel(_)));
        }
    }
}
