//! Forward and backward with kept and with recomputed gates, on every instruction set, with sizes that
//! match their slices. No pass reads or writes outside its slices, every result is written, and moderate
//! inputs give the oracle's results.
#![no_main]

use arbitrary::Unstructured;
use gru_fuzz::passes::Case;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(case) = Case::draw(&mut Unstructured::new(bytes)) {
        case.run();
    }
});
