//! The tests of this package are its test programs.
