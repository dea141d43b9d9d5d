//! `.npz` files of NumPy are read or rejected, with little memory, and then imported.
#![no_main]

use gru_convert::StateDict;
use gru_fuzz::import::import;
use libfuzzer_sys::fuzz_target;
use std::io::Cursor;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(dict) = StateDict::from_npz_reader("bytes", Cursor::new(bytes)) {
        import(&dict);
    }
});
