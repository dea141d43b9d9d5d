//! Conversions between padded and packed rows. The case matrix compares packed rows with the oracle, and `conformance`
//! compares blocks with PyTorch.

use super::{
    backends::TestBackend,
    runs::{expect, tensor, values},
};
use burn::tensor::{DType, Device, Tensor};
use gru_op::{pack, unpack};
use libtest_mimic::Trial;

pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    let trial = |backend: &TestBackend| {
        let id = format!("ragged/conversions/{}", backend.name);
        backend.trial(id, conversions)
    };
    backends.iter().map(trial).collect()
}

/// The numbers are `10·row + step`.
fn conversions(device: &Device) -> Result<(), String> {
    let numbers =
        |numbers: &[f64]| -> Tensor<2> { tensor(numbers, [numbers.len(), 1], device, DType::F32) };
    let rows = [0.0, 1.0, 10.0, 11.0, 12.0, 20.0];
    let lengths = [2, 3, 1];
    let padded = unpack(numbers(&rows), &lengths);
    let expected = [0.0, 1.0, 0.0, 10.0, 11.0, 12.0, 20.0, 0.0, 0.0];
    expect("unpack", &values(padded.clone())[..], &expected)?;
    let nan = padded.clone() / padded; // NaN in the padding, and at step 0 of row 0
    let packed = values(pack(nan, &lengths));
    expect("pack", &packed[1..], &[1.0; 5])?;

    let empty = unpack(numbers(&[]), &[0, 0]);
    expect("empty rows", empty.dims(), [2, 0, 1])?;
    expect("packed empty rows", pack(empty, &[0, 0]).dims(), [0, 1])
}
