//! From operations of Burn to nodes of ONNX: operations whose results have the size of an input, and products. `shapes`
//! has the operations that change shapes.

use super::{
    graph::{Graph, float, ints},
    shapes,
    trace::Step,
};
use burn::{
    backend::ir::{
        ActivationOperationIr as Activation, BaseOperationIr as Base, BoolOperationIr as Bool,
        FloatOperationIr as Float, IntOperationIr as Int, ModuleOperationIr as Module,
        NumericOperationIr as Numeric, OperationIr as Op, ScalarIr, ScalarOpIr, TensorIr,
    },
    tensor::{DType, IndexingUpdateOp},
};
use gru_convert::onnx::file;

/// Operations with one node that has their inputs in their order, and no attributes.
fn plain(op: &Op) -> Option<&'static str> {
    Some(match op {
        Op::NumericFloat(_, op) | Op::NumericInt(_, op) => match op {
            Numeric::Add(_) => "Add",
            Numeric::Sub(_) => "Sub",
            Numeric::Mul(_) => "Mul",
            Numeric::Div(_) => "Div",
            Numeric::Abs(_) => "Abs",
            Numeric::Neg(_) => "Neg",
            Numeric::Sign(_) => "Sign",
            Numeric::Greater(_) => "Greater",
            Numeric::GreaterEqual(_) => "GreaterOrEqual",
            Numeric::Lower(_) => "Less",
            Numeric::LowerEqual(_) => "LessOrEqual",
            _ => return None,
        },
        Op::BaseFloat(Base::Equal(_))
        | Op::BaseInt(Base::Equal(_))
        | Op::BaseBool(Base::Equal(_)) => "Equal",
        Op::Bool(Bool::Not(_)) => "Not",
        Op::Bool(Bool::And(_)) => "And",
        Op::Bool(Bool::Or(_)) => "Or",
        Op::Bool(Bool::Xor(_)) => "Xor",
        Op::Float(_, Float::Matmul(_)) | Op::Int(Int::Matmul(_)) => "MatMul",
        Op::Float(_, op) => match op {
            Float::Exp(_) => "Exp",
            Float::Log(_) => "Log",
            Float::Erf(_) => "Erf",
            Float::Sqrt(_) => "Sqrt",
            Float::Powf(_) => "Pow",
            Float::Recip(_) => "Reciprocal",
            Float::Cos(_) => "Cos",
            Float::Sin(_) => "Sin",
            Float::Tanh(_) => "Tanh",
            Float::Round(_) => "Round",
            Float::Floor(_) => "Floor",
            Float::Ceil(_) => "Ceil",
            _ => return None,
        },
        Op::Activation(Activation::Relu(_)) => "Relu",
        Op::Activation(Activation::PRelu(_)) => "PRelu",
        Op::Activation(Activation::Sigmoid(_)) => "Sigmoid",
        _ => return None,
    })
}

/// Operations of a tensor and a number.
fn with_number(op: &Op) -> Option<(&'static str, &ScalarOpIr)> {
    Some(match op {
        Op::NumericFloat(_, op) | Op::NumericInt(_, op) => match op {
            Numeric::AddScalar(op) => ("Add", op),
            Numeric::SubScalar(op) => ("Sub", op),
            Numeric::MulScalar(op) => ("Mul", op),
            Numeric::DivScalar(op) => ("Div", op),
            Numeric::PowiScalar(op) => ("Pow", op),
            Numeric::GreaterElem(op) => ("Greater", op),
            Numeric::GreaterEqualElem(op) => ("GreaterOrEqual", op),
            Numeric::LowerElem(op) => ("Less", op),
            Numeric::LowerEqualElem(op) => ("LessOrEqual", op),
            Numeric::ClampMin(op) => ("Max", op),
            Numeric::ClampMax(op) => ("Min", op),
            _ => return None,
        },
        Op::Float(_, Float::PowfScalar(op)) => ("Pow", op),
        Op::BaseFloat(Base::EqualElem(op))
        | Op::BaseInt(Base::EqualElem(op))
        | Op::BaseBool(Base::EqualElem(op)) => ("Equal", op),
        _ => return None,
    })
}

