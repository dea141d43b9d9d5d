//! Captures of a forward pass with several sizes, aligned with each other.

use super::{ExportError, Value, Values, boundary};
use burn::{
    backend::{
        capture::{CaptureBackend, TensorId},
        ir::{BaseOperationIr as Base, IrVisitorMut, OperationIr, ScalarIr, TensorIr},
    },
    module::{Module, ModuleVisitor, Param},
    tensor::{Bool, Device, DeviceConfig, Int, Shape, Slice, Tensor, TensorData},
};
use std::collections::{BTreeMap, HashMap};

/// One forward pass.
pub struct Capture {
    operations: Vec<OperationIr>,
    values: BTreeMap<TensorId, TensorData>,
    parameters: Vec<(TensorId, String)>,
    inputs: Vec<Value>,
    outputs: Vec<Value>,
}

/// An operation of the first capture. Numbers and ranges are the ones of each capture.
pub struct Step {
    pub op: OperationIr,
    pub numbers: Vec<Vec<ScalarIr>>,
    pub ranges: Vec<Vec<Slice>>,
}

impl Step {
    /// Whether every capture has the same numbers.
    pub fn has_fixed_numbers(&self) -> bool {
        self.numbers
            .iter()
            .all(|numbers| *numbers == self.numbers[0])
    }
}

/// A tensor with data.
pub struct Constant {
    /// The path of a parameter.
    pub name: Option<String>,
    /// In each capture, or once if it is equal in all.
    pub data: Vec<TensorData>,
}

/// All captures. The ids are the ones of the first capture.
#[derive(Default)]
pub struct Trace {
    pub steps: Vec<Step>,
    pub inputs: Vec<Value>,
    pub outputs: Vec<Value>,
    pub constants: HashMap<TensorId, Constant>,
    /// The paths of parameters.
    names: HashMap<TensorId, String>,
    /// For each axis of a tensor the size in every capture.
    pub sizes: HashMap<TensorId, Vec<Vec<usize>>>,
}

#[derive(Default)]
struct Parameters {
    path: Vec<String>,
    all: Vec<(TensorId, String)>,
}

/// The path and id of every parameter.
macro_rules! visit {
    ($($visit:ident: $tensor:ty),+) => {$(
        fn $visit<const D: usize>(&mut self, param: &Param<$tensor>) {
            if let Ok(tensor) = param.val().try_into_primitive::<CaptureBackend>() {
                self.all.push((tensor.id(), self.path.join(".")));
            }
        }
    )+};
}

impl ModuleVisitor for Parameters {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.into());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }

    visit!(visit_float: Tensor<D>, visit_int: Tensor<D, Int>, visit_bool: Tensor<D, Bool>);
}

/// Records a forward pass.
///
/// # Errors
/// If a tensor is on an autodiff device, or an output is not on the capture device.
pub fn capture<M: Module, I: Values, O: Values>(
    model: &M,
    inputs: I,
    forward: &impl Fn(&M, I) -> O,
) -> Result<Capture, ExportError> {
    let mut devices: Vec<Device> = model.devices();
    inputs.devices(&mut devices);
    if devices.iter().any(Device::is_autodiff) {
        return Err(ExportError::Autodiff);
    }
    let device = Device::capture();
    // New tensors have the types that they have on the device of the model.
    let types = devices.first().map(|device| {
        let settings = device.settings();
        let types = DeviceConfig::default().float_dtype(settings.float_dtype);
        types.int_dtype(settings.int_dtype)
    });
    let mut recorded = None;
    let captured = device.capture_scope(|scope| {
        let configured = types.map_or(Ok(()), |types| device.clone().configure(types));
        // A clone would share the running means of a batch normalization.
        let model = model.valid().to_device(&device);
        let mut parameters = Parameters::default();
        model.visit(&mut parameters);
        let inputs = inputs.to(&device);
        let (mut given, mut returned) = (Vec::new(), Vec::new());
        let outputs = inputs.collect(&mut given).map(|()| forward(&model, inputs));
        let collected = outputs.and_then(|outputs| outputs.collect(&mut returned));
        let configured = configured.map_err(|error| boundary("capture", error));
        recorded = Some(
            configured
                .and(collected)
                .map(|()| (parameters.all, given, returned)),
        );
        // Every input has data, so the graph is complete without a boundary.
        scope.complete([], [])
    });
    let captured = captured.map_err(|error| boundary("capture", error))?;
    let (parameters, inputs, outputs) = recorded.expect("the scope ran")?;
    let mut operations = captured.graph.operations;
    operations.retain(|op| !matches!(op, OperationIr::Init(_)));
    Ok(Capture {
        operations,
        values: captured.values,
        parameters,
        inputs,
        outputs,
    })
}

/// What may differ between captures.
#[derive(Default)]
struct Parts {
    tensors: Vec<Value>,
    numbers: Vec<ScalarIr>,
    ranges: Vec<Slice>,
}

impl IrVisitorMut for Parts {
    fn visit_tensor_mut(&mut self, tensor: &mut TensorIr) {
        let (id, dtype) = (tensor.id, tensor.dtype);
        let none = TensorIr::uninit(TensorId::new(0), Shape::new([]), dtype);
        let shape = std::mem::replace(tensor, none).shape.to_vec();
        self.tensors.push(Value { id, shape, dtype });
    }

    fn visit_scalar_mut(&mut self, number: &mut ScalarIr) {
        self.numbers
            .push(std::mem::replace(number, ScalarIr::Int(0)));
    }

