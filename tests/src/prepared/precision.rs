//! Weights and inputs in other types than float32.

use super::{T, calls, close, compare, configs};
use crate::runs::{Cast, expect};
use burn::{
    module::{Module, ModuleMapper, Param},
    tensor::{DType, Device, Tensor},
};
use gru_op::{GruError, Precision};
use gru_testkit::{close::Tolerance, panics::panics};

struct Rounded;

impl ModuleMapper for Rounded {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        // Biases stay float32.
        if D == 1 {
            return param;
        }
        // ndarray has no bfloat16.
        param.map(|tensor| {
            let data = tensor.to_data().convert_dtype(DType::BF16);
            Tensor::from_data(data.convert_dtype(DType::F32), &tensor.device())
        })
    }
}

pub fn bf16(device: &Device) -> Result<(), String> {
    for config in configs() {
        let block = config.init(device);
        let prepared = block.prepare(Precision::Bf16);
        let rounded = block.clone().map(&mut Rounded);
        compare(&prepared, &rounded, &config, device, Tolerance::F32.forward)?;
        let off = compare(&prepared, &block, &config, device, 0.05)?;
        if off < 1e-4 {
            return Err(format!(
                "expected rounded weights, got results within {off}"
            ));
        }
    }
    Ok(())
}

/// The products are tested in gru-cpu. Here: the results are near the block's, and neither equal nor as near as
/// with 16 bits.
pub fn int8(device: &Device) -> Result<(), String> {
    for config in configs() {
        let block = config.init(device);
        let prepared = block.prepare(Precision::Int8);
        let off = compare(&prepared, &block, &config, device, 0.1)?;
        if off < 1e-3 {
            return Err(format!(
                "expected rounded weights, got results within {off}"
            ));
        }
        // Panels are padded to whole vectors of units.
        if prepared.bytes() > 2 * block.num_params() {
            return Err(format!("expected few bytes, got {}", prepared.bytes()));
        }
        let rounding = prepared.rounding();
        let expected = 2 * config.layer_count();
        if rounding.len() != expected
            || rounding
                .iter()
                .any(|r| !r.db.is_some_and(|db| (30.0..60.0).contains(&db)))
        {
            return Err(format!(
                "expected {expected} matrices near 40 dB, got {rounding:?}"
            ));
        }
    }
    Ok(())
}

/// Half precision is a storage type: outputs are rounded to it.
pub fn half(device: &Device) -> Result<(), String> {
    let config = &configs()[0];
    let block = config.init(device).map(&mut Cast(DType::F16));
    let prepared = block.prepare(Precision::Full);
    let x = calls(config, T, device).0.cast(DType::F16);
    let (y, state) = prepared.forward(x.clone(), None);
    expect("dtypes", [y.dtype(), state.dtype()], [DType::F16; 2])?;
    let expected = block.forward(x, None);
    close("half", (y, state), expected, Tolerance::F16.forward).map(drop)
}

/// Other backends have full precision only, and no stream.
pub fn refused(device: &Device) -> Result<(), String> {
    let block = configs()[0].init(device);
    for precision in [Precision::Bf16, Precision::Int8] {
        match block.try_prepare(precision) {
            Err(error @ GruError::Precision { .. }) => {
                let says = [format!("got {precision:?}"), format!("{device:?}")];
                let text = error.to_string();
                if !says.iter().all(|says| text.contains(says)) {
                    return Err(text);
                }
            }
            other => return Err(format!("expected an error, got {other:?}")),
        }
    }
    let prepared = block.prepare(Precision::Full);
    panics(
        || prepared.stream(1),
        "PreparedGru::stream: expected the backend flex or ndarray",
    )
}
