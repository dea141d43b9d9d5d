//! A block that is prepared for inference.

#[cfg(feature = "cpu-kernels")]
mod cpu;

use super::{
    GruBlock, GruBlockConfig, GruError,
    arguments::{check_sequence, expect_forward, try_forward},
    gru_block::layout,
};
#[cfg(feature = "cpu-kernels")]
use crate::op::infer::{self, Outputs};
use crate::op::{
    options::{GruWeights, SequenceOptions},
    packed, shape,
};
use burn::{
    module::Module,
    tensor::{DType, Device, Tensor},
};
use gru_spec::{Direction, Layout, Precision};
use std::sync::Arc;

impl GruBlock {
    /// Prepares the weights for inference, in float32 or with 16 or 8 bits.
    ///
    /// # Panics
    /// If [`try_prepare`](Self::try_prepare) returns an error.
    ///
    /// ```
    /// # use burn::tensor::{Device, Distribution, Tensor};
    /// use gru_op::{GruBlockConfig, Precision};
    ///
    /// # let (n, t, i, h, device) = (3, 5, 3, 4, Device::flex());
    /// # let x = Tensor::<3>::random([n, t, i], Distribution::Default, &device);
    /// let gru = GruBlockConfig::new(i, h).init(&device);
    /// let prepared = gru.prepare(Precision::Int8);
    /// let (y, _) = prepared.forward(x.clone(), None);
    /// let (exact, _) = gru.forward(x, None);
    /// assert!((y - exact).abs().max().into_scalar::<f32>() < 0.05);
    /// ```
    pub fn prepare(&self, precision: Precision) -> PreparedGru {
        match self.try_prepare(precision) {
            Ok(prepared) => prepared,
            Err(error) => panic!("GruBlock::prepare: {error}"),
        }
    }

    /// [`prepare`](Self::prepare) with an error for a backend or a dtype that does not support it.
    ///
    /// The result is a snapshot: it does not change when the block is trained, loads a record or is dropped. So
    /// load a record first, then prepare. Quantized parameters are dequantized first. Zoneout uses its mean, and
    /// nothing is random. The block may be on an autodiff device. The prepared block is on the device below it. A
    /// capture device records the block in full precision.
    ///
    /// # Errors
    /// - [`GruError::Precision`] for weights of 16 or 8 bits on another backend than Flex and ndarray.
    /// - [`GruError::Float64`] for float64 parameters on Flex and ndarray, which would lose precision.
    /// - [`GruError::NotFinite`] for an infinite weight or NaN with [`Precision::Int8`]: the weights of 64 inputs have one
    ///   scale, so they would all become NaN.
    /// - [`GruError::Shape`], [`GruError::Count`], [`GruError::Spec`] or [`GruError::Config`] if the fields of the block were changed
    ///   and no longer match.
    pub fn try_prepare(&self, precision: Precision) -> Result<PreparedGru, GruError> {
        let weights = self.weights().into_iter().map(GruWeights::inner);
        let (config, weights) = (self.config(), weights.collect::<Vec<_>>());
        let described = self.check_config(&config);
        described.map_err(|mismatch| GruError::Config {
            reason: mismatch.to_string(),
        })?;
        config.check_weights(&weights)?;
        let first = &weights[0].w_hh;
        let (device, dtype) = (first.device(), first.dtype());
        #[cfg(feature = "cpu-kernels")]
        let is_on_cpu = infer::is_on_cpu(&device);
        #[cfg(not(feature = "cpu-kernels"))]
        let is_on_cpu = false;
        #[cfg(feature = "capture")]
        let is_captured = matches!(
            device.as_dispatch(),
            burn::backend::DispatchDevice::Capture(_)
        );
        #[cfg(not(feature = "capture"))]
        let is_captured = false;
        if precision != Precision::Full && !is_on_cpu && !is_captured {
            return Err(GruError::Precision {
                precision,
                device: format!("{device:?}"),
            });
        }
        let prepared = |kind| PreparedGru {
            kind,
            config: config.clone(),
            device,
            dtype,
        };
        // A capture records the block with its own parameters.
        if is_captured {
            return Ok(prepared(Kind::Block(Arc::new(self.valid()))));
        }
        #[cfg(feature = "cpu-kernels")]
        if is_on_cpu {
            let stack = cpu::stack(self, weights, precision)?;
            return Ok(prepared(Kind::Stack(Arc::new(stack))));
        }
        // `weights` are dequantized.
        let block = config.clone().with_dropout(0.0).init_with(weights)?.valid();
        Ok(prepared(Kind::Block(Arc::new(block))))
    }
}

