//! The tile of four rows and three vectors with AVX2, in assembly.
//!
//! Its sums, three vectors of the panel and one element of the left side fill all 16 registers. In the compiler's loop
//! seven of 26 instructions for each k belong to the loop itself. They are free on a core of its own. If another thread
//! runs on the same core, the two share its decoder, and the seven cost a fifth of the time. If the loop is unrolled in
//! Rust, the compiler loads later vectors first and moves sums to memory: the tile takes twice as long.

use super::{Panel, Product, WIDTH, microkernel::every, prefetch};
use crate::simd::Lanes;
use std::arch::{asm, x86_64::__m256};

/// Rows of the tile.
pub(super) const ROWS: usize = 4;
/// Vectors of the tile.
pub(super) const VECTORS: usize = 3;

/// Steps of k in the body of the loop.
const UNROLLED: usize = 4;

/// Where the operands of a k are. Distances are constants of the assembly.
#[derive(Clone, Copy)]
enum Operands<E> {
    /// Rows of contiguous elements, and vectors that follow each other.
    Rows([*const E; ROWS], *const E),
    /// The elements of all rows side by side, and vectors of [`Blocks`](super::Blocks).
    Columns(*const E, [*const E; VECTORS]),
}

impl<E: Lanes> Operands<E> {
    fn of(product: &Product<'_, E>) -> Option<Self> {
        let lanes = size_of::<__m256>() / size_of::<E>();
        let Product { lhs, panel, .. } = product;
        let Panel {
            at, per_k, offsets, ..
        } = *panel;
        let rows = *lhs.rows.first_chunk()?;
        let are_adjacent = lhs.rows == every(rows[0], 1);
        if lhs.per_k == 1 && per_k == VECTORS * lanes && offsets == [0, lanes, 2 * lanes] {
            Some(Self::Rows(rows, at))
        } else if lhs.per_k == ROWS && are_adjacent && per_k == WIDTH {
            Some(Self::Columns(
                rows[0],
                offsets.map(|offset| at.wrapping_add(offset)),
            ))
        } else {
            None
        }
    }

    /// The operands after `count` k of the left side and as many of the panel, and after a gap of the left side.
    #[inline(always)]
    fn skip(self, count: usize, gap: usize) -> Self {
        match self {
            Self::Rows(rows, panel) => {
                let lanes = size_of::<__m256>() / size_of::<E>();
                Self::Rows(
                    rows.map(|row| row.wrapping_add(count + gap)),
                    panel.wrapping_add(count * VECTORS * lanes),
                )
            }
            Self::Columns(first, panel) => Self::Columns(
                first.wrapping_add(count * ROWS),
                panel.map(|vector| vector.wrapping_add(count * WIDTH)),
            ),
        }
    }
}

/// Lines of the next panel, for the second-level cache: one for each body of the loop.
struct Far<E> {
    at: *const E,
    /// Bytes from one to the next.
    step: usize,
}

/// Adds the first k of a product to the sums, and returns how many.
///
/// # Safety
/// As for [`Product::add_to`], on a machine with AVX2. `sums` are the sums of the product, of any alignment.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn add_to<E: Lanes>(
    product: &Product<'_, E>,
    sums: *mut [[__m256; VECTORS]; ROWS],
) -> usize {
    let Some(mut operands) = Operands::of(product) else {
        return 0;
    };
    let (k, gap, prefetch) = (product.k, product.lhs.gap, product.prefetch);
    let mut far = match prefetch.far() {
        (_, 0) => Far {
            at: product.panel.at,
            step: 0,
        },
        (at, lines) => Far {
            at,
            step: (lines * 64).div_ceil((k / UNROLLED).max(1)),
        },
    };
    let mut near = prefetch.near;
    let near_per_block = near.len().div_ceil((k / WIDTH).max(1));
    // SAFETY: the caller promised these sums.
    let mut all = unsafe { sums.read_unaligned() };
    let mut at = 0;
    while at + UNROLLED <= k {
        let end = if gap == 0 && near.is_empty() {
            k
        } else {
            k.min(at + WIDTH)
        };
        let (now, later) = near.split_at(near_per_block.min(near.len()));
        now.iter().for_each(|&line| prefetch::to_write(line));
        near = later;
        let count = (end - at) / UNROLLED;
        // SAFETY: the caller promised `k` elements of each row and `k` rows of the panel.
        unsafe { add(&mut all, operands, &mut far, count) };
        at += count * UNROLLED;
        operands = operands.skip(count * UNROLLED, gap);
        if let Operands::Rows(rows, _) = operands
            && gap > 0
        {
            // The block after the next one. It is on another page, where the hardware does not prefetch.
            for row in rows {
                prefetch::to_read(row.wrapping_add(gap + WIDTH));
            }
        }
    }
    // SAFETY: as above.
    unsafe { sums.write_unaligned(all) };
    at
}