    fn visit_range_mut(&mut self, range: &mut Slice) {
        self.ranges.push(std::mem::replace(range, Slice::full()));
    }
}

impl Parts {
    /// Takes the parts out of the operation.
    fn take(operation: &OperationIr) -> (Self, OperationIr) {
        let (mut parts, mut rest) = (Self::default(), operation.clone());
        rest.visit_mut(&mut parts);
        // A visitor does not see this size.
        if let OperationIr::BaseFloat(Base::RepeatDim(op))
        | OperationIr::BaseInt(Base::RepeatDim(op))
        | OperationIr::BaseBool(Base::RepeatDim(op)) = &mut rest
        {
            op.times = 0;
        }
        (parts, rest)
    }
}

/// The tensor at a place of each list.
fn at(lists: &[Vec<Value>], place: usize) -> Option<Vec<Value>> {
    lists.iter().map(|list| list.get(place).cloned()).collect()
}

/// Aligns the captures.
///
/// # Errors
/// If they do not have the same operations, with the same options, between the same tensors.
pub fn align(captures: Vec<Capture>) -> Result<Trace, ExportError> {
    let mut trace = Trace::default();
    let mut aligned = Vec::new();
    let (mut operations, mut inputs, mut outputs) = (Vec::new(), Vec::new(), Vec::new());
    for capture in captures {
        aligned.push((HashMap::new(), capture.values));
        operations.push(capture.operations);
        inputs.push(capture.inputs);
        outputs.push(capture.outputs);
        if trace.names.is_empty() {
            // The first path of a shared parameter.
            trace.names = capture.parameters.into_iter().rev().collect();
        }
    }
    for k in 0..inputs[0].len() {
        trace.add(&mut aligned, &at(&inputs, k).unwrap_or_default());
        trace.constants.remove(&inputs[0][k].id);
    }
    for k in 0..operations.iter().map(Vec::len).max().unwrap_or_default() {
        let each: Vec<_> = operations.iter().map(|all| all.get(k)).collect();
        let parts: Option<(Vec<Parts>, Vec<_>)> =
            each.iter().map(|op| op.map(Parts::take)).collect();
        let is_same = parts.filter(|(_, rest)| rest.iter().all(|other| *other == rest[0]));
        let is_same = is_same.filter(|(parts, _)| {
            let tensors: Vec<_> = parts.iter().map(|parts| parts.tensors.clone()).collect();
            let count = tensors.iter().map(Vec::len).max().unwrap_or_default();
            (0..count).all(|k| at(&tensors, k).is_some_and(|each| trace.add(&mut aligned, &each)))
        });
        let Some((parts, _)) = is_same else {
            let kinds = each.iter().map(|op| op.map_or("nothing".into(), kind));
            let kinds = kinds.collect();
            return Err(ExportError::DependsOnSize {
                operation: k,
                kinds,
            });
        };
        let (numbers, ranges) = parts.into_iter().map(|p| (p.numbers, p.ranges)).unzip();
        let op = operations[0][k].clone();
        trace.steps.push(Step {
            op,
            numbers,
            ranges,
        });
    }
    for k in 0..outputs.iter().map(Vec::len).max().unwrap_or_default() {
        if !at(&outputs, k).is_some_and(|each| trace.add(&mut aligned, &each)) {
            let kinds = vec!["other outputs".into()];
            return Err(ExportError::DependsOnSize {
                operation: operations[0].len(),
                kinds,
            });
        }
    }
    trace.inputs = inputs.remove(0);
    trace.outputs = outputs.remove(0);
    Ok(trace)
}

/// For a capture the ids of the first capture, and the data of tensors that were not seen yet.
type Aligned = (HashMap<TensorId, TensorId>, BTreeMap<TensorId, TensorData>);

impl Trace {
    /// Adds the tensor that each capture has at the same place, or returns false if it is not the same tensor.
    fn add(&mut self, aligned: &mut [Aligned], each: &[Value]) -> bool {
        let first = &each[0];
        for ((ids, _), other) in aligned.iter_mut().zip(each) {
            let known = *ids.entry(other.id).or_insert(first.id);
            let has_same_type =
                other.dtype == first.dtype && other.shape.len() == first.shape.len();
            if known != first.id || !has_same_type {
                return false;
            }
        }
        let sizes = |axis: usize| each.iter().map(|value| value.shape[axis]).collect();
        let sizes = (0..first.shape.len()).map(sizes).collect();
        self.sizes.entry(first.id).or_insert(sizes);
        let data = aligned.iter_mut().zip(each);
        let data: Option<Vec<_>> = data
            .map(|((_, data), value)| data.remove(&value.id))
            .collect();
        if let Some(mut data) = data {
            if data.iter().all(|other| *other == data[0]) {
                data.truncate(1);
            }
            let name = self.names.get(&first.id).cloned();
            self.constants.insert(first.id, Constant { name, data });
        }
        true
    }
}

/// The name of an operation.
pub fn kind(operation: &OperationIr) -> String {
    if let OperationIr::Custom(op) = operation {
        return op.id.clone();
    }
    let text = format!("{operation:?}");
    let head = text.split(" {").next().unwrap_or_default();
    // `NumericFloat(F32, Add(BinaryOpIr`
    let mut names = head.rsplit(['(', ' ']).skip(1);
    names.next().unwrap_or(head).to_owned()
}
