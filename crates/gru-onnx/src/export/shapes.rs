//! Operations whose results have another shape, or whose options are sizes.

use super::{
    constants::number,
    graph::{Dim, Graph, ints},
    trace::Step,
};
use burn::{
    backend::ir::{
        BaseOperationIr as Base, NumericOperationIr as Numeric, OperationIr as Op, PadModeIr,
        PadOpIr, ScalarIr, TensorIr,
    },
    tensor::Slice,
};
use gru_convert::onnx::file::{self, attribute, kind};
use prost::Message;

/// Adds the nodes of an operation, if it is one of these.
///
/// # Errors
/// If a size is not the size of an axis.
pub fn lower(g: &mut Graph<'_>, step: &Step) -> Result<bool, String> {
    let (name, out) = match &step.op {
        Op::BaseFloat(op) | Op::BaseInt(op) | Op::BaseBool(op) => match op {
            Base::Reshape(op) => (reshape(g, &op.input, &op.out)?, &op.out),
            Base::SwapDims(op) => {
                let mut axes: Vec<_> = (0..op.input.shape.num_dims()).collect();
                axes.swap(op.dim1, op.dim2);
                (transpose(g, &op.input, &axes)?, &op.out)
            }
            Base::Permute(op) => (transpose(g, &op.input, &op.axes)?, &op.out),
            Base::Flip(op) => {
                let all = |value: i64| vec![Dim::Is(value); op.axes.len()];
                let bounds = [all(-1), all(i64::MIN), all(-1)];
                (slice(g, &op.input, &op.axes, bounds)?, &op.out)
            }
            Base::Slice(op) => (ranges(g, &op.tensor, &step.ranges)?, &op.out),
            Base::Expand(op) => (expand(g, &op.input, &op.out)?, &op.out),
            Base::RepeatDim(op) => {
                if g.sizes(&op.tensor)[op.dim].iter().any(|&size| size != 1) {
                    return Err("expected an axis with the size 1".into());
                }
                (expand(g, &op.tensor, &op.out)?, &op.out)
            }
            Base::Zeros(op) => (full(g, &op.out, ScalarIr::Int(0))?, &op.out),
            Base::Ones(op) => (full(g, &op.out, ScalarIr::Int(1))?, &op.out),
            _ => return Ok(false),
        },
        Op::NumericFloat(_, op) | Op::NumericInt(_, op) => match op {
            Numeric::Full(op) => (full(g, &op.out, op.value)?, &op.out),
            Numeric::Pad(op) => (pad(g, op)?, &op.out),
            _ => return Ok(false),
        },
        _ => return Ok(false),
    };
    g.set(out.id, name);
    Ok(true)
}

pub fn transpose(g: &mut Graph<'_>, x: &TensorIr, axes: &[usize]) -> Result<String, String> {
    let x = g.read(x)?;
    if axes.is_sorted() {
        return Ok(x);
    }
    Ok(g.node("Transpose", &[x], vec![ints("perm", axes)]))
}

fn reshape(g: &mut Graph<'_>, from: &TensorIr, to: &TensorIr) -> Result<String, String> {
    let x = g.read(from)?;
    let (before, after) = (g.sizes(from), g.sizes(to));
    if before == after {
        return Ok(x);
    }
    let is_fixed = |sizes: &[usize]| sizes.iter().all(|&size| size == sizes[0]);
    // 0 is the size of the same axis of the input, −1 the remaining size.
    let is_kept = |axis: usize| before.get(axis) == after.get(axis);
    let open = (0..after.len()).filter(|&axis| !is_fixed(&after[axis]) && !is_kept(axis));
    let mut open: Vec<usize> = open.collect();
    let mut dims = Vec::new();
    for (axis, sizes) in after.iter().enumerate() {
        dims.push(if open == [axis] {
            Dim::Is(-1)
        } else if is_fixed(sizes) {
            Dim::Is(sizes[0] as i64)
        } else if is_kept(axis) {
            Dim::Is(0)
        } else {
            match g.size(sizes) {
                Ok(size) => {
                    open.retain(|&other| other != axis);
                    size
                }
                Err(_) => Dim::Is(-1),
            }
        });
    }
    if dims.iter().filter(|dim| **dim == Dim::Is(-1)).count() > 1 {
        let shapes: Vec<_> = open.iter().map(|&axis| &after[axis]).collect();
        return Err(format!(
            "expected at most one size that is not the size of an axis, got {shapes:?}"
        ));
    }
    let shape = g.shape(&dims);
    Ok(g.node("Reshape", &[x, shape], vec![]))
}

fn expand(g: &mut Graph<'_>, from: &TensorIr, to: &TensorIr) -> Result<String, String> {
    let x = g.read(from)?;
    let (before, after) = (g.sizes(from), g.sizes(to));
    if before == after {
        return Ok(x);
    }
    let lead = after.len() - before.len();
    let dims = after.iter().enumerate().map(|(axis, sizes)| {
        let is_kept = axis >= lead && before[axis - lead] == *sizes;
        // A size of 1 keeps the size of the input.
        if is_kept {
            Ok(Dim::Is(1))
        } else {
            g.size(sizes)
        }
    });
    let dims = dims.collect::<Result<Vec<_>, _>>()?;
    let shape = g.shape(&dims);
    Ok(g.node("Expand", &[x, shape], vec![]))
}

