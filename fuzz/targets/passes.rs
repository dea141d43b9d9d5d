//! Forward and backward, gates kept and made anew, on every instruction set, with sizes that fit
//! their slices: nothing is read or written beyond them, every result is written, and where the
//! numbers are moderate they are those of the oracle.
#![no_main]

use arbitrary::Unstructured;
use gru_fuzz::passes::Case;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(case) = Case::draw(&mut Unstructured::new(bytes)) {
        case.run();
    }
});
