//! The grid of a step kernel: hidden units by rows of the batch.

use super::{MAX_GRID_CUBES, recurrence::to_u32};
use crate::{kernel::steps::Steps, plan::limits::Limits};
use cubecl::{client::Client, prelude::*, server::Handle};
use cubecl_common::device::ServiceId;
use cubecl_environment::{future::reader::read_sync, stream::StreamId};
use std::{
    collections::HashMap,
    sync::{LazyLock, Mutex, PoisonError},
};

/// The stream of the last persistent kernel of each device. Two kernels at a time could each occupy places on the device
/// that the other waits for. Kernels of one stream run one after the other.
static LAST: LazyLock<Mutex<HashMap<ServiceId, StreamId>>> = LazyLock::new(Mutex::default);

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
    pub(super) fn new(client: &Client, steps: &Steps, rows: usize, limits: &Limits) -> Self {
        let columns = steps.cubes_per_row();
        let tiles = rows.div_ceil(steps.threads.rows);
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

    pub(super) fn count(&self) -> CubeCount {
        let (columns, groups) = (to_u32("H", self.columns), to_u32("N", self.groups));
        CubeCount::Static(columns, groups, 1)
    }

    /// Runs `launch`. A persistent kernel waits for a stream that had one before.
    pub(super) fn run(&self, client: &Client, launch: impl FnOnce()) {
        let Some(barriers) = &self.barriers else {
            launch();
            return;
        };
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        let before = last.insert(client.service_id(), barriers.stream);
        if let Some(stream) = before.filter(|&stream| stream != barriers.stream) {
            let mut of_stream = client.clone();
            // SAFETY: this client only waits.
            unsafe { of_stream.set_stream(stream) };
            // After a fault of the device, reading the results fails.
            let _ = read_sync(of_stream.sync());
        }
        launch();
    }

    /// The counters as a kernel's argument.
    pub(super) fn barriers<T: From<Option<BufferArg>>>(&self) -> T {
        // SAFETY: the buffer has this number of counters.
        let arg =
            |counters: &Handle| unsafe { BufferArg::from_raw_parts(counters.clone(), self.groups) };
        self.barriers.as_ref().map(arg).into()
    }
}