/// A new tensor with one number.
fn full(g: &mut Graph<'_>, out: &TensorIr, value: ScalarIr) -> Result<String, String> {
    let dims = g.sizes(out).iter().map(|sizes| g.size(sizes));
    let dims = dims.collect::<Result<Vec<_>, _>>()?;
    let shape = g.shape(&dims);
    Ok(filled(g, shape, value, out.dtype))
}

/// A tensor with this shape and one number.
pub fn filled(
    g: &mut Graph<'_>,
    shape: String,
    value: ScalarIr,
    dtype: burn::tensor::DType,
) -> String {
    let value = file::tensor("", &number(value, dtype, &[1]));
    let value = attribute("value", kind::TENSOR, |a| {
        a.t = Some(value.encode_to_vec().into())
    });
    g.node("ConstantOfShape", &[shape], vec![value])
}

/// Whether every capture has the same value.
fn same<T: PartialEq + Copy>(mut values: impl Iterator<Item = T>) -> Option<T> {
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}

/// The first step, the step after the last, and the stride of a range.
pub fn bounds(range: &Slice, size: usize) -> (usize, usize, isize) {
    let clamped = |place: isize| {
        let place = if place < 0 {
            place + size as isize
        } else {
            place
        };
        place.clamp(0, size as isize) as usize
    };
    (
        clamped(range.start),
        range.end.map_or(size, clamped),
        range.step,
    )
}

/// A slice whose bounds count from the start or from the end, whichever is equal in all captures, or are sizes.
fn ranges(g: &mut Graph<'_>, x: &TensorIr, ranges: &[Vec<Slice>]) -> Result<String, String> {
    let mut axes = Vec::new();
    let [mut starts, mut ends, mut steps] = [(); 3].map(|()| Vec::new());
    for axis in 0..ranges[0].len() {
        let sizes = &g.sizes(x)[axis];
        let each = ranges
            .iter()
            .zip(sizes)
            .map(|(ranges, &size)| bounds(&ranges[axis], size));
        let each: Vec<_> = each.collect();
        let step = same(each.iter().map(|(.., step)| *step)).filter(|&step| step > 0);
        let Some(step) = step else {
            return Err("step of a slice: expected the same positive number for all sizes".into());
        };
        let mut bound = |of: fn(&(usize, usize, isize)) -> usize, is_end: bool| {
            let from_end = || same(each.iter().zip(sizes).map(|(one, &size)| size - of(one)));
            if let Some(place) =
                same(each.iter().map(of)).filter(|_| !is_end || from_end() != Some(0))
            {
                return Ok(Dim::Is(place as i64));
            }
            match from_end() {
                Some(0) => Ok(Dim::Is(i64::MAX)),
                Some(distance) => Ok(Dim::Is(-(distance as i64))),
                None => g.size(&each.iter().map(of).collect::<Vec<_>>()),
            }
        };
        let (start, end) = (bound(|one| one.0, false)?, bound(|one| one.1, true)?);
        if (&start, &end, step) != (&Dim::Is(0), &Dim::Is(i64::MAX), 1) {
            axes.push(axis);
            starts.push(start);
            ends.push(end);
            steps.push(Dim::Is(step as i64));
        }
    }
    slice(g, x, &axes, [starts, ends, steps])
}

fn slice(
    g: &mut Graph<'_>,
    x: &TensorIr,
    axes: &[usize],
    bounds: [Vec<Dim>; 3],
) -> Result<String, String> {
    let x = g.read(x)?;
    if axes.is_empty() {
        return Ok(x);
    }
    let axes: Vec<_> = axes.iter().map(|&axis| axis as i64).collect();
    let [starts, ends, steps] = bounds.map(|dims| g.shape(&dims));
    let axes = g.integers(&axes);
    Ok(g.node("Slice", &[x, starts, ends, axes, steps], vec![]))
}

fn pad(g: &mut Graph<'_>, op: &PadOpIr) -> Result<String, String> {
    let starts = op.padding.iter().map(|(start, _)| *start as i64);
    let pads: Vec<_> = starts
        .chain(op.padding.iter().map(|(_, end)| *end as i64))
        .collect();
    let mut inputs = vec![g.read(&op.input)?, g.integers(&pads)];
    let mode = match op.mode {
        PadModeIr::Constant(value) => {
            inputs.push(g.number(value, op.input.dtype)?);
            "constant"
        }
        PadModeIr::Reflect => "reflect",
        PadModeIr::Edge => "edge",
    };
    let mode = attribute("mode", kind::STRING, |a| a.s = Some(mode.into()));
    Ok(g.node("Pad", &inputs, vec![mode]))
}
