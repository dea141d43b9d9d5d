//! A device whose integers have 8 bits, which cannot count the rows of a batch.

use super::{H, I, child, equal, text, values};
use burn::tensor::{Device, Distribution, FloatDType, IntDType, Tensor};
use gru_op::{GruBlockConfig, SequenceOptions, pack, unpack};

/// In a separate process, because a device is configured before its first tensor.
pub fn runs() -> Result<(), String> {
    child::run("integers")
}

/// Padded and packed rows give the same states.
pub fn role() -> Result<(), String> {
    let mut device = Device::flex();
    let configured = device.configure((FloatDType::F32, IntDType::I8));
    configured.map_err(text)?;
    let (lengths, t) = ([100, 7, 50], 100);
    let gru = GruBlockConfig::new(I, H).init(&device);
    let x = Tensor::<3>::random([lengths.len(), t, I], Distribution::Default, &device);
    let options = SequenceOptions::new().lengths(&lengths);
    let (y, state) = gru.forward_with(x.clone(), options);
    let (packed_y, packed_state) = gru.forward_packed(pack(x, &lengths), &lengths, None);
    equal("y", &values(unpack(packed_y, &lengths)), &values(y.clone()))?;
    equal("state", &values(packed_state), &values(state.clone()))?;
    for (row, len) in lengths.into_iter().enumerate() {
        let last = y.clone().slice([row..row + 1, len - 1..len]);
        let state = state.clone().slice([0..1, row..row + 1]);
        equal("last", &values(state), &values(last))?;
    }
    Ok(())
}
