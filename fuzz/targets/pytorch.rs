//! Files of `torch.save` are read or rejected, with little memory, and then imported.
#![no_main]

use gru_convert::StateDict;
use gru_fuzz::{file::with_file, import::import};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    with_file(bytes, |path| {
        if let Ok(dict) = StateDict::from_pytorch(path) {
            import(&dict);
        }
        let _ = StateDict::from_pytorch_at(path, "model");
    });
});