/// The lines of one k: three vectors, then an element of each row.
macro_rules! step {
    ($type:literal, [$b0:expr, $b1:expr, $b2:expr], [$a0:expr, $a1:expr, $a2:expr, $a3:expr]) => {
        concat!(
            "vmovups {b0}, [", $b0, "]\n",
            "vmovups {b1}, [", $b1, "]\n",
            "vmovups {b2}, [", $b2, "]\n",
            step!(@row $type, $a0, "{c00}", "{c01}", "{c02}"),
            step!(@row $type, $a1, "{c10}", "{c11}", "{c12}"),
            step!(@row $type, $a2, "{c20}", "{c21}", "{c22}"),
            step!(@row $type, $a3, "{c30}", "{c31}", "{c32}"),
        )
    };
    (@row $type:literal, $a:expr, $c0:literal, $c1:literal, $c2:literal) => {
        concat!(
            "vbroadcasts", $type, " {a}, [", $a, "]\n",
            "vfmadd231p", $type, " ", $c0, ", {a}, {b0}\n",
            "vfmadd231p", $type, " ", $c1, ", {a}, {b1}\n",
            "vfmadd231p", $type, " ", $c2, ", {a}, {b2}\n",
        )
    };
}

/// Step `$u` of [`Operands::Rows`]. A row of the panel has 96 bytes, and an element `size`.
macro_rules! rows {
    ($type:literal, $u:literal) => {
        step!(
            $type,
            [
                concat!("{panel} + 96*", $u),
                concat!("{panel} + 96*", $u, " + 32"),
                concat!("{panel} + 96*", $u, " + 64")
            ],
            [
                concat!("{r0} + {k} + {size}*", $u),
                concat!("{r1} + {k} + {size}*", $u),
                concat!("{r2} + {k} + {size}*", $u),
                concat!("{r3} + {k} + {size}*", $u)
            ]
        )
    };
}

/// Step `$u` of [`Operands::Columns`]. A k has four elements of the left side, and blocks are 16 elements wide.
macro_rules! columns {
    ($type:literal, $u:literal) => {
        step!(
            $type,
            [
                concat!("{v0} + {k} + {size}*16*", $u),
                concat!("{v1} + {k} + {size}*16*", $u),
                concat!("{v2} + {k} + {size}*16*", $u)
            ],
            [
                concat!("{r} + {size}*4*", $u),
                concat!("{r} + {size}*4*", $u, " + {size}"),
                concat!("{r} + {size}*4*", $u, " + {size}*2"),
                concat!("{r} + {size}*4*", $u, " + {size}*3")
            ]
        )
    };
}

/// Repeats some lines `$count` times.
macro_rules! repeat {
    ($sums:ident, $count:ident, [$($line:expr),*], $($operand:tt)*) => {{
        let [[c00, c01, c02], [c10, c11, c12], [c20, c21, c22], [c30, c31, c32]] = $sums;
        asm!(
            "2:",
            $($line,)*
            "dec {count}",
            "jnz 2b",
            $($operand)*
            count = inout(reg) $count => _,
            c00 = inout(ymm_reg) *c00, c01 = inout(ymm_reg) *c01, c02 = inout(ymm_reg) *c02,
            c10 = inout(ymm_reg) *c10, c11 = inout(ymm_reg) *c11, c12 = inout(ymm_reg) *c12,
            c20 = inout(ymm_reg) *c20, c21 = inout(ymm_reg) *c21, c22 = inout(ymm_reg) *c22,
            c30 = inout(ymm_reg) *c30, c31 = inout(ymm_reg) *c31, c32 = inout(ymm_reg) *c32,
            a = out(ymm_reg) _, b0 = out(ymm_reg) _, b1 = out(ymm_reg) _, b2 = out(ymm_reg) _,
            options(nostack, readonly)
        )
    }};
}

/// The loops of an element type of `$size` bytes.
macro_rules! loops {
    ($type:literal, $size:literal, $sums:ident, $operands:ident, $far:ident, $count:ident) => {
        match $operands {
            Operands::Rows([r0, r1, r2, r3], panel) => repeat!(
                $sums,
                $count,
                [
                    rows!($type, 0),
                    rows!($type, 1),
                    rows!($type, 2),
                    rows!($type, 3),
                    "prefetcht1 [{far}]",
                    "add {far}, {far_step}",
                    "add {panel}, 96*4",
                    "add {k}, {size}*4"
                ],
                r0 = in(reg) r0,
                r1 = in(reg) r1,
                r2 = in(reg) r2,
                r3 = in(reg) r3,
                panel = inout(reg) panel => _,
                k = inout(reg) 0_usize => _,
                far = inout(reg) $far.at,
                far_step = in(reg) $far.step,
                size = const $size,
            ),
            Operands::Columns(first, [v0, v1, v2]) => repeat!(
                $sums,
                $count,
                [
                    columns!($type, 0),
                    columns!($type, 1),
                    columns!($type, 2),
                    columns!($type, 3),
                    "add {r}, {size}*16",
                    "add {k}, {size}*64"
                ],
                v0 = in(reg) v0,
                v1 = in(reg) v1,
                v2 = in(reg) v2,
                r = inout(reg) first => _,
                k = inout(reg) 0_usize => _,
                size = const $size,
            ),
        }
    };
}

/// Adds `UNROLLED·count` k. `count` is positive.
///
/// # Safety
/// The operands of so many k can be read.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn add<E>(
    sums: &mut [[__m256; VECTORS]; ROWS],
    operands: Operands<E>,
    far: &mut Far<E>,
    count: usize,
) {
    // SAFETY: the assembly reads these operands and writes only registers that it declares. Any address can be
    // prefetched.
    unsafe {
        if size_of::<E>() == 4 {
            loops!("s", 4, sums, operands, far, count)
        } else {
            loops!("d", 8, sums, operands, far, count)
        }
    }
}
