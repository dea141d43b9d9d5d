//! Matrix products: weights in panels, tiles of sums in registers, and the memory of both.

mod blocks;
mod buffer;
mod columns;
mod panels;
mod prefetch;
mod rows;
mod tile;

pub(crate) use self::{
    blocks::{Blocks, WIDTH},
    buffer::Buffer,
    columns::Columns,
    panels::{MOST_VECTORS, Panel, Panels, Shape, pack},
    rows::{Rows, Strided},
    tile::{Ahead, Left, Order, Product, ROWS, Sums},
};
