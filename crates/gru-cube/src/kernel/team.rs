//! How a cube's units share a product, as plain arithmetic.

use cubecl::ir::ElemType;

/// How a cube's units share its work.
///
/// `units = lanes · splits`. In the product, unit `u` has lane `u % lanes` and split
/// `u / lanes`: lanes stand for neighbouring columns of the result, so that their loads of the
/// weight coalesce, and splits for parts of the sum. After it, unit `u` owns columns
/// `u, u + units, …` and finishes them for every row of the tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Team {
    /// Rows of the batch that a cube walks.
    pub(crate) rows: usize,
    /// Rows in one vector; divides `rows`.
    pub(crate) width: usize,
    pub(crate) lanes: usize,
    pub(crate) splits: usize,
    /// Columns of the cube.
    pub(crate) columns: usize,
    /// The product is made by matrix units. The lanes of a split are then planes side by side.
    pub(crate) matrices: Option<Matrices>,
}

impl Team {
    pub(crate) fn units(&self) -> usize {
        self.lanes * self.splits
    }

    /// Vectors per column.
    pub(crate) fn vectors(&self) -> usize {
        self.rows / self.width
    }

    /// Columns a lane accumulates.
    pub(crate) fn per_lane(&self) -> usize {
        self.columns.div_ceil(self.lanes)
    }

    /// Columns a unit owns.
    pub(crate) fn owned(&self) -> usize {
        self.columns.div_ceil(self.units())
    }

    /// Pairs of row and column that a unit finishes after the product of a step; see [`pair`](super::product::pair).
    pub(crate) fn pairs(&self) -> usize {
        (self.columns * self.rows).div_ceil(self.units())
    }

    /// Sums of splits from which a unit makes a pair: those of all splits, or as many as there are units for
    /// each pair, which have added up the others.
    pub(crate) fn sums_per_pair(&self) -> usize {
        let units = self.units() / (self.rows * self.columns);
        if units > 1 {
            units.min(self.splits)
        } else {
            self.splits
        }
    }

    /// Whether a unit finishes what it has summed: there is no other that has a part of it.
    pub(crate) fn finishes_its_sums(&self) -> bool {
        self.splits == 1 && self.matrices.is_none()
    }

    /// Vectors of shared memory in which splits hand on their partial sums of `outs` results.
    pub(crate) fn partial_vectors(&self, outs: usize) -> usize {
        match self.splits {
            1 => 0,
            _ => self.splits * outs * self.vectors() * self.per_lane() * self.lanes,
        }
    }
}

/// Which product: `sum[out][j] = Σ_k left[k] · right[base + k·per_k + out·per_out + j·per_j]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Product {
    /// Terms of the sum.
    pub(crate) depth: usize,
    /// Results per column.
    pub(crate) outs: usize,
    pub(crate) base: usize,
    pub(crate) per_k: usize,
    pub(crate) per_out: usize,
    pub(crate) per_j: usize,
    /// Columns of the whole result: a unit beyond them repeats the last one, and nobody reads it.
    pub(crate) columns: usize,
    /// Terms whose left sides are in shared memory at a time; walks hold all of them.
    pub(crate) stage: usize,
    /// The weight stays in each unit's registers for the whole launch.
    pub(crate) resident: bool,
}

impl Product {
    /// Terms of one split's part of a stage.
    pub(crate) fn chunk(&self, team: &Team) -> usize {
        let terms = self.stage.div_ceil(team.splits);
        terms.next_multiple_of(team.matrices.map_or(1, |matrices| matrices.k))
    }

    /// Rows of the left side in shared memory: those past `depth` are zero.
    pub(crate) fn padded_stage(&self, team: &Team) -> usize {
        self.chunk(team) * team.splits
    }

    /// Stages of the sum.
    pub(crate) fn stages(&self, team: &Team) -> usize {
        self.depth.div_ceil(self.padded_stage(team))
    }

    /// Whether the last stage has terms past `depth`.
    pub(crate) fn is_padded(&self, team: &Team) -> bool {
        self.padded_stage(team) * self.stages(team) != self.depth
    }

    /// Registers of the weight per unit.
    pub(crate) fn registers(&self, team: &Team) -> usize {
        if self.resident {
            self.stages(team) * self.chunk(team) * self.outs * team.per_lane()
        } else {
            1
        }
    }

    /// Terms per turn of the loop: enough loads in flight, but a body that compiles quickly and
    /// stays in the instruction cache.
    pub(crate) fn unroll(&self, team: &Team) -> usize {
        let chunk = self.chunk(team);
        let body = self.outs * team.per_lane() * team.vectors();
        [8, 4, 2]
            .into_iter()
            .find(|&u| chunk.is_multiple_of(u) && u * body <= UNROLLED)
            .unwrap_or(1)
    }
}

/// Multiplications in the body of an unrolled loop.
const UNROLLED: usize = 48;

/// The matrices that the units of a plane multiply together: `[m,k]·[k,n]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Matrices {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    /// Units of a plane.
    pub(crate) plane: usize,
    /// Type of the two factors.
    pub(crate) element: ElemType,
}

/// Bytes to which CUDA requires matrices in memory to be aligned, and to which the rows of one are.
pub(crate) const ALIGNMENT: usize = 32;

impl Team {
    pub(crate) fn matrices(&self) -> Matrices {
        self.matrices.expect("a team of planes")
    }

    /// Planes of a split, side by side along the columns.
    pub(crate) fn planes(&self) -> usize {
        self.lanes / self.matrices().plane
    }

    /// Matrices of a plane along the columns.
    pub(crate) fn across(&self) -> usize {
        self.columns / (self.matrices().n * self.planes())
    }

    /// Matrices of a plane along the rows.
    pub(crate) fn down(&self) -> usize {
        self.rows / self.matrices().m
    }

    /// Whether rows, columns and H are of whole matrices, and the lanes of whole planes.
    pub(crate) fn is_of_matrices(&self, hidden: usize) -> bool {
        let Matrices { m, n, k, plane, .. } = self.matrices();
        self.rows.is_multiple_of(m)
            && self.lanes.is_multiple_of(plane)
            && self.columns.is_multiple_of(n * self.planes())
            && hidden.is_multiple_of(n)
            && hidden.is_multiple_of(k)
    }
}

impl Product {
    /// Numbers from one row of the left side to the next. A row is longer than a stage, because rows of 128 bytes or a
    /// multiple of it would all begin in one bank of shared memory.
    pub(crate) fn left_stride(&self, team: &Team) -> usize {
        let unit = ALIGNMENT / team.matrices().element.size();
        self.padded_stage(team).next_multiple_of(unit) + unit
    }

    /// Numbers of the left side in shared memory.
    pub(crate) fn left_numbers(&self, team: &Team) -> usize {
        team.rows * self.left_stride(team)
    }
}
