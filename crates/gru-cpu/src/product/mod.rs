//! Matrix products: weights in panels, tiles of sums in registers, and their memory.

#[cfg(all(target_arch = "x86_64", target_pointer_width = "64"))]
mod avx2;
mod blocks;
mod buffer;
mod columns;
mod in_place;
mod microkernel;
mod operands;
mod panels;
mod prefetch;
mod rows;

pub(crate) use self::{
    blocks::{Blocks, WIDTH},
    buffer::Buffer,
    columns::Columns,
    in_place::WeightRows,
    microkernel::Sums,
    operands::{Lhs, Product, ROWS, SumOrder},
    panels::{MOST_VECTORS, Panel, PanelShape, Panels, pack},
    prefetch::{Lines, Prefetch, to_read as prefetch_to_read},
    rows::{Rows, Strided},
};
