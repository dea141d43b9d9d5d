//! What a layer keeps between calls.

#[cfg(any(feature = "ndarray", feature = "flex"))]
use crate::backend::cpu::Memory;

/// Buffers that a layer reuses from call to call. Clones share them, and the last clone frees them.
///
/// The CPU backends keep the gate buffer of training. Backward returns it, and the next forward pass for training
/// writes to it. It is freed after 256 calls on the CPU, in the same type, that keep no
/// gates.
///
/// Other backends keep nothing. A call without a layer, such as [`gru_sequence`](crate::gru_sequence), keeps
/// nothing, and a remote server keeps nothing for its clients.
#[derive(Debug, Clone, Default)]
pub(crate) struct LayerMemory {
    /// `None` keeps nothing.
    #[cfg(any(feature = "ndarray", feature = "flex"))]
    pub(crate) cpu: Option<std::sync::Arc<Memory>>,
}

impl LayerMemory {
    /// Memory that keeps something. The default keeps nothing.
    pub(crate) fn new() -> Self {
        Self {
            #[cfg(any(feature = "ndarray", feature = "flex"))]
            cpu: Some(Default::default()),
        }
    }

    /// Counts a call that keeps no gates.
    #[cfg(any(feature = "ndarray", feature = "flex"))]
    pub(crate) fn infer(&self) {
        if let Some(memory) = &self.cpu {
            memory.infer();
        }
    }
}
