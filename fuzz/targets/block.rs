//! Files of a block with its configuration are read or rejected, with little memory. A block that was
//! read is saved again and runs a step.
#![cfg_attr(fuzzing, no_main)]

use burn::tensor::{Device, Tensor};
use gru_fuzz::{file::with_file, fuzz_target, limit::limited, panics::announced};
use gru_op::{Direction, GruBlock};

fuzz_target!(|bytes: &[u8]| {
    let device = Device::flex();
    with_file(bytes, |path| {
        if let Ok(block) = limited(bytes, || GruBlock::from_file(path, &device)) {
            if block
                .layers
                .iter()
                .all(|l| l.direction == Direction::Forward)
            {
                let x = Tensor::zeros([1, block.d_input], &device);
                announced(&["must have the dtype of x"], || block.step(x, None));
            }
            block
                .save_with_config(path)
                .expect("a loaded block can be saved");
            GruBlock::from_file(path, &device).expect("a saved block can be loaded");
        }
    });
});
