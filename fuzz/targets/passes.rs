//! Forward and backward with kept and with recomputed gates, on every instruction set, with sizes that
//! match their slices. No pass reads or writes outside its slices, every result is written, and moderate
//! inputs give the oracle's results.
#![cfg_attr(fuzzing, no_main)]

use arbitrary::Unstructured;
use gru_fuzz::{fuzz_target, passes::Case};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(case) = Case::draw(&mut Unstructured::new(bytes)) {
        case.run();
    }
});
