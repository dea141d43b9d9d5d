//! Runs each kernel once on a small problem and compares it with the CPU kernels, before a call relies on it.
//!
//! A driver may reject a kernel, or compile it wrongly. Both would otherwise show only when results are read: as a
//! panic, or as wrong numbers. The tested kernels are exactly the kernels of the call: sizes of the batch and the
//! sequence are arguments. So a test compiles nothing more on the device.

mod small;

use self::small::Small;
use super::tensor::client;
use crate::backend::GruCall;
use burn_cubecl::CubeBackend;
use cubecl::server::{IoError, LaunchError, ServerError};
use gru_cube::{Buffers, Plan, PlanError, Schedule, Strategy};
use std::{
    collections::HashMap,
    hash::Hash,
    sync::{LazyLock, Mutex, PoisonError},
};

/// Why no kernel runs a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotRun {
    #[error(transparent)]
    NotAllowed(#[from] PlanError),
    /// The driver rejected the kernel, or its results on a small problem were wrong.
    #[error("self-test of the kernel {schedule}: {reason}")]
    FailedTest { schedule: Schedule, reason: String },
}

/// Why a test failed.
#[derive(Debug, PartialEq)]
enum Failure {
    /// The device does not run the kernel, or its results are wrong.
    OfKernel(String),
    /// The device had no memory left. A later test may pass.
    OutOfMemory(String),
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

/// The verdicts on kernels.
struct Verdicts<K>(Mutex<HashMap<K, Result<(), NotRun>>>);

/// The verdicts of this process.
static VERDICTS: LazyLock<Verdicts<Plan>> = LazyLock::new(|| Verdicts(Mutex::default()));

impl<K: Eq + Hash> Verdicts<K> {
    /// The verdict on a kernel. It is tested if it is new.
    fn of(
        &self,
        key: K,
        schedule: Schedule,
        test: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<(), NotRun> {
        let mut verdicts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(verdict) = verdicts.get(&key) {
            return verdict.clone();
        }
        let failed = |reason| NotRun::FailedTest { schedule, reason };
        let verdict = match test() {
            Ok(()) => Ok(()),
            Err(Failure::OfKernel(reason)) => {
                let error = failed(reason);
                log::warn!("{error}. It is not used, and calls are slower");
                Err(error)
            }
            Err(Failure::OutOfMemory(reason)) => {
                let error = failed(reason);
                log::warn!("{error}. This call is slower, and the next one tests the kernel again");
                return Err(error);
            }
        };
        verdicts.insert(key, verdict.clone());
        verdict
    }
}

/// A planned pass, after its test.
///
/// If an inferred persistent kernel fails, another kernel is planned. Where another program occupies a part of the
/// device, the barriers of a persistent kernel time out and no driver is wrong.
pub(super) fn passing<P>(
    strategy: Strategy,
    planned: impl Fn(Strategy) -> Result<(Schedule, P), NotRun>,
    test: impl Fn(&P) -> Result<(), NotRun>,
) -> Result<P, NotRun> {
    let (schedule, pass) = planned(strategy)?;
    match (test(&pass), schedule, strategy) {
        (Ok(()), _, _) => Ok(pass),
        (Err(NotRun::FailedTest { .. }), Schedule::Persistent(_), Strategy::Inferred) => {
            let (_, pass) = planned(Strategy::Independent)?;
            test(&pass).map(|()| pass)
        }
        (Err(error), _, _) => Err(error),
    }
}

/// The verdict on the kernels of a pass. Kernels are not tested in a browser, which does not wait for results, and while
/// a graph is recorded.
pub(super) fn test(
    call: &GruCall<CubeBackend>,
    buffers: &Buffers,
    plan: Plan,
) -> Result<(), NotRun> {
    let client = client(&call.inputs.sequence.x);
    if cfg!(target_family = "wasm") || client.is_capturing() {
        return Ok(());
    }
    VERDICTS.of(plan, plan.schedule(), || {
        Small::new(call).test(&plan, buffers)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(kind: &str) -> Schedule {
        let text = format!("{kind} rows=1 width=1 n_threads=8 n_per_thread=1 k_splits=1 block_k=8");
        text.parse().unwrap()
    }

    fn failed(schedule: Schedule) -> NotRun {
        let reason = "all wrong".to_owned();
        NotRun::FailedTest { schedule, reason }
    }

    /// Another program may keep a persistent kernel from running. Only a forced schedule is an error.
    #[test]
    fn another_kernel_replaces_a_persistent_one_that_fails() {
        let [persistent, steps] = ["persistent", "steps"].map(schedule);
        let passing = |strategy, test: &dyn Fn(Schedule) -> bool| {
            let planned = |strategy| {
                let schedule = match strategy {
                    Strategy::Independent => steps,
                    _ => persistent,
                };
                Ok((schedule, schedule))
            };
            let test = |&schedule: &Schedule| test(schedule).then_some(()).ok_or(failed(schedule));
            passing(strategy, planned, test)
        };
        let inferred = Strategy::Inferred;
        assert_eq!(passing(inferred, &|_| true), Ok(persistent));
        let not_persistent = |schedule| schedule != persistent;
        assert_eq!(passing(inferred, &not_persistent), Ok(steps));
        assert_eq!(passing(inferred, &|_| false), Err(failed(steps)));
        let forced = Strategy::Forced(persistent);
        assert_eq!(passing(forced, &not_persistent), Err(failed(persistent)));
    }

    #[test]
    fn a_kernel_is_tested_once() {
        let verdicts = Verdicts(Mutex::default());
        let schedule = schedule("steps");
        let of = |key, test: &dyn Fn() -> Result<(), Failure>| verdicts.of(key, schedule, test);
        let tested_before = || unreachable!("tested before");
        let wrong = || Err(Failure::OfKernel("all wrong".to_owned()));
        assert_eq!(of(1, &wrong), Err(failed(schedule)));
        assert_eq!(of(1, &tested_before), Err(failed(schedule)));
        let message = failed(schedule).to_string();
        assert_eq!(
            message,
            "self-test of the kernel steps rows=1 width=1 n_threads=8 n_per_thread=1 k_splits=1 block_k=8: all wrong"
        );
        assert_eq!(of(2, &|| Ok(())), Ok(()));
        assert_eq!(of(2, &tested_before), Ok(()));
        // A full memory may be free later.
        assert!(of(3, &|| Err(Failure::OutOfMemory("full".to_owned()))).is_err());
        assert_eq!(of(3, &|| Ok(())), Ok(()));
    }

    fn out_of_memory() -> ServerError {
        let (size, backtrace) = (8, Default::default());
        IoError::OutOfMemory { size, backtrace }.into()
    }

    fn other() -> ServerError {
        let (reason, backtrace) = ("rejected".to_owned(), Default::default());
        LaunchError::Unknown { reason, backtrace }.into()
    }

    fn unwritten(root: ServerError) -> ServerError {
        ServerError::Unwritten {
            failure: 1,
            claimed: 1,
            chain: vec![],
            root: root.into(),
            backtrace: Default::default(),
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
