//! Tiles of four rows with AVX2, in assembly.
//!
//! With three vectors, a tile fills all 16 registers:
//!
//! | registers | content |
//! |---|---|
//! | `ymm0` to `ymm2`, `ymm3` to `ymm5`, `ymm6` to `ymm8`, `ymm9` to `ymm11` | the sums of rows 0, 1, 2 and 3 |
//! | `ymm12` to `ymm14` | the vectors of the panel |
//! | `ymm15` | an element of the left side |
//!
//! With two vectors, the last register of each group is not used.
//!
//! In the compiler's loop seven of 26 instructions for each k belong to the loop itself. They are free on a core of its
//! own. If another thread runs on the same core, the two share its decoder, and the seven cost a fifth of the time. If
//! the loop is unrolled in Rust, the compiler loads later vectors first and moves sums to memory: the tile takes twice
//! as long.

use super::{Panel, Product, WIDTH, operands::every, prefetch};
use crate::simd::Lanes;
use core::arch::{asm, x86_64::__m256};

/// Rows of a tile.
pub(super) const ROWS: usize = 4;
/// Vectors of a row of sums, and of a k of a panel. A tile uses some of them.
const VECTORS: usize = 3;

/// Bytes of a row of a dense panel.
const PANEL_BYTES: usize = VECTORS * size_of::<__m256>();

/// Steps of k in the body of a loop, except for blocks, whose body is a block.
const UNROLLED: usize = 4;

/// Steps of k between two groups of lines that are prefetched into the first-level cache.
const NEAR_EVERY: usize = 64;

/// Where the operands of a k are. Distances are constants of the assembly.
#[derive(Clone, Copy)]
enum Operands<E> {
    /// Rows of contiguous elements, and vectors that follow each other.
    Rows([*const E; ROWS], *const E),
    /// Rows of [`Blocks`](super::Blocks) and the elements from a block to the next one, and vectors that follow each
    /// other.
    Blocks(*const E, usize, *const E),
    /// The elements of all rows side by side, and vectors of [`Blocks`](super::Blocks).
    Columns(*const E, [*const E; VECTORS]),
}

impl<E: Lanes> Operands<E> {
    /// The operands of a tile of `vectors` vectors, if there is assembly for them.
    #[inline(always)]
    fn of(product: &Product<'_, E>, vectors: usize) -> Option<Self> {
        let lanes = size_of::<__m256>() / size_of::<E>();
        let Product { lhs, panel, .. } = product;
        let Panel {
            at, per_k, offsets, ..
        } = *panel;
        let is_dense = per_k == VECTORS * lanes && offsets == [0, lanes, 2 * lanes];
        let first = lhs.rows[0];
        if lhs.gap > 0 {
            let are_blocks = lhs.per_k == 1 && lhs.rows == every(first, WIDTH);
            // All blocks are one loop.
            let is_whole = product.prefetch.near.is_empty();
            return (are_blocks && is_dense && is_whole).then_some(Self::Blocks(
                first,
                WIDTH + lhs.gap,
                at,
            ));
        }
        if vectors < VECTORS {
            None
        } else if lhs.per_k == 1 && is_dense {
            Some(Self::Rows(*lhs.rows.first_chunk()?, at))
        } else if lhs.per_k == ROWS && per_k == WIDTH && lhs.rows == every(first, 1) {
            let vectors = offsets.map(|offset| at.wrapping_add(offset));
            Some(Self::Columns(first, vectors))
        } else {
            None
        }
    }

    /// Steps of k in the body of the loop.
    #[inline(always)]
    fn body(&self) -> usize {
        match self {
            Self::Blocks(..) => WIDTH,
            Self::Rows(..) | Self::Columns(..) => UNROLLED,
        }
    }

    /// The operands after `count` k.
    #[inline(always)]
    fn skip(self, count: usize) -> Self {
        match self {
            Self::Rows(rows, panel) => {
                let lanes = size_of::<__m256>() / size_of::<E>();
                Self::Rows(
                    rows.map(|row| row.wrapping_add(count)),
                    panel.wrapping_add(count * VECTORS * lanes),
                )
            }
            Self::Blocks(..) => self, // Nothing follows their loop.
            Self::Columns(first, panel) => Self::Columns(
                first.wrapping_add(count * ROWS),
                panel.map(|vector| vector.wrapping_add(count * WIDTH)),
            ),
        }
    }
}

/// Lines of the next panel, for the second-level cache: one for each [`UNROLLED`] k.
struct Far<E> {
    at: *const E,
    /// Bytes from one to the next.
    step: usize,
}

