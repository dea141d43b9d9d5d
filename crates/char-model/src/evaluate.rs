//! The loss of a model on a text.

use burn::nn::loss::CrossEntropyLossConfig;
use burn::tensor::{Device, Tensor};

use crate::data::Streams;
use crate::error::Error;
use crate::model::CharGru;

/// Mean loss in nats per character. The state is carried through the streams.
pub async fn evaluate(
    model: &CharGru,
    streams: &Streams,
    seq: usize,
    device: &Device,
) -> Result<f64, Error> {
    let cross_entropy = CrossEntropyLossConfig::new().init(device);
    let mut state = None;
    let mut loss_sum = 0.0;
    let mut characters = 0;
    for window in streams.windows(seq) {
        let (logits, next) = model.forward(window.inputs(device), state);
        state = Some(next);
        let loss = read(cross_entropy.forward(logits, window.targets(device))).await?;
        loss_sum += f64::from(loss) * window.len() as f64;
        characters += window.len();
    }
    Ok(loss_sum / characters as f64)
}

/// Reads a value from the device.
pub async fn read(scalar: Tensor<1>) -> Result<f32, Error> {
    let read = scalar.try_into_scalar_async().await;
    read.map_err(Error::device)
}
