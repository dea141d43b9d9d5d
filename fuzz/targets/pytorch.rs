//! Files of `torch.save` are read or rejected, with little memory, and then imported.
#![cfg_attr(fuzzing, no_main)]

use gru_convert::StateDict;
use gru_fuzz::{file::with_file, fuzz_target, import::import, limit::limited};

fuzz_target!(|bytes: &[u8]| {
    with_file(bytes, |path| {
        if let Ok(dict) = limited(bytes, || StateDict::from_pytorch(path)) {
            import(&dict);
        }
        let _ = StateDict::from_pytorch_at(path, "model");
    });
});
