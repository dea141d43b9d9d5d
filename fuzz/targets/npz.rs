//! `.npz` files of NumPy are read or rejected, with little memory, and then imported.
#![cfg_attr(fuzzing, no_main)]

use gru_convert::StateDict;
use gru_fuzz::{fuzz_target, import::import, limit::limited};
use std::io::Cursor;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(dict) = limited(bytes, || {
        StateDict::from_npz_reader("bytes", Cursor::new(bytes))
    }) {
        import(&dict);
    }
});