/// Reductions: the node, the input, the axes or all axes, and the result.
fn reduction(op: &Op) -> Option<(&'static str, &TensorIr, Option<Vec<usize>>, &TensorIr)> {
    let (Op::NumericFloat(_, op) | Op::NumericInt(_, op)) = op else {
        return None;
    };
    Some(match op {
        Numeric::Sum(op) => ("ReduceSum", &op.input, None, &op.out),
        Numeric::Mean(op) => ("ReduceMean", &op.input, None, &op.out),
        Numeric::Max(op) => ("ReduceMax", &op.input, None, &op.out),
        Numeric::Min(op) => ("ReduceMin", &op.input, None, &op.out),
        Numeric::SumDims(op) => ("ReduceSum", &op.input, Some(op.axes.clone()), &op.out),
        Numeric::SumDim(op) => ("ReduceSum", &op.input, Some(vec![op.axis]), &op.out),
        Numeric::MeanDim(op) => ("ReduceMean", &op.input, Some(vec![op.axis]), &op.out),
        Numeric::MaxDim(op) => ("ReduceMax", &op.input, Some(vec![op.axis]), &op.out),
        Numeric::MinDim(op) => ("ReduceMin", &op.input, Some(vec![op.axis]), &op.out),
        _ => return None,
    })
}

/// Adds the nodes of an operation.
///
/// # Errors
/// If ONNX has no such operation, or it depends on a size in a way that ONNX cannot express.
pub fn lower(g: &mut Graph<'_>, step: &Step) -> Result<(), String> {
    let op = &step.op;
    if let Some((kind, op)) = with_number(op) {
        let x = g.read(&op.lhs)?;
        let number = g.number_of(step, 0, op.lhs.dtype)?;
        let name = g.node(kind, &[x, number], vec![]);
        g.set(op.out.id, name);
        return Ok(());
    }
    if !step.has_fixed_numbers() {
        let numbers = &step.numbers;
        return Err(format!(
            "expected the same numbers for all sizes, got {numbers:?}"
        ));
    }
    if shapes::lower(g, step)? {
        return Ok(());
    }
    let inputs = op.inputs().map(|tensor| g.read(tensor));
    let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
    if let Some(kind) = plain(op) {
        let name = g.node(kind, &inputs, vec![]);
        let out = op.outputs().next().expect("every operation has a result");
        g.set(out.id, name);
        return Ok(());
    }
    if let Some((kind, x, axes, out)) = reduction(op) {
        let all = || (0..x.shape.num_dims()).collect();
        let name = reduce(g, kind, &inputs[0], &axes.clone().unwrap_or_else(all));
        // A reduction of all axes has one number.
        let name = match axes {
            Some(_) => name,
            None => {
                let one = g.integers(&[1]);
                g.node("Reshape", &[name, one], vec![])
            }
        };
        g.set(out.id, name);
        return Ok(());
    }
    let (name, out) = match op {
        Op::NumericFloat(_, op) | Op::NumericInt(_, op) => numeric(g, op, &inputs)?,
        Op::Float(_, Float::Log1p(op)) => {
            let one = g.number(ScalarIr::Float(1.0), op.input.dtype)?;
            let sum = g.node("Add", &[inputs[0].clone(), one], vec![]);
            (g.node("Log", &[sum], vec![]), &op.out)
        }
        Op::Float(_, Float::IntoInt(op))
        | Op::Int(Int::IntoFloat(op))
        | Op::Bool(Bool::IntoFloat(op) | Bool::IntoInt(op))
        | Op::BaseFloat(Base::Cast(op))
        | Op::BaseInt(Base::Cast(op)) => {
            (g.cast(&inputs[0], op.input.dtype, op.out.dtype)?, &op.out)
        }
        Op::BaseFloat(Base::NotEqual(op))
        | Op::BaseInt(Base::NotEqual(op))
        | Op::BaseBool(Base::NotEqual(op)) => {
            let equal = g.node("Equal", &inputs, vec![]);
            (g.node("Not", &[equal], vec![]), &op.out)
        }
        Op::BaseFloat(Base::NotEqualElem(op)) | Op::BaseInt(Base::NotEqualElem(op)) => {
            let number = g.number(op.rhs, op.lhs.dtype)?;
            let equal = g.node("Equal", &[inputs[0].clone(), number], vec![]);
            (g.node("Not", &[equal], vec![]), &op.out)
        }
        Op::BaseFloat(op) | Op::BaseInt(op) | Op::BaseBool(op) => base(g, op, &inputs)?,
        Op::Activation(op) => activation(g, op, &inputs)?,
        Op::Module(op) => module(g, op, &inputs)?,
        _ => return Err(UNKNOWN.into()),
    };
    g.set(out.id, name);
    Ok(())
}

