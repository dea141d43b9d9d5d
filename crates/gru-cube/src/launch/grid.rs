//! The grid of a step kernel: hidden units by rows of the batch.

use super::{Call, MAX_GRID_CUBES, to_u32};
use crate::{
    kernel::{grid_barrier::TIMED_OUT, steps::Steps},
    plan::{error::PlanError, limits::Limits},
};
use cubecl::{client::Client, prelude::*, server::Handle};
use std::sync::{Mutex, MutexGuard};

/// Held during the launch of a persistent kernel. Two of them at a time could each occupy places on the
/// device that the other waits for.
static PERSISTENT: Mutex<()> = Mutex::new(());

/// The grid of a launch, and the counters of its barriers.
pub(super) struct Grid {
    /// Cubes along the hidden units.
    columns: usize,
    /// Cubes along the rows of the batch. Each computes one or more tiles.
    groups: usize,
    /// A counter for each group of a persistent kernel.
    barriers: Option<Handle>,
}

impl Grid {
    pub(super) fn new(client: &Client, steps: &Steps, call: &Call, limits: &Limits) -> Self {
        let columns = steps.cubes_per_row();
        let tiles = call.n.div_ceil(steps.threads.rows);
        if !steps.persistent {
            return Self {
                columns,
                groups: tiles.min(MAX_GRID_CUBES),
                barriers: None,
            };
        }
        let groups = tiles.min(limits.coresident_cubes / columns);
        Self {
            columns,
            groups,
            barriers: Some(client.create_from_slice(u32::as_bytes(&vec![0; groups]))),
        }
    }

    pub(super) fn count(&self, op: &str) -> CubeCount {
        let (columns, groups) = (to_u32(op, "H", self.columns), to_u32(op, "N", self.groups));
        CubeCount::Static(columns, groups, 1)
    }

    /// Runs `launch`. For a persistent kernel, excludes others of this process and waits for its end.
    pub(super) fn run(&self, client: &Client, launch: impl FnOnce()) -> Result<(), PlanError> {
        let Some(barriers) = &self.barriers else {
            launch();
            return Ok(());
        };
        let _exclusive: MutexGuard<'_, ()> = PERSISTENT
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        launch();
        let counters = client.read_one_unchecked(barriers.clone());
        let counters = &u32::from_bytes(&counters)[..self.groups];
        if counters.iter().all(|&counter| counter < TIMED_OUT) {
            Ok(())
        } else {
            Err(PlanError::TimedOut)
        }
    }

    /// The counters as a kernel's argument.
    pub(super) fn barriers<T: From<Option<BufferArg>>>(&self) -> T {
        // SAFETY: the buffer has this number of counters.
        let arg =
            |counters: &Handle| unsafe { BufferArg::from_raw_parts(counters.clone(), self.groups) };
        self.barriers.as_ref().map(arg).into()
    }
}
