//! The float types.

use crate::kernel::{Walks, lanes::Lanes};

/// A float type that the kernels run in: `f32` or `f64`.
pub trait Element: num_traits::Float + Default + Send + Sync + 'static + Lanes + Walks {}
impl Element for f32 {}
impl Element for f64 {}

/// A constant in the element type.
pub(crate) fn real<E: Element>(value: f64) -> E {
    E::from(value).expect("f64 converts to every float type")
}