const UNKNOWN: &str = "this operation has no entry in the table of operations";

pub fn reduce(g: &mut Graph<'_>, kind: &str, x: &str, axes: &[usize]) -> String {
    let axes: Vec<_> = axes.iter().map(|&axis| axis as i64).collect();
    let axes = g.integers(&axes);
    g.node(kind, &[x.into(), axes], vec![])
}

fn axis(axis: usize) -> Vec<prost::bytes::Bytes> {
    vec![file::int("axis", axis as i64)]
}

type Lowered<'a> = Result<(String, &'a TensorIr), String>;

fn numeric<'a>(g: &mut Graph<'_>, op: &'a Numeric, inputs: &[String]) -> Lowered<'a> {
    let x = inputs[0].clone();
    Ok(match op {
        Numeric::Clamp(op) => {
            let min = g.number(op.min, op.tensor.dtype)?;
            let max = g.number(op.max, op.tensor.dtype)?;
            (g.node("Clip", &[x, min, max], vec![]), &op.out)
        }
        Numeric::CumSum(op) => {
            let axis = g.number(ScalarIr::Int(op.axis as i64), DType::I64)?;
            (g.node("CumSum", &[x, axis], vec![]), &op.out)
        }
        Numeric::ArgMax(op) => {
            let index = g.node("ArgMax", &[x], axis(op.axis));
            (g.cast(&index, DType::I64, op.out.dtype)?, &op.out)
        }
        _ => return Err(UNKNOWN.into()),
    })
}

fn base<'a>(g: &mut Graph<'_>, op: &'a Base, inputs: &[String]) -> Lowered<'a> {
    Ok(match op {
        Base::MaskWhere(op) => {
            let inputs = [g.read(&op.mask)?, g.read(&op.value)?, g.read(&op.tensor)?];
            (g.node("Where", &inputs, vec![]), &op.out)
        }
        Base::MaskFill(op) => {
            let (tensor, mask) = (g.read(&op.tensor)?, g.read(&op.mask)?);
            let value = g.number(op.value, op.tensor.dtype)?;
            (g.node("Where", &[mask, value, tensor], vec![]), &op.out)
        }
        Base::Gather(op) => {
            let inputs = [g.read(&op.tensor)?, g.read(&op.indices)?];
            (g.node("GatherElements", &inputs, axis(op.dim)), &op.out)
        }
        Base::Select(op) => {
            let inputs = [g.read(&op.tensor)?, g.read(&op.indices)?];
            (g.node("Gather", &inputs, axis(op.dim)), &op.out)
        }
        Base::ScatterNd(op) if op.reduction == IndexingUpdateOp::Assign => {
            let [data, values] = [g.read(&op.data)?, g.read(&op.values)?];
            let indices = g.read(&op.indices)?;
            let indices = g.cast(&indices, op.indices.dtype, DType::I64)?;
            (
                g.node("ScatterND", &[data, indices, values], vec![]),
                &op.out,
            )
        }
        Base::Cat(op) => (g.node("Concat", inputs, axis(op.dim)), &op.out),
        _ => return Err(UNKNOWN.into()),
    })
}

fn activation<'a>(g: &mut Graph<'_>, op: &'a Activation, inputs: &[String]) -> Lowered<'a> {
    let x = inputs[0].clone();
    Ok(match op {
        Activation::Softmax(op) => (g.node("Softmax", &[x], axis(op.axis)), &op.out),
        Activation::LogSoftmax(op) => (g.node("LogSoftmax", &[x], axis(op.axis)), &op.out),
        Activation::LeakyRelu(op) => {
            let alpha = vec![float("alpha", op.rhs.elem())];
            (g.node("LeakyRelu", &[x], alpha), &op.out)
        }
        Activation::HardSigmoid(op) => {
            let [alpha, beta] = [("alpha", op.alpha), ("beta", op.beta)]
                .map(|(name, value)| float(name, value.elem()));
            let attributes = vec![alpha, beta];
            (g.node("HardSigmoid", &[x], attributes), &op.out)
        }
        // x/2 · (1 + erf(x/√2)); operator set 20 is the first with Gelu.
        Activation::Gelu(op) => {
            let constants = [std::f64::consts::SQRT_2, 1.0, 0.5].map(ScalarIr::Float);
            let [root, one, half] = constants.map(|value| g.number(value, op.input.dtype));
            let scaled = g.node("Div", &[x.clone(), root?], vec![]);
            let erf = g.node("Erf", &[scaled], vec![]);
            let sum = g.node("Add", &[erf, one?], vec![]);
            let product = g.node("Mul", &[x, sum], vec![]);
            (g.node("Mul", &[product, half?], vec![]), &op.out)
        }
        _ => return Err(UNKNOWN.into()),
    })
}