/// A [`GruBlock`] that is prepared for inference by [`GruBlock::prepare`].
///
/// It is immutable, and clones share the weights. Threads may share it. It is not a module: it has no parameters,
/// no record and no gradients. On Flex and ndarray the weights are packed for the kernels of `gru-cpu`, in the
/// chosen [`Precision`]. On other backends it is the block itself, with the type of its parameters.
///
/// For [`Precision::Full`] the results equal the results of the block: bit by bit from 64 rows (N·T) on, up to
/// rounding in shorter calls. In half precision the block rounds between layers, and the prepared block does not.
/// [`rounding`](Self::rounding) states how much other precisions round the weights.
///
/// For real time on Flex and ndarray, [`stream`](Self::stream) runs steps over slices, without tensors.
#[derive(Debug, Clone)]
pub struct PreparedGru {
    kind: Kind,
    config: GruBlockConfig,
    device: Device,
    /// Of inputs and results.
    dtype: DType,
}

#[derive(Debug, Clone)]
enum Kind {
    #[cfg(feature = "cpu-kernels")]
    Stack(Arc<gru_cpu::Stack>),
    /// Of another backend.
    Block(Arc<GruBlock>),
}

impl PreparedGru {
    /// Runs every layer over a sequence, as [`GruBlock::forward`].
    ///
    /// ```
    /// use burn::tensor::{Device, Tensor};
    /// use gru_op::{GruBlockConfig, Precision};
    ///
    /// let (n, t, i, h, device) = (2, 5, 3, 4, Device::flex());
    /// let gru = GruBlockConfig::new(i, h).init(&device).prepare(Precision::Int8);
    /// let (y, state) = gru.forward(Tensor::ones([n, t, i], &device), None);
    /// assert_eq!((y.dims(), state.dims()), ([n, t, h], [1, n, h]));
    /// ```
    ///
    /// # Panics
    /// As [`GruBlock::forward`], and if `x` or the state is on an autodiff device.
    pub fn forward(&self, x: Tensor<3>, state: Option<Tensor<3>>) -> (Tensor<3>, Tensor<3>) {
        let options = SequenceOptions::new().state(state);
        self.run("PreparedGru::forward", x, self.layout(), options)
    }

    /// Runs every layer over a sequence with lengths, a mask or starts, as [`GruBlock::forward_with`].
    ///
    /// # Panics
    /// As [`GruBlock::forward_with`], and if `x`, the state or the start state is on an autodiff device.
    pub fn forward_with(
        &self,
        x: Tensor<3>,
        options: SequenceOptions<3>,
    ) -> (Tensor<3>, Tensor<3>) {
        self.run("PreparedGru::forward_with", x, self.layout(), options)
    }

    /// Runs every layer over a packed batch, as [`GruBlock::forward_packed`].
    ///
    /// # Panics
    /// As [`GruBlock::forward_packed`], and if `x` or the state is on an autodiff device.
    pub fn forward_packed(
        &self,
        x: Tensor<2>,
        lengths: &[usize],
        state: Option<Tensor<3>>,
    ) -> (Tensor<2>, Tensor<3>) {
        const OP: &str = "PreparedGru::forward_packed";
        let options = SequenceOptions::new().state(state);
        packed::in_sequence(OP, x, lengths, options, |x, options| {
            self.run(OP, x, Layout::BatchMajor, options)
        })
    }

    /// Runs every layer over one step, as [`GruBlock::step`]: from `x [N,I]` and `state [L,N,H]` to the output of
    /// the last layer `[N,H]` and the new state.
    ///
    /// ```
    /// # use burn::tensor::{Device, Tensor};
    /// # use gru_op::{GruBlockConfig, Precision};
    /// # let (n, i, device) = (2, 3, Device::flex());
    /// let gru = GruBlockConfig::new(i, 4).init(&device).prepare(Precision::Full);
    /// let mut state = None;
    /// for _ in 0..10 {
    ///     let (y, new) = gru.step(Tensor::ones([n, i], &device), state);
    ///     assert_eq!(y.dims(), [n, 4]);
    ///     state = Some(new);
    /// }
    /// ```
    ///
    /// # Panics
    /// As [`GruBlock::step`], and if `x` or the state is on an autodiff device.
    pub fn step(&self, x: Tensor<2>, state: Option<Tensor<3>>) -> (Tensor<2>, Tensor<3>) {
        const OP: &str = "PreparedGru::step";
        expect_forward(OP, self.directions());
        let options = SequenceOptions::new().state(state);
        self.run(OP, x, Layout::TimeMajor, options)
    }

    fn run<const D: usize>(
        &self,
        op: &str,
        x: Tensor<D>,
        layout: Layout,
        mut options: SequenceOptions<3>,
    ) -> (Tensor<D>, Tensor<3>) {
        self.check_tensor(op, "x", &x);
        for (name, state) in [
            ("state", &options.state),
            ("start_state", &options.starts.state),
        ] {
            if let Some(state) = state {
                self.check_tensor(op, name, state);
            }
        }
        let config = &self.config;
        let sizes = [config.d_input, config.d_hidden, config.layer_count()];
        let dims = shape::of_sequence(&x);
        options.order.layout = layout;
        check_sequence(op, &x, dims, &options, sizes);
        match &self.kind {
            #[cfg(feature = "cpu-kernels")]
            Kind::Stack(stack) => {
                let layers = stack.layer_count();
                let of_last = (layers - stack.directions()..layers).map(|k| stack.direction(k));
                let outputs = Outputs {
                    h: stack.units(),
                    layers,
                    directions: &of_last.collect::<Vec<_>>(),
                    dtype: self.dtype,
                };
                let [first, second, _] = dims;
                outputs.of(
                    x,
                    [first, second],
                    options,
                    |layout, batch, inputs, y, last| {
                        stack.forward(layout, batch, inputs, y, last);
                    },
                )
            }
            Kind::Block(block) => block.run_layers(op, x, &options),
        }
    }

