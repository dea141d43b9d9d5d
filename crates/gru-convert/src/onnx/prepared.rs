//! A module whose calls run prepared weights.

use burn::{
    module::{
        Content, Devices, Module, ModuleDisplay, ModuleDisplayDefault, ModuleMapper, ModuleVisitor,
    },
    tensor::{Device, Tensor},
};
use gru_op::{GruBlock, Precision, PreparedGru, SequenceOptions};
use std::sync::OnceLock;

/// What [`run`](super::run) and [`run_with_lengths`](super::run_with_lengths) run: a [`GruBlock`], a
/// [`PreparedGru`] or a [`PreparedBlock`]. The trait is sealed.
pub trait Gru: Sealed {
    /// Whether the rows are the first dimension of the input.
    fn batch_first(&self) -> bool;

    /// As [`GruBlock::forward_with`].
    ///
    /// # Panics
    /// As [`GruBlock::forward_with`].
    fn forward_with(&self, x: Tensor<3>, options: SequenceOptions<3>) -> (Tensor<3>, Tensor<3>);
}

/// Private.
pub trait Sealed {}
impl Sealed for GruBlock {}
impl Sealed for PreparedGru {}
impl Sealed for PreparedBlock {}

impl Gru for GruBlock {
    fn batch_first(&self) -> bool {
        self.batch_first
    }

    fn forward_with(&self, x: Tensor<3>, options: SequenceOptions<3>) -> (Tensor<3>, Tensor<3>) {
        self.forward_with(x, options)
    }
}

impl Gru for PreparedGru {
    fn batch_first(&self) -> bool {
        self.config().batch_first
    }

    fn forward_with(&self, x: Tensor<3>, options: SequenceOptions<3>) -> (Tensor<3>, Tensor<3>) {
        self.forward_with(x, options)
    }
}

/// A [`GruBlock`] as a module for inference: the first call prepares the weights, by [`GruBlock::prepare`].
///
/// Parameters and records are the ones of the block, in the field `block`. Whatever changes or moves them, a record
/// for example, also drops the prepared weights, and the next call prepares again. The memory holds both: the
/// parameters, and the prepared weights of [`PreparedGru::bytes`].
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use gru_convert::onnx::{PreparedBlock, run};
/// use gru_op::{GruBlockConfig, Precision};
///
/// let device = Device::flex();
/// let config = GruBlockConfig::new(3, 4).with_batch_first(false);
/// let gru = PreparedBlock::new(config.init(&device), Precision::Int8);
/// let (y, _) = run(&gru, Tensor::zeros([5, 2, 3], &device), None, None);
/// assert_eq!(y.dims(), [5, 1, 2, 4]);
/// ```
#[derive(Module, Debug)]
pub struct PreparedBlock {
    block: GruBlock,
    prepared: OnDemand,
    #[module(skip)]
    precision: Precision,
}

impl PreparedBlock {
    /// A module with the parameters of `block`. Nothing is prepared yet, so a record can be loaded.
    pub fn new(block: GruBlock, precision: Precision) -> Self {
        Self {
            block,
            prepared: OnDemand::default(),
            precision,
        }
    }

    /// The prepared weights.
    ///
    /// # Panics
    /// As [`GruBlock::prepare`].
    pub fn prepared(&self) -> &PreparedGru {
        let prepare = || self.block.prepare(self.precision);
        self.prepared.0.get_or_init(prepare)
    }
}

impl Gru for PreparedBlock {
    fn batch_first(&self) -> bool {
        self.block.batch_first
    }

    /// # Panics
    /// As [`GruBlock::prepare`] and [`PreparedGru::forward_with`].
    fn forward_with(&self, x: Tensor<3>, options: SequenceOptions<3>) -> (Tensor<3>, Tensor<3>) {
        self.prepared().forward_with(x, options)
    }
}

/// Empty until the first call, and again when parameters may have changed.
#[derive(Clone, Debug, Default)]
struct OnDemand(OnceLock<PreparedGru>);

impl Module for OnDemand {
    fn collect_devices(&self, devices: Devices) -> Devices {
        devices
    }

    fn visit<V: ModuleVisitor>(&self, _visitor: &mut V) {}

    fn map<M: ModuleMapper>(self, _mapper: &mut M) -> Self {
        Self::default()
    }

    fn fork(self, _device: &Device) -> Self {
        Self::default()
    }

    fn to_device(self, _device: &Device) -> Self {
        Self::default()
    }

    fn materialize(self) -> Self {
        Self::default()
    }

    fn train(self) -> Self {
        Self::default()
    }

    fn valid(&self) -> Self {
        self.clone()
    }
}

impl ModuleDisplay for OnDemand {}

impl ModuleDisplayDefault for OnDemand {
    fn content(&self, content: Content) -> Option<Content> {
        let precision = self.0.get().map(PreparedGru::precision);
        content.add_formatted(&format!("{precision:?}")).optional()
    }
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use super::*;
    use crate::onnx::run;
    use burn::{module::Param, tensor::Distribution};
    use gru_op::GruBlockConfig;

    fn block() -> GruBlock {
        let config = GruBlockConfig::new(3, 20).with_bidirectional(true);
        config.with_batch_first(false).init(&Device::flex())
    }

    fn outputs(gru: &impl Gru, x: &Tensor<3>) -> [Vec<f32>; 2] {
        let (y, state) = run(gru, x.clone(), Some(&[5, 3]), None);
        [y.into_data(), state.into_data()].map(|data| data.try_to_vec().unwrap())
    }

    fn x() -> Tensor<3> {
        Tensor::random([5, 2, 3], Distribution::Default, &Device::flex())
    }

    #[test]
    fn the_results_are_the_ones_of_prepare() {
        let (block, x) = (block(), x());
        for precision in [Precision::Full, Precision::Bf16, Precision::Int8] {
            let expected = outputs(&block.prepare(precision), &x);
            let module = PreparedBlock::new(block.clone(), precision);
            assert_eq!(outputs(&module, &x), expected, "{precision:?}");
            assert_eq!(module.prepared().precision(), precision);
            assert_eq!(Module::num_params(&module), Module::num_params(&block));
        }
    }

    /// By a record, or by a training step.
    #[test]
    fn changed_parameters_are_prepared_again() {
        struct Negate;
        impl ModuleMapper for Negate {
            fn map_float<const D: usize>(
                &mut self,
                parameter: Param<Tensor<D>>,
            ) -> Param<Tensor<D>> {
                parameter.map(|tensor| -tensor)
            }
        }
        let (old, new, x) = (block(), block(), x());
        let module = PreparedBlock::new(old.clone(), Precision::Int8);
        let expected_of = |block: &GruBlock| outputs(&block.prepare(Precision::Int8), &x);
        let before = outputs(&module, &x);
        assert_eq!(before, expected_of(&old));
        let record = PreparedBlock::new(new.clone(), Precision::Full).into_record();
        let loaded = module.clone().load_record(record);
        assert_eq!(outputs(&loaded, &x), expected_of(&new));
        assert_eq!(outputs(&loaded.valid(), &x), expected_of(&new));
        let trained = module.clone().map(&mut Negate);
        assert_eq!(outputs(&trained, &x), expected_of(&old.map(&mut Negate)));
        // The clone has the weights of its own parameters.
        assert_eq!(outputs(&module, &x), before);
    }
}
