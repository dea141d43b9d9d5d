//! Gradient checks by finite differences for any function over Burn's tensors.
//!
//! A hand-written backward pass is correct if it agrees with the slope of the forward pass. [`GradCheck`]
//! measures that slope in float64. It compares it with every value of every gradient that Burn's autodiff returns.
//!
//! ```
//! use burn::tensor::{Device, Distribution, Tensor};
//! use burn_gradcheck::GradCheck;
//!
//! let device = Device::flex();
//! let random = |shape| Tensor::<2>::random(shape, Distribution::Uniform(-1.0, 1.0), &device);
//! let report = GradCheck::new()
//!     .input("a", random([3, 4]))
//!     .input("b", random([4, 2]))
//!     .check(|at| at.get::<2>("a").matmul(at.get("b")).tanh());
//! report.assert();
//! println!("{report}"); // one line for each input, with its largest error
//! ```
//!
//! # How a value is checked
//!
//! The output may have any shape. It is summed with fixed random weights of both signs. One backward pass then
//! covers all outputs, and the error of one output cannot cancel the error of another. Call that sum `f`, and
//! call the [step](GradCheck::step) `h`. The difference has fourth order:
//!
//! ```text
//! (8 (f(x + h) − f(x − h)) − (f(x + 2h) − f(x − 2h))) / 12h
//! ```
//!
//! Its error is `h⁴/30` times the fifth derivative, plus the rounding of `f` divided by `h`. A gradient passes
//! if it is within `tolerance · max(1, largest difference of this input)`. The scale is the largest difference,
//! at the first step, because a small value may be a sum of large terms that cancel. If a gradient does not pass, the
//! step is divided by 4, up to three times. A corner within reach of the long step may be out of reach of a short step.
//!
//! # Kinks
//!
//! At a corner of the function there is no gradient to compare with. With the shortest step, the slopes to the
//! left and to the right are computed separately:
//!
//! ```text
//! (3 f(x) − 4 f(x − h) + f(x − 2h)) / 2h        (−3 f(x) + 4 f(x + h) − f(x + 2h)) / 2h
//! ```
//!
//! A gradient that failed but is between these two slopes is reported as a kink, not as a failure. Where the
//! function is smooth, the two slopes agree to `h³`, so a wrong gradient is not between them. NaN is never a kink.
//!
//! # Cost
//!
//! A check runs one forward and one backward pass, two more forward passes, and four for each value of each input that
//! is not constant. A value whose step is divided needs up to 16. All passes run on the device with autodiff.
//!
//! Source: Fornberg, Generation of finite difference formulas on arbitrarily spaced grids,
//! Mathematics of Computation 51 (1988), <https://doi.org/10.1090/S0025-5718-1988-0935077-0>.
#![deny(missing_docs)]

mod check;
mod difference;
mod point;
mod report;

pub use check::GradCheck;
pub use point::Point;
pub use report::{Element, Finding, InputReport, Report};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