/// `pads` of ONNX: all starts, then all ends.
fn pads(padding: &[(usize, usize)]) -> prost::bytes::Bytes {
    let starts = padding.iter().map(|(start, _)| *start);
    let ends = padding.iter().map(|(_, end)| *end);
    ints("pads", &starts.chain(ends).collect::<Vec<_>>())
}

fn module<'a>(g: &mut Graph<'_>, op: &'a Module, inputs: &[String]) -> Lowered<'a> {
    macro_rules! conv {
        ($kind:literal, $op:ident, $padding:expr, $($more:expr)?) => {{
            let options = &$op.options;
            let attributes = [
                ints("strides", &options.stride),
                pads(&$padding),
                ints("dilations", &options.dilation),
                file::int("group", options.groups as i64),
            ];
            let attributes = attributes.into_iter()$(.chain([$more]))?;
            (g.node($kind, inputs, attributes.collect()), &$op.out)
        }};
    }
    // `$row` makes an array of a size for each axis.
    macro_rules! pool {
        ($kind:literal, $row:ident, $op:ident; $($more:expr);+) => {{
            let attributes = vec![
                ints("kernel_shape", &$row($op.kernel_size)),
                ints("strides", &$row($op.stride)),
                pads(&$row($op.padding).map(|size| (size, size))),
                $($more),+
            ];
            (g.node($kind, inputs, attributes), &$op.out)
        }};
    }
    let one = |size: usize| [size];
    let two = |sizes: [usize; 2]| sizes;
    let both = |size: usize| (size, size);
    let flag = |name: &str, value: bool| file::int(name, value.into());
    Ok(match op {
        Module::Embedding(op) => (g.node("Gather", inputs, axis(0)), &op.out),
        Module::Linear(op) => {
            let product = g.node("MatMul", &inputs[..2], vec![]);
            let name = match inputs.get(2) {
                Some(bias) => g.node("Add", &[product, bias.clone()], vec![]),
                None => product,
            };
            (name, &op.out)
        }
        Module::LayerNorm(op) => {
            let attributes = vec![file::int("axis", -1), float("epsilon", op.epsilon.elem())];
            (g.node("LayerNormalization", inputs, attributes), &op.out)
        }
        Module::BatchNorm(op) => {
            let epsilon = vec![float("epsilon", op.epsilon.elem())];
            (g.node("BatchNormalization", inputs, epsilon), &op.out)
        }
        Module::Conv1d(op) => conv!("Conv", op, op.options.padding,),
        Module::Conv2d(op) => conv!("Conv", op, op.options.padding,),
        Module::ConvTranspose1d(op) => {
            let more = ints("output_padding", &op.options.padding_out);
            conv!("ConvTranspose", op, op.options.padding.map(both), more)
        }
        Module::ConvTranspose2d(op) => {
            let more = ints("output_padding", &op.options.padding_out);
            conv!("ConvTranspose", op, op.options.padding.map(both), more)
        }
        Module::MaxPool1d(op) => {
            pool!("MaxPool", one, op; ints("dilations", &[op.dilation]); flag("ceil_mode", op.ceil_mode))
        }
        Module::MaxPool2d(op) => {
            pool!("MaxPool", two, op; ints("dilations", &op.dilation); flag("ceil_mode", op.ceil_mode))
        }
        // Engines differ in the count of a window that ends past the padding.
        Module::AvgPool1d(op) if !op.ceil_mode => {
            pool!("AveragePool", one, op; flag("count_include_pad", op.count_include_pad))
        }
        Module::AdaptiveAvgPool1d(op) if op.output_size == 1 => {
            (g.node("GlobalAveragePool", inputs, vec![]), &op.out)
        }
        _ => return Err(UNKNOWN.into()),
    })
}