/// Adds the first k of a product of `NV` vectors to the sums, and returns how many.
///
/// # Safety
/// As for [`Product::add_to`], on a machine with AVX2. `sums` are the sums of the product, of any alignment.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn add_to<E: Lanes, const NV: usize>(
    product: &Product<'_, E>,
    sums: *mut [[__m256; VECTORS]; ROWS],
) -> usize {
    let Some(mut operands) = Operands::of(product, NV) else {
        return 0;
    };
    let (k, prefetch, body) = (product.k, product.prefetch, operands.body());
    if k < body {
        return 0;
    }
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
    let near_at_once = near.len().div_ceil((k / NEAR_EVERY).max(1));
    // SAFETY: the caller promised these sums.
    let mut all = unsafe { sums.read_unaligned() };
    let mut at = 0;
    while at + body <= k {
        let end = if near.is_empty() {
            k
        } else {
            k.min(at + NEAR_EVERY)
        };
        let (now, later) = near.split_at(near_at_once.min(near.len()));
        now.iter().for_each(|&line| prefetch::to_write(line));
        near = later;
        let count = (end - at) / body;
        // SAFETY: the caller promised `k` elements of each row and `k` rows of the panel.
        unsafe { add::<E, NV>(&mut all, operands, &mut far, count) };
        at += count * body;
        operands = operands.skip(count * body);
    }
    // SAFETY: as above.
    unsafe { sums.write_unaligned(all) };
    at
}

/// Four steps of k, for three vectors or two. Each loads vectors of the panel from the addresses `$b`, and then for each row
/// an element from `$a`, which it multiplies by these vectors. Addresses contain the number of the step as `\u`.
macro_rules! steps {
    (3, $type:literal, [$b0:literal, $b1:literal, $b2:literal],
        [$a0:literal, $a1:literal, $a2:literal, $a3:literal]) => {
        steps!(@ $type, ["ymm12": $b0, "ymm13": $b1, "ymm14": $b2], [
            $a0: "ymm0" + "ymm12", "ymm1" + "ymm13", "ymm2" + "ymm14";
            $a1: "ymm3" + "ymm12", "ymm4" + "ymm13", "ymm5" + "ymm14";
            $a2: "ymm6" + "ymm12", "ymm7" + "ymm13", "ymm8" + "ymm14";
            $a3: "ymm9" + "ymm12", "ymm10" + "ymm13", "ymm11" + "ymm14";
        ])
    };
    (2, $type:literal, [$b0:literal, $b1:literal, $b2:literal],
        [$a0:literal, $a1:literal, $a2:literal, $a3:literal]) => {
        steps!(@ $type, ["ymm12": $b0, "ymm13": $b1], [
            $a0: "ymm0" + "ymm12", "ymm1" + "ymm13";
            $a1: "ymm3" + "ymm12", "ymm4" + "ymm13";
            $a2: "ymm6" + "ymm12", "ymm7" + "ymm13";
            $a3: "ymm9" + "ymm12", "ymm10" + "ymm13";
        ])
    };
    (@ $type:literal, [$($vector:literal: $at:literal),*],
        [$($element:literal: $($sum:literal + $by:literal),*;)*]) => {
        concat!(
            ".irp u, 0, 1, 2, 3\n",
            $("vmovups ", $vector, ", [", $at, "]\n",)*
            $(
                "vbroadcasts", $type, " ymm15, [", $element, "]\n",
                $("vfmadd231p", $type, " ", $sum, ", ymm15, ", $by, "\n",)*
            )*
            ".endr\n",
        )
    };
}

/// Repeats some lines `$count` times.
macro_rules! repeat {
    ($sums:ident, $count:ident, [$($line:expr),*], $($operand:tt)*) => {{
        let [[c00, c01, c02], [c10, c11, c12], [c20, c21, c22], [c30, c31, c32]] = &mut $sums;
        asm!(
            "2:",
            $($line,)*
            "dec {count}",
            "jnz 2b",
            count = inout(reg) $count => _,
            $($operand)*
            inout("ymm0") *c00, inout("ymm1") *c01, inout("ymm2") *c02,
            inout("ymm3") *c10, inout("ymm4") *c11, inout("ymm5") *c12,
            inout("ymm6") *c20, inout("ymm7") *c21, inout("ymm8") *c22,
            inout("ymm9") *c30, inout("ymm10") *c31, inout("ymm11") *c32,
            out("ymm12") _, out("ymm13") _, out("ymm14") _, out("ymm15") _,
            options(nostack, readonly)
        )
    }};
}