    /// A stream of N rows whose states are zero, for real time: it runs every layer over one step, from a slice to
    /// a slice. A step does not allocate or lock, and runs on the caller's thread. [`step`](Self::step)
    /// returns the same numbers, up to rounding. A step panics if a slice has another length, and
    /// [`try_step`](gru_cpu::StackStream::try_step) returns an error and keeps the states. A stream may move to another
    /// thread. Requires the feature `flex` or `ndarray`.
    ///
    /// # Panics
    /// - On another backend than Flex and ndarray.
    /// - If a layer has the reverse direction, which requires the whole sequence.
    /// - If the states of so many rows exceed the address space.
    ///
    /// ```
    /// # use burn::tensor::Device;
    /// use gru_op::{GruBlockConfig, Precision};
    ///
    /// let gru = GruBlockConfig::new(2, 4).with_num_layers(2).init(&Device::flex());
    /// let mut stream = gru.prepare(Precision::Bf16).stream(1);
    /// for frame in [[0.5, -0.25], [0.125, 1.0]] {
    ///     let y: &[f32] = stream.step(&frame);
    ///     assert_eq!(y.len(), 4);
    /// }
    /// ```
    #[cfg(feature = "cpu-kernels")]
    pub fn stream(&self, rows: usize) -> gru_cpu::StackStream {
        self.try_stream(rows)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// [`stream`](Self::stream) for blocks and devices that a user chooses.
    ///
    /// # Errors
    /// [`GruError::Config`] on another backend than Flex and ndarray, or if a layer has the reverse direction.
    ///
    /// # Panics
    /// If the states of so many rows exceed the address space.
    #[cfg(feature = "cpu-kernels")]
    pub fn try_stream(&self, rows: usize) -> Result<gru_cpu::StackStream, GruError> {
        const OP: &str = "PreparedGru::stream";
        let Some(stack) = self.stack() else {
            let device = &self.device;
            let reason = format!("{OP}: expected the backend flex or ndarray, got {device:?}");
            return Err(GruError::Config { reason });
        };
        try_forward(OP, self.directions())?;
        Ok(gru_cpu::StackStream::new(stack.clone(), rows))
    }

    /// The weights for use without Burn, on Flex and ndarray.
    #[cfg(feature = "cpu-kernels")]
    pub fn stack(&self) -> Option<&Arc<gru_cpu::Stack>> {
        match &self.kind {
            Kind::Stack(stack) => Some(stack),
            Kind::Block(_) => None,
        }
    }

    /// How much each matrix was rounded. Empty for [`Precision::Full`].
    #[cfg(feature = "cpu-kernels")]
    pub fn rounding(&self) -> Vec<gru_cpu::Rounding> {
        self.stack().map_or(Vec::new(), |stack| stack.rounding())
    }

    /// Bytes of the weights and biases, with the padding of packed weights. Two biases of a gate that are always added are
    /// stored as their sum.
    pub fn bytes(&self) -> usize {
        match &self.kind {
            #[cfg(feature = "cpu-kernels")]
            Kind::Stack(stack) => stack.bytes(),
            Kind::Block(block) => block.num_params() * self.dtype.size(),
        }
    }

    /// The configuration of the block.
    pub fn config(&self) -> &GruBlockConfig {
        &self.config
    }

    /// The precision of the weights.
    pub fn precision(&self) -> Precision {
        match &self.kind {
            #[cfg(feature = "cpu-kernels")]
            Kind::Stack(stack) => stack.precision(),
            Kind::Block(_) => Precision::Full,
        }
    }

    /// The device of inputs and results.
    pub fn device(&self) -> &Device {
        &self.device
    }

    fn layout(&self) -> Layout {
        layout(self.config.batch_first)
    }

    /// Of each layer.
    fn directions(&self) -> impl Iterator<Item = Direction> {
        (0..self.config.layer_count()).map(|k| self.config.direction_of(k))
    }

    /// Checks the device and the dtype.
    fn check_tensor<const D: usize>(&self, op: &str, name: &str, tensor: &Tensor<D>) {
        let (device, dtype) = (tensor.device(), tensor.dtype());
        assert!(
            !device.is_autodiff(),
            "{op}: {name} must be on a device without autodiff, because a prepared block has no gradients, got \
             {device:?}; pass {name}.inner()"
        );
        assert!(
            device == self.device,
            "{op}: {name} must be on the device of the prepared block, expected {:?}, got {device:?}",
            self.device
        );
        assert!(
            dtype == self.dtype,
            "{op}: {name} must have the dtype of the prepared block, expected {:?}, got {dtype:?}",
            self.dtype
        );
    }
}
