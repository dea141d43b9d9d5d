//! What a layer keeps between calls.

use std::{
    any::Any,
    fmt,
    sync::{Arc, OnceLock},
};

/// Buffers that a layer reuses from call to call. Clones share them, and the last clone frees them.
///
/// The CPU backends keep the gate buffer of training. Backward returns it, and the next forward pass for training
/// writes to it. It is freed after 256 calls that keep no gates.
///
/// Other backends keep nothing. A call without a layer, such as [`gru_sequence`](crate::gru_sequence), keeps
/// nothing, and a remote server keeps nothing for its clients.
#[derive(Clone, Default)]
pub struct LayerMemory(
    // Only the CPU backends read it.
    #[cfg_attr(not(any(feature = "ndarray", feature = "flex")), allow(dead_code))]
    Option<Arc<OnceLock<Box<dyn Any + Send + Sync>>>>,
);

impl LayerMemory {
    /// Memory that keeps something. The default keeps nothing.
    pub(crate) fn new() -> Self {
        Self(Some(Arc::default()))
    }

    /// What a backend keeps here, empty at first. `None` if nothing may be kept, or another backend keeps
    /// something.
    #[cfg(any(feature = "ndarray", feature = "flex"))]
    pub(crate) fn get<T: Any + Default + Send + Sync>(&self) -> Option<&T> {
        let kept = self.0.as_ref()?.get_or_init(|| Box::new(T::default()));
        kept.downcast_ref()
    }
}

impl fmt::Debug for LayerMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LayerMemory")
    }
}
