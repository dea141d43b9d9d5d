//! What a layer keeps between calls.

#[cfg(feature = "cpu-kernels")]
pub(crate) use crate::backend::cpu::Memory;

/// Nothing, without the CPU backends.
#[cfg(not(feature = "cpu-kernels"))]
#[derive(Debug, Default)]
pub(crate) struct Memory;

/// Buffers that a layer reuses from call to call. Clones share them, and the last clone frees them.
///
/// The CPU backends keep the gate buffer of training. Backward returns it, and the next forward pass for training
/// writes to it. It is freed after 256 calls on the CPU, in the same type, that do not take it.
///
/// Other backends keep nothing. `None` keeps nothing: a call without a layer, such as
/// [`gru_sequence`](crate::gru_sequence), and a remote server for its clients.
pub(crate) type LayerMemory = Option<std::sync::Arc<Memory>>;
