//! The tiles of a cut: their teams, and whether a device allows them.

use super::{
    cut::{Cut, StepTile, WalkTile},
    error::PlanError,
    limits::Limits,
};
use crate::kernel::team::{Matrices, Team};

impl WalkTile {
    pub(crate) fn team(&self, columns: usize) -> Team {
        Team {
            rows: self.rows,
            width: self.width,
            lanes: self.lanes,
            splits: self.splits,
            columns,
            matrices: None,
        }
    }

    pub(crate) fn check(&self, limits: &Limits) -> Result<(), PlanError> {
        let well_formed = well_formed(self.rows, self.width, [self.lanes, self.splits]);
        if !well_formed {
            return Err(PlanError::Malformed {
                cut: Cut::Walk(*self),
            });
        }
        limits.check_units(self.lanes * self.splits)
    }
}

impl StepTile {
    /// With the device's matrices, if they make the product.
    pub(crate) fn team(&self, matrices: Option<Matrices>) -> Team {
        Team {
            rows: self.rows,
            width: self.width,
            lanes: self.lanes,
            splits: self.splits,
            columns: self.lanes * self.per_lane,
            matrices,
        }
    }

    pub(crate) fn check(&self, cut: Cut, limits: &Limits) -> Result<(), PlanError> {
        let sizes = [self.lanes, self.splits, self.per_lane, self.stage];
        if !well_formed(self.rows, self.width, sizes) {
            return Err(PlanError::Malformed { cut });
        }
        limits.check_units(self.lanes * self.splits)
    }
}

/// Largest size of a cut: far beyond any device, and so small that no product of sizes overflows.
const MOST: usize = 1 << 12;

fn well_formed<const K: usize>(rows: usize, width: usize, sizes: [usize; K]) -> bool {
    let fits = |size: usize| (1..=MOST).contains(&size);
    fits(rows)
        && matches!(width, 1..=4)
        && rows.is_multiple_of(width)
        && sizes.into_iter().all(fits)
}
