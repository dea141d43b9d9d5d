//! Safetensors files are read or rejected, and then imported. A file that was read can be written again.
#![cfg_attr(fuzzing, no_main)]

use gru_convert::StateDict;
use gru_fuzz::{file::with_file, fuzz_target, import::import, limit::limited};

fuzz_target!(|bytes: &[u8]| {
    with_file(bytes, |path| {
        if let Ok(dict) = limited(bytes, || StateDict::from_safetensors(path)) {
            import(&dict);
            if dict.to_safetensors(path).is_ok() {
                let again = StateDict::from_safetensors(path).expect("a written file can be read");
                assert!(again.keys().eq(dict.keys()));
            }
        }
    });
});
