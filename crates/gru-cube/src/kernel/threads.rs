//! How the threads of a cube (thread block) share a product: arithmetic on sizes, without kernels. CubeCL calls a thread a
//! unit. Here a unit is a hidden unit.

use cubecl::ir::ElemType;

/// The threads of a cube: `n_threads · k_splits`.
///
/// In a product, thread `u` has n-thread `u % n_threads` and k-split `u / n_threads`. Neighbouring
/// n-threads compute neighbouring columns, so that loads of the weight coalesce. The k-splits of a column
/// sum different ranges of K. After the product, thread `u` owns columns `u, u + threads, …` and computes
/// their gates for every row of the tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Threads {
    /// Rows of the batch in a tile.
    pub(crate) rows: usize,
    /// Rows in one vector. A divisor of `rows`.
    pub(crate) width: usize,
    pub(crate) n_threads: usize,
    pub(crate) k_splits: usize,
    /// Columns of the tile.
    pub(crate) columns: usize,
    /// Matrix units compute the product. The n-threads of a k-split are then several planes.
    pub(crate) matrices: Option<Matrices>,
}

impl Threads {
    pub(crate) fn count(&self) -> usize {
        self.n_threads * self.k_splits
    }

    /// Vectors per column.
    pub(crate) fn vectors(&self) -> usize {
        self.rows / self.width
    }

    /// Columns for which an n-thread accumulates.
    pub(crate) fn n_per_thread(&self) -> usize {
        self.columns.div_ceil(self.n_threads)
    }

    /// Columns that a thread owns.
    pub(crate) fn owned(&self) -> usize {
        self.columns.div_ceil(self.count())
    }

    /// Pairs of row and column that a thread owns after the product of a step, see
    /// [`pair`](super::product::pair).
    pub(crate) fn pairs(&self) -> usize {
        (self.columns * self.rows).div_ceil(self.count())
    }

    /// Partial sums from which a thread computes a pair: one for each k-split, or one for each of the threads
    /// of a pair, which have then reduced the others.
    pub(crate) fn sums_per_pair(&self) -> usize {
        let of_pair = self.count() / (self.rows * self.columns);
        if of_pair > 1 {
            of_pair.min(self.k_splits)
        } else {
            self.k_splits
        }
    }

    /// Whether a thread owns what it has accumulated, because there is only one k-split.
    pub(crate) fn owns_its_sums(&self) -> bool {
        self.k_splits == 1 && self.matrices.is_none()
    }

    /// Vectors of shared memory for the partial sums of `outputs` results.
    pub(crate) fn partial_vectors(&self, outputs: usize) -> usize {
        match self.k_splits {
            1 => 0,
            _ => self.k_splits * outputs * self.vectors() * self.n_per_thread() * self.n_threads,
        }
    }
}

/// A product: `sum[out][j] = Σ_k lhs[k] · rhs[base + k·k_stride + out·out_stride + j·j_stride]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Product {
    /// Terms of the sum.
    pub(crate) k: usize,
    /// Results per column.
    pub(crate) outputs: usize,
    pub(crate) base: usize,
    pub(crate) k_stride: usize,
    pub(crate) out_stride: usize,
    pub(crate) j_stride: usize,
    /// Columns of the whole result. A thread beyond them repeats the last column; its result is not used.
    pub(crate) columns: usize,
    /// Terms whose lhs is in shared memory at the same time. A sequence kernel stores all terms.
    pub(crate) block_k: usize,
    /// The weight stays in the registers of each thread during the whole launch.
    pub(crate) resident: bool,
}

impl Product {
    /// Terms of a block that one k-split sums.
    pub(crate) fn k_per_split(&self, threads: &Threads) -> usize {
        let terms = self.block_k.div_ceil(threads.k_splits);
        terms.next_multiple_of(threads.matrices.map_or(1, |matrices| matrices.k))
    }

    /// Terms of a block in shared memory. Terms from `k` on are zero.
    pub(crate) fn padded_block(&self, threads: &Threads) -> usize {
        self.k_per_split(threads) * threads.k_splits
    }

    /// Blocks of the sum.
    pub(crate) fn blocks(&self, threads: &Threads) -> usize {
        self.k.div_ceil(self.padded_block(threads))
    }

    /// Whether the last block has terms from `k` on.
    pub(crate) fn is_padded(&self, threads: &Threads) -> bool {
        self.padded_block(threads) * self.blocks(threads) != self.k
    }

    /// Registers of the weight per thread.
    pub(crate) fn registers(&self, threads: &Threads) -> usize {
        if self.resident {
            self.blocks(threads) * self.k_per_split(threads) * self.outputs * threads.n_per_thread()
        } else {
            1
        }
    }

    /// Terms per iteration of the loop: enough loads in flight, but a body that compiles quickly and fits
    /// into the instruction cache.
    pub(crate) fn unroll(&self, threads: &Threads) -> usize {
        let terms = self.k_per_split(threads);
        let body = self.outputs * threads.n_per_thread() * threads.vectors();
        [8, 4, 2]
            .into_iter()
            .find(|&u| terms.is_multiple_of(u) && u * body <= MAX_UNROLLED)
            .unwrap_or(1)
    }
}

/// Multiplications in the body of an unrolled loop.
const MAX_UNROLLED: usize = 48;

/// The matrices that the threads of a plane (warp) multiply: `[m,k]·[k,n]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Matrices {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    /// Threads of a plane.
    pub(crate) plane: usize,
    /// Type of the two factors.
    pub(crate) element: ElemType,
    /// Registers hold each value of the weight this many times.
    pub(crate) copies: usize,
}

impl Matrices {
    /// Registers of a thread for the weight of these columns, which `threads` share.
    pub(crate) fn registers(&self, hidden: usize, columns: usize, threads: usize) -> usize {
        (self.element.size() * 3 * hidden * columns).div_ceil(size_of::<u32>() * threads)
    }
}

/// Alignment in bytes that CUDA requires of matrices in memory and of their rows.
pub(crate) const ALIGNMENT: usize = 32;

impl Threads {
    pub(crate) fn matrices(&self) -> Matrices {
        self.matrices.expect("a product by matrix units")
    }

    /// Planes of a k-split, side by side along the columns.
    pub(crate) fn planes(&self) -> usize {
        self.n_threads / self.matrices().plane
    }

    /// Matrices of a plane along the columns.
    pub(crate) fn across(&self) -> usize {
        self.columns / (self.matrices().n * self.planes())
    }

    /// Matrices of a plane along the rows.
    pub(crate) fn down(&self) -> usize {
        self.rows / self.matrices().m
    }

    /// Whether rows and H are multiples of the matrices, and the n-threads of the plane.
    pub(crate) fn fits_matrices(&self, hidden: usize) -> bool {
        let Matrices { m, n, k, plane, .. } = self.matrices();
        self.rows.is_multiple_of(m)
            && self.n_threads.is_multiple_of(plane)
            && hidden.is_multiple_of(n)
            && hidden.is_multiple_of(k)
    }
}

impl Product {
    /// Distance between two rows of the lhs for matrix units. A row is longer than a block: rows of a multiple of 128
    /// bytes would all start in the same bank of shared memory.
    pub(crate) fn lhs_stride(&self, threads: &Threads) -> usize {
        let step = ALIGNMENT / threads.matrices().element.size();
        self.padded_block(threads).next_multiple_of(step) + step
    }

    /// Values of the lhs for matrix units in shared memory.
    pub(crate) fn lhs_len(&self, threads: &Threads) -> usize {
        threads.rows * self.lhs_stride(threads)
    }
}
