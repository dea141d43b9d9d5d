//! The inputs of a checked function, of any ranks: numbers and a shape here, a tensor of its rank
//! where the function asks for it.

use burn::tensor::{DType, Device, Gradients, Tensor, TensorData};
use std::{any::Any, rc::Rc};

/// One input.
#[derive(Debug, Clone)]
pub(super) struct Input {
    pub(super) name: String,
    pub(super) shape: Vec<usize>,
    pub(super) values: Vec<f64>,
    /// Whether it is to get a gradient.
    pub(super) asks: bool,
    device: Device,
    /// Makes a tensor of the input's rank.
    tensor: fn(TensorData, &Device) -> Leaf,
}

impl Input {
    pub(super) fn new<const D: usize>(name: &str, values: Tensor<D>, asks: bool) -> Self {
        let device = values.device().autodiff();
        assert!(
            device.supports_dtype(DType::F64),
            "GradCheck: {name} must be on a device with float64, got {device:?}"
        );
        let shape = values.dims().to_vec();
        let values = values.into_data().convert::<f64>().try_into_vec();
        Self {
            name: name.into(),
            shape,
            values: values.expect("the data was just converted"),
            asks,
            device,
            tensor: |data, device| {
                Leaf(Rc::new(Tensor::<D>::from_data(data, (device, DType::F64))))
            },
        }
    }

    /// The input as a tensor of these numbers.
    pub(super) fn leaf(&self, values: Vec<f64>, tracked: bool) -> Leaf {
        let data = TensorData::new(values, self.shape.clone());
        let leaf = (self.tensor)(data, &self.device);
        match tracked {
            true => leaf.0.tracked(),
            false => leaf,
        }
    }

    /// All indices in the order of the numbers.
    pub(super) fn indices(&self) -> impl Iterator<Item = Vec<usize>> {
        (0..self.values.len()).map(|at| {
            let mut rest = at;
            let mut index = vec![0; self.shape.len()];
            for (place, &size) in index.iter_mut().zip(&self.shape).rev() {
                *place = rest % size;
                rest /= size;
            }
            index
        })
    }

    /// The direction that moves one number alone.
    pub(super) fn unit(&self, index: &[usize]) -> Vec<f64> {
        let sizes = index.iter().zip(&self.shape);
        let at = sizes.fold(0, |at, (place, size)| at * size + place);
        let mut unit = vec![0.0; self.values.len()];
        unit[at] = 1.0;
        unit
    }
}

/// A tensor whose rank its maker alone knows.
#[derive(Clone)]
pub(super) struct Leaf(Rc<dyn AnyTensor>);

trait AnyTensor {
    fn as_any(&self) -> &dyn Any;
    fn rank(&self) -> usize;
    fn tracked(&self) -> Leaf;
    fn gradient(&self, gradients: &Gradients) -> Option<(Vec<usize>, Vec<f64>)>;
}

impl<const D: usize> AnyTensor for Tensor<D> {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn rank(&self) -> usize {
        D
    }

    fn tracked(&self) -> Leaf {
        Leaf(Rc::new(self.clone().require_grad()))
    }

    fn gradient(&self, gradients: &Gradients) -> Option<(Vec<usize>, Vec<f64>)> {
        // Burn shows no gradient of a tensor that did not ask for one, though one may be there;
        // asking now does not change which tensor it is.
        let gradient = self.clone().require_grad().grad(gradients)?;
        let shape = gradient.dims().to_vec();
        let values = gradient.into_data().convert::<f64>().try_into_vec();
        Some((shape, values.expect("the data was just converted")))
    }
}

/// The inputs at one point, as the checked function gets them.
pub struct Inputs(Vec<(String, Leaf)>);

impl Inputs {
    /// All inputs as they were given; those that ask for a gradient tracked, if any are to be.
    pub(super) fn new(inputs: &[Input], track: bool) -> Self {
        let leaf = |input: &Input| {
            let leaf = input.leaf(input.values.clone(), track && input.asks);
            (input.name.clone(), leaf)
        };
        Self(inputs.iter().map(leaf).collect())
    }

    /// With another tensor in the place of the `k`-th.
    pub(super) fn with(&self, k: usize, leaf: Leaf) -> Self {
        let mut inputs = self.0.clone();
        inputs[k].1 = leaf;
        Self(inputs)
    }

    /// Shape and numbers of the gradient of the `k`-th.
    pub(super) fn gradient(
        &self,
        k: usize,
        gradients: Option<&Gradients>,
    ) -> Option<(Vec<usize>, Vec<f64>)> {
        self.0[k].1.0.gradient(gradients?)
    }

    /// The input of this name, in float64.
    ///
    /// # Panics
    /// If there is none, or it has another rank.
    pub fn get<const D: usize>(&self, name: &str) -> Tensor<D> {
        let Some((_, leaf)) = self.0.iter().find(|(other, _)| other == name) else {
            let names: Vec<&str> = self.0.iter().map(|(name, _)| &**name).collect();
            panic!("GradCheck: expected one of the inputs {names:?}, got {name:?}");
        };
        let tensor = leaf.0.as_any().downcast_ref::<Tensor<D>>();
        let Some(tensor) = tensor else {
            let rank = leaf.0.rank();
            panic!("GradCheck: {name} must be asked for with its rank, expected {rank}, got {D}");
        };
        tensor.clone()
    }
}
