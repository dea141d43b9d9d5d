//! The code of README and the book, as documentation tests. The other tests of this package are test programs.

#[cfg(doctest)]
mod book;
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {}
