//! The grid of steps: hidden units by rows of the batch.

use super::{Call, MOST_CUBES, to_u32};
use crate::{
    kernel::{meeting::GIVEN_UP, steps::Steps},
    plan::{error::PlanError, limits::Limits},
};
use cubecl::{client::Client, prelude::*, server::Handle};
use std::ops::Range;

/// Most steps of a launch: the counter at which cubes meet counts each of them at every step, and
/// has room for so many steps with the cubes of any device.
const MOST_STEPS: usize = 1 << 20;

/// The grid of a launch, and where its cubes meet.
pub(super) struct Grid {
    /// Cubes along the hidden units.
    columns: usize,
    /// Cubes along the rows of the batch; each of them may take several tiles.
    groups: usize,
    /// A counter for each group.
    met: Option<Handle>,
}

impl Grid {
    pub(super) fn new(client: &Client, steps: &Steps, call: &Call, limits: &Limits) -> Self {
        let columns = steps.cubes_per_row();
        let tiles = call.n.div_ceil(steps.team.rows);
        if !steps.persistent {
            return Self {
                columns,
                groups: tiles.min(MOST_CUBES),
                met: None,
            };
        }
        let groups = tiles.min(limits.together / columns);
        Self {
            columns,
            groups,
            met: Some(client.create_from_slice(u32::as_bytes(&vec![0; groups]))),
        }
    }

    /// Steps cut into launches.
    pub(super) fn parts(
        steps: &Steps,
        all: Range<usize>,
    ) -> impl DoubleEndedIterator<Item = Range<usize>> + use<> {
        let per_launch = if steps.persistent { MOST_STEPS } else { 1 };
        let launches = all.len().div_ceil(per_launch);
        (0..launches).map(move |k| {
            let first = all.start + k * per_launch;
            first..(first + per_launch).min(all.end)
        })
    }

    pub(super) fn count(&self, op: &str) -> CubeCount {
        let (columns, groups) = (to_u32(op, "H", self.columns), to_u32(op, "N", self.groups));
        CubeCount::Static(columns, groups, 1)
    }

    /// Waits for the launch, if its cubes met, and tells whether one gave up.
    pub(super) fn check_met(&self, client: &Client) -> Result<(), PlanError> {
        let Some(met) = &self.met else {
            return Ok(());
        };
        let counters = client.read_one_unchecked(met.clone());
        let counters = &u32::from_bytes(&counters)[..self.groups];
        if counters.iter().all(|&met| met < GIVEN_UP) {
            Ok(())
        } else {
            Err(PlanError::GaveUp)
        }
    }

    /// The counters as a kernel's argument.
    pub(super) fn counters<T: From<Option<BufferArg>>>(&self) -> T {
        // SAFETY: the buffer was made for so many counters.
        let arg = |met: &Handle| unsafe { BufferArg::from_raw_parts(met.clone(), self.groups) };
        self.met.as_ref().map(arg).into()
    }
}
