//! The kernels.

pub(crate) mod backward;
pub(crate) mod forward;
pub(crate) mod gate;
pub(crate) mod product;
pub(crate) mod shift;
pub(crate) mod step;
pub(crate) mod steps;
