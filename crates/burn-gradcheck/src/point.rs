//! Inputs of any rank: stored as values and a shape, read as tensors.

use burn::tensor::{DType, Device, Gradients, Tensor, TensorData};
use std::{any::Any, fmt, rc::Rc};

/// Shape and values of a gradient.
pub(crate) type Gradient = (Vec<usize>, Vec<f64>);

/// One input.
#[derive(Debug, Clone)]
pub(crate) struct Input {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Vec<f64>,
    /// Whether the input must get a gradient.
    pub(crate) tracked: bool,
    device: Device,
    /// Makes a tensor of the input's rank.
    tensor: fn(TensorData, &Device) -> Leaf,
}

impl Input {
    pub(crate) fn new<const D: usize>(name: &str, values: Tensor<D>, tracked: bool) -> Self {
        let device = values.device().autodiff();
        assert!(
            device.supports_dtype(DType::F64),
            "GradCheck: {name}: expected a device with float64, got {device:?}"
        );
        let shape = values.dims().to_vec();
        let values = values.into_data().convert::<f64>().try_into_vec();
        Self {
            name: name.into(),
            shape,
            values: values.expect("the data was just converted"),
            tracked,
            device,
            tensor: |data, device| {
                Leaf(Rc::new(Tensor::<D>::from_data(data, (device, DType::F64))))
            },
        }
    }

    /// A tensor of the input's shape with these values.
    pub(crate) fn leaf(&self, values: Vec<f64>, tracked: bool) -> Leaf {
        let data = TensorData::new(values, self.shape.clone());
        let leaf = (self.tensor)(data, &self.device);
        if tracked { leaf.0.tracked() } else { leaf }
    }

    /// The index of the value at a place, in row-major order.
    pub(crate) fn index(&self, at: usize) -> Vec<usize> {
        let mut rest = at;
        let mut index = vec![0; self.shape.len()];
        for (place, &size) in index.iter_mut().zip(&self.shape).rev() {
            *place = rest % size;
            rest /= size;
        }
        index
    }
}

/// A tensor of a rank that is not part of the type.
#[derive(Clone)]
pub(crate) struct Leaf(Rc<dyn AnyTensor>);

trait AnyTensor {
    fn as_any(&self) -> &dyn Any;
    fn rank(&self) -> usize;
    fn tracked(&self) -> Leaf;
    fn gradient(&self, gradients: &Gradients) -> Option<Gradient>;
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

    fn gradient(&self, gradients: &Gradients) -> Option<Gradient> {
        // Burn returns no gradient for a tensor without `require_grad`, even where one was registered.
        // Calling it now does not change the node of the tensor.
        let gradient = self.clone().require_grad().grad(gradients)?;
        let shape = gradient.dims().to_vec();
        let values = gradient.into_data().convert::<f64>().try_into_vec();
        Some((shape, values.expect("the data was just converted")))
    }
}

/// The inputs at one point, by name. The checked function reads its arguments from it.
pub struct Point(Vec<(String, Leaf)>);

impl fmt::Debug for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|(name, _)| name);
        f.debug_tuple("Point")
            .field(&names.collect::<Vec<_>>())
            .finish()
    }
}

impl Point {
    /// All inputs with their given values. If `track` is set, autodiff tracks those that must get a gradient.
    pub(crate) fn new(inputs: &[Input], track: bool) -> Self {
        let leaf = |input: &Input| {
            let leaf = input.leaf(input.values.clone(), track && input.tracked);
            (input.name.clone(), leaf)
        };
        Self(inputs.iter().map(leaf).collect())
    }

    /// The same point, except for the `k`-th input.
    pub(crate) fn with(&self, k: usize, leaf: Leaf) -> Self {
        let mut leaves = self.0.clone();
        leaves[k].1 = leaf;
        Self(leaves)
    }

    /// The gradient of the `k`-th input.
    pub(crate) fn gradient(&self, k: usize, gradients: Option<&Gradients>) -> Option<Gradient> {
        self.0[k].1.0.gradient(gradients?)
    }

    /// The input of this name, in float64.
    ///
    /// # Panics
    /// If there is no such input, or it has another rank.
    pub fn get<const D: usize>(&self, name: &str) -> Tensor<D> {
        let Some((_, leaf)) = self.0.iter().find(|(other, _)| other == name) else {
            let names: Vec<&str> = self.0.iter().map(|(name, _)| &**name).collect();
            panic!("GradCheck: expected one of the inputs {names:?}, got {name:?}");
        };
        let tensor = leaf.0.as_any().downcast_ref::<Tensor<D>>();
        let Some(tensor) = tensor else {
            let rank = leaf.0.rank();
            panic!("GradCheck: {name}: expected rank {rank}, got {D}");
        };
        tensor.clone()
    }
}
