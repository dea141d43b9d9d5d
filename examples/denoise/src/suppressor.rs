//! Both versions of RNNoise behind one interface.

use std::sync::Arc;

use crate::denoiser::{Channel, Denoiser};
use crate::model::Model;
use crate::network::Network;
use crate::v2;

/// A model that can denoise any number of channels.
pub trait Suppressor {
    /// Creates a channel with silence before its first frame.
    fn channel(&self) -> Box<dyn Channel>;

    /// The number of frames by which the output of a channel is late.
    fn delay(&self) -> u64;
}

impl Suppressor for Arc<Model> {
    fn channel(&self) -> Box<dyn Channel> {
        Box::new(Denoiser::new(Network::new(self)))
    }

    fn delay(&self) -> u64 {
        1
    }
}

impl Suppressor for Arc<v2::model::Model> {
    fn channel(&self) -> Box<dyn Channel> {
        Box::new(v2::denoiser::Denoiser::new(v2::network::Network::new(self)))
    }

    fn delay(&self) -> u64 {
        2
    }
}
