//! Every number that decides which cut is inferred, with its reason.

use crate::plan::cut::{Cut, StepTile, WalkTile};
#[allow(unused_imports)] // What a row of the table may need.
use words::{matrices, row, tile, walk};

/// Weight registers per unit beyond which a weight does not stay in registers: 512 units of 96
/// fill three quarters of an NVIDIA multiprocessor's file of 65 536, and a driver compiles that
/// many terms in half a second.
pub(crate) const RESIDENT_REGISTERS: usize = 96;

/// The same for steps in one launch, where their cubes run together: the sums of four rows, the next left side
/// and what the gates read take more registers than a walk's. At 96, ptxas put up to 408 bytes of a unit on its
/// stack for sm_90, at 64 up to 16.
pub(crate) const PERSISTENT_REGISTERS: usize = 64;

/// H up to which a walk that reads the weight anew at every step takes less time than a launch:
/// 12·H² bytes from a cache of about 64 bytes per clock are 12 000 clocks at 256.
pub(crate) const WALK_HIDDEN: usize = 256;

/// Units of a cube beyond which a barrier costs more than the units bring.
pub(crate) const WALK_UNITS: usize = 512;

/// Columns per lane where a device is a CPU: a value of the left side is loaded once for all of
/// them. Measured on lavapipe, with [`CPU_ROWS`].
pub(crate) const CPU_COLUMNS: usize = 4;

/// Rows per cube from which on a CPU reads the weight anew at every step: a value of the weight
/// is loaded once for all of them.
pub(crate) const CPU_ROWS: usize = 8;

/// The fastest cuts for some sizes on a device, as `tools/gpu-kit` prints them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    /// A part of the device's name.
    pub(crate) device: &'static str,
    /// For this N, or the next larger one of [`BATCHES`].
    pub(crate) n: usize,
    /// For this H, or down to half of it.
    pub(crate) hidden: usize,
    pub(crate) forward: Cut,
    pub(crate) backward: Cut,
}

/// The N at which is measured: one row, a small batch, a large one. More rows are as the last.
pub(crate) const BATCHES: [usize; 3] = [1, 16, 64];

/// Rows of this table beat the inferred cut on their device by a tenth or more; where none does, the
/// inference above is good enough. Each device with what ran there, and when.
const MEASURED: &[Measured] = &[];

/// The words of the table.
#[allow(dead_code)] // It has no row yet.
mod words {
    use super::{Cut, Measured, StepTile, WalkTile};

    pub(super) const fn row(
        device: &'static str,
        n: usize,
        hidden: usize,
        forward: Cut,
        backward: Cut,
    ) -> Measured {
        Measured {
            device,
            n,
            hidden,
            forward,
            backward,
        }
    }

    pub(super) const fn walk(rows: usize, lanes: usize, splits: usize, resident: bool) -> Cut {
        Cut::Walk(WalkTile {
            rows,
            width: width(rows),
            lanes,
            splits,
            resident,
        })
    }

    /// For `Cut::Steps` and `Cut::Persistent`; by matrix units it is `matrices(tile(…))`.
    pub(super) const fn tile(
        rows: usize,
        lanes: usize,
        per_lane: usize,
        splits: usize,
        stage: usize,
    ) -> StepTile {
        StepTile {
            rows,
            width: width(rows),
            lanes,
            per_lane,
            splits,
            stage,
            matrix: false,
        }
    }

    pub(super) const fn matrices(tile: StepTile) -> StepTile {
        StepTile {
            matrix: true,
            ..tile
        }
    }

    const fn width(rows: usize) -> usize {
        if rows < 4 { rows } else { 4 }
    }
}

/// What was measured for these sizes on the device of this name.
pub(crate) fn measured(device: &str, n: usize, hidden: usize) -> Option<&'static Measured> {
    lookup(MEASURED, device, n, hidden)
}

fn lookup<'a>(
    table: &'a [Measured],
    device: &str,
    n: usize,
    hidden: usize,
) -> Option<&'a Measured> {
    let [.., most] = BATCHES;
    let n = BATCHES
        .into_iter()
        .find(|&batch| n <= batch)
        .unwrap_or(most);
    let hidden = hidden.checked_next_power_of_two()?;
    table
        .iter()
        .find(|row| device.contains(row.device) && (row.n, row.hidden) == (n, hidden))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn by_rows(device: &'static str, n: usize, hidden: usize, rows: usize) -> Measured {
        let cut = walk(rows, 32, 1, false);
        row(device, n, hidden, cut, cut)
    }

    #[test]
    fn sizes_are_rounded_up_to_those_of_a_row() {
        let table = [
            by_rows("Card", 1, 256, 1),
            by_rows("Card", 64, 256, 2),
            by_rows("Other", 64, 256, 4),
        ];
        let rows = |device, n, hidden| {
            let found = lookup(&table, device, n, hidden)?;
            match found.forward {
                Cut::Walk(tile) => Some(tile.rows),
                _ => None,
            }
        };
        assert_eq!(rows("A Card 9", 1, 256), Some(1));
        assert_eq!(rows("A Card 9", 2, 256), None, "a small batch");
        assert_eq!(rows("A Card 9", 17, 129), Some(2));
        assert_eq!(rows("A Card 9", 1000, 256), Some(2));
        assert_eq!(rows("A Card 9", 64, 128), None);
        assert_eq!(rows("A Card 9", 64, 257), None);
        assert_eq!(rows("Other", 64, 200), Some(4));
        assert_eq!(rows("another", 64, 256), None);
        assert_eq!(rows("Other", 64, usize::MAX), None);
    }
}
