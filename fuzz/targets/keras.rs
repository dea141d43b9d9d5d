//! Keras files, HDF5 or a zip archive of HDF5, are read or rejected, with little memory, and then
//! imported.
#![cfg_attr(fuzzing, no_main)]

use gru_convert::StateDict;
use gru_fuzz::{fuzz_target, import::import, limit::limited};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(dict) = limited(bytes, || {
        StateDict::from_keras_bytes("bytes", bytes.to_vec())
    }) {
        import(&dict);
    }
});