/// The loop over blocks. It prefetches the block after the next one, which is on another page, where the hardware does
/// not prefetch, and four lines of the next panel. A row of a block has 16 elements.
macro_rules! repeat_blocks {
    ($vectors:tt, $type:literal, $size:literal, $sums:ident, $far:ident, $count:ident,
        $row:ident, $per_block:ident, $panel:ident) => {
        repeat!(
            $sums,
            $count,
            [
                "lea {later}, [{row} + 2*{per_block}]",
                ".irp v, 0, 4, 8, 12",
                steps!(
                    $vectors,
                    $type,
                    [
                        "{panel} + {panel_bytes}*(\\v + \\u)",
                        "{panel} + {panel_bytes}*(\\v + \\u) + 32",
                        "{panel} + {panel_bytes}*(\\v + \\u) + 64"
                    ],
                    [
                        "{row} + {size}*(\\v + \\u)",
                        "{row} + {size}*(\\v + \\u + 16)",
                        "{row} + {size}*(\\v + \\u + 32)",
                        "{row} + {size}*(\\v + \\u + 48)"
                    ]
                ),
                "prefetcht0 [{later} + {size}*4*\\v]",
                "prefetcht1 [{far}]",
                "add {far}, {far_step}",
                ".endr",
                "add {row}, {per_block}",
                "add {panel}, {panel_bytes}*16"
            ],
            row = inout(reg) $row => _,
            per_block = in(reg) $per_block * $size,
            panel = inout(reg) $panel => _,
            panel_bytes = const PANEL_BYTES,
            later = out(reg) _,
            far = inout(reg) $far.at,
            far_step = in(reg) $far.step,
            size = const $size,
        )
    };
}

/// The loops of an element type of `$size` bytes.
macro_rules! loops {
    ($type:literal, $size:literal, $vectors:ident, $sums:ident, $operands:ident, $far:ident, $count:ident) => {
        match $operands {
            Operands::Rows([r0, r1, r2, r3], panel) => repeat!(
                $sums,
                $count,
                [
                    steps!(
                        3,
                        $type,
                        [
                            "{panel} + {panel_bytes}*\\u",
                            "{panel} + {panel_bytes}*\\u + 32",
                            "{panel} + {panel_bytes}*\\u + 64"
                        ],
                        [
                            "{r0} + {k} + {size}*\\u",
                            "{r1} + {k} + {size}*\\u",
                            "{r2} + {k} + {size}*\\u",
                            "{r3} + {k} + {size}*\\u"
                        ]
                    ),
                    "prefetcht1 [{far}]",
                    "add {far}, {far_step}",
                    "add {panel}, {panel_bytes}*4",
                    "add {k}, {size}*4"
                ],
                r0 = in(reg) r0,
                r1 = in(reg) r1,
                r2 = in(reg) r2,
                r3 = in(reg) r3,
                panel = inout(reg) panel => _,
                panel_bytes = const PANEL_BYTES,
                k = inout(reg) 0_usize => _,
                far = inout(reg) $far.at,
                far_step = in(reg) $far.step,
                size = const $size,
            ),
            Operands::Blocks(row, per_block, panel) if $vectors == 3 => {
                repeat_blocks!(3, $type, $size, $sums, $far, $count, row, per_block, panel)
            }
            Operands::Blocks(row, per_block, panel) => {
                repeat_blocks!(2, $type, $size, $sums, $far, $count, row, per_block, panel)
            }
            Operands::Columns(first, [v0, v1, v2]) => repeat!(
                $sums,
                $count,
                [
                    // A k has four elements of the left side, and blocks are 16 elements wide.
                    steps!(
                        3,
                        $type,
                        [
                            "{v0} + {k} + {size}*16*\\u",
                            "{v1} + {k} + {size}*16*\\u",
                            "{v2} + {k} + {size}*16*\\u"
                        ],
                        [
                            "{r} + {size}*4*\\u",
                            "{r} + {size}*4*\\u + {size}",
                            "{r} + {size}*4*\\u + {size}*2",
                            "{r} + {size}*4*\\u + {size}*3"
                        ]
                    ),
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

/// Adds some loop bodies of a product of `NV` vectors.
///
/// # Safety
/// The operands of so many k can be read. `count` is positive.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn add<E, const NV: usize>(
    sums: &mut [[__m256; VECTORS]; ROWS],
    operands: Operands<E>,
    far: &mut Far<E>,
    count: usize,
) {
    let mut all = *sums;
    // SAFETY: the assembly reads these operands and writes only registers that it declares. Any address can be
    // prefetched.
    unsafe {
        if size_of::<E>() == 4 {
            loops!("s", 4, NV, all, operands, far, count)
        } else {
            loops!("d", 8, NV, all, operands, far, count)
        }
    }
    *sums = all;
}
