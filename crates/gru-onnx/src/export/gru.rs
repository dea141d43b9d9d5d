//! From calls of gru-op to `GRU` nodes.
//!
//! The nodes are added at the end, when it is known which results the model reads: the states or the last step.

use super::{
    ExportError,
    graph::{Dim, Graph, ints},
    shapes::{bounds, filled},
    trace::Step,
    weights::weights,
};
use burn::{
    backend::ir::{CustomOpIr, ScalarIr, SliceOpIr, TensorIr},
    tensor::DType,
};
use gru_convert::onnx::file;
use gru_op::{Activation, Activations, Direction, Layout, Reset, Update, backend::RecordedCall};
use gru_spec::{Lengths, onnx::Attributes};

/// All calls of a model.
#[derive(Default)]
pub struct Calls {
    all: Vec<Call>,
}

pub struct Call {
    pub recorded: RecordedCall,
    /// The path of the layer.
    pub path: String,
    x: String,
    mask: Option<String>,
    h0: Option<String>,
    /// The state after every step, `[N,T,H]` or `[T,N,H]`.
    states: String,
    /// Slices of the last step, `[N,1,H]` or `[1,N,H]`.
    last: Vec<String>,
}

impl Calls {
    /// Adds a call.
    ///
    /// # Errors
    /// If ONNX cannot express it.
    pub fn add(
        &mut self,
        g: &mut Graph<'_>,
        step: &Step,
        op: &CustomOpIr,
        prefix_masks: bool,
    ) -> Result<(), ExportError> {
        let operation = |reason| ExportError::Operation {
            operation: op.id.clone(),
            module: None,
            reason,
        };
        let recorded = RecordedCall::read(op).map_err(operation)?;
        let Some(recorded) = recorded else {
            return Err(operation("expected an operation of gru-op or Burn".into()));
        };
        let weights = recorded.inputs.weights.w_ih.as_ref();
        let weights = weights.unwrap_or(&recorded.inputs.weights.w_hh);
        let constant = g.trace.constants.get(&weights.id);
        let weights = constant.map_or("computed weights", |c| {
            c.name.as_deref().unwrap_or("a constant")
        });
        let error = |reason| ExportError::Gru {
            index: self.all.len(),
            weights: weights.to_owned(),
            reason,
        };
        check(&recorded, prefix_masks).map_err(error)?;
        if !step.has_fixed_numbers() {
            return Err(error(
                "expected the same options for all sizes, got others".into(),
            ));
        }
        let path = weights.rsplit_once('.').map_or("gru", |(path, _)| path);
        let path = path.to_owned();
        let sequence = &recorded.inputs.sequence;
        let x = g.read(&sequence.x).map_err(error)?;
        let mut read = |tensor: &Option<TensorIr>| {
            let name = tensor.as_ref().map(|tensor| g.read(tensor));
            name.transpose().map_err(error)
        };
        let (mask, h0) = (read(&sequence.step_mask)?, read(&sequence.h0)?);
        let states = g.unique(&format!("{path}.states"));
        g.set(recorded.states.id, states.clone());
        self.all.push(Call {
            recorded,
            path,
            x,
            mask,
            h0,
            states,
            last: Vec::new(),
        });
        Ok(())
    }

    /// Whether the slice is the last step of a call. Then it becomes `Y_h`.
    pub fn take_last_step(&mut self, g: &mut Graph<'_>, op: &SliceOpIr, step: &Step) -> bool {
        let Some(call) = self
            .all
            .iter_mut()
            .find(|call| call.recorded.states.id == op.tensor.id)
        else {
            return false;
        };
        let time = call.recorded.order.layout.time_dim();
        let is_last = step.ranges.iter().enumerate().all(|(capture, ranges)| {
            ranges.iter().enumerate().all(|(axis, range)| {
                let size = g.sizes(&op.tensor)[axis][capture];
                let (start, end) = match call.recorded.order.direction {
                    _ if axis != time => (0, size),
                    Direction::Forward => (size - 1, size),
                    Direction::Reverse => (0, 1),
                };
                (axis != time || size > 1) && bounds(range, size) == (start, end, 1)
            })
        });
        if is_last && step.ranges[0].len() > time {
            let name = g.unique(&format!("{}.last", call.path));
            g.set(op.out.id, name.clone());
            call.last.push(name);
            return true;
        }
        false
    }

    /// Adds the nodes.
    ///
    /// # Errors
    /// If weights are computed.
    pub fn finish(&self, g: &mut Graph<'_>) -> Result<(), ExportError> {
        let mut k = 0;
        while k < self.all.len() {
            let rest = &self.all[k..];
            let count = 1 + usize::from(rest.len() > 1 && is_pair(g, &rest[..2]));
            node(g, &rest[..count]).map_err(|reason| ExportError::Gru {
                index: k,
                weights: rest[0].path.clone(),
                reason,
            })?;
            k += count;
        }
        Ok(())
    }
}

/// Whether ONNX has a node for this call.
fn check(call: &RecordedCall, prefix_masks: bool) -> Result<(), String> {
    let (spec, inputs) = (&call.spec, &call.inputs);
    let is_opposite = match spec.activations.update {
        Activation::Sigmoid => true,
        Activation::HardSigmoid { beta, .. } => beta == 0.5,
        _ => false,
    };
    let sequence = &inputs.sequence;
    macro_rules! list {
        ($($is_missing:expr => $what:literal,)+) => { [$(($is_missing, $what)),+] };
    }
    let missing = list! {
        spec.update == Update::Takes && !is_opposite => "update rule h = (1−z)·h + z·n for this activation",
        spec.activations.reset != spec.activations.update =>
            "different activations of the reset gate and the update gate",
        spec.clip_state.is_some() => "clip of the state",
        spec.clip_gates.is_some_and(|clip| clip as f32 == 0.0) => "clip of the gates that is zero in float32",
        sequence.zoneout.is_some() => "zoneout",
        sequence.starts.is_some() => "starts of new sequences within a row",
        sequence.recurrent_mask.is_some() => "recurrent dropout",
        inputs.weights.w_ih.is_none() => "input that is already projected",
        matches!(call.lengths, Lengths::Packed(_)) => "packed rows; export forward_with and a mask",
        matches!(call.lengths, Lengths::Padded(_)) => "constant lengths; export forward_with and a mask",
        sequence.step_mask.is_some() && !prefix_masks =>
            "mask; if the valid steps of each row are its first steps, set with_prefix_masks(true)",
    };
    match missing.iter().find(|(is_missing, _)| *is_missing) {
        Some((_, what)) => Err(format!("ONNX' GRU has no {what}")),
        None => Ok(()),
    }
}

/// Whether the second call is the reverse direction of the same layer.
fn is_pair(g: &Graph<'_>, pair: &[Call]) -> bool {
    let [a, b] = pair else {
        return false;
    };
    let common = |call: &Call| {
        let RecordedCall { spec, order, .. } = &call.recorded;
        let clip = spec.clip_gates.map(f64::to_bits);
        let has_h0 = call.h0.is_some();
        (spec.reset, clip, order.layout, call.units(), has_h0)
    };
    let depends = |h0: &String| a.last.iter().chain([&a.states]).any(|y| g.depends(h0, y));
    !a.is_reverse()
        && b.is_reverse()
        && common(a) == common(b)
        && (&a.x, &a.mask) == (&b.x, &b.mask)
        && !b.h0.as_ref().is_some_and(depends)
}

impl Call {
    fn is_reverse(&self) -> bool {
        self.recorded.order.direction == Direction::Reverse
    }

    fn batch_first(&self) -> bool {
        self.recorded.order.layout == Layout::BatchMajor
    }

    /// H.
    pub fn units(&self) -> usize {
        self.recorded.inputs.weights.w_hh.shape[0]
    }

    /// Whether a skipped step has another state than zero: the last state, or the initial state in reverse.
    fn repeats(&self) -> bool {
        self.mask.is_some() && (!self.is_reverse() || self.h0.is_some())
    }

    /// The `[1,N,H]` of ONNX in the layout of the call, or back.
    fn swapped(&self, g: &mut Graph<'_>, x: &str) -> String {
        if self.batch_first() {
            g.node("Transpose", &[x.into()], vec![ints("perm", &[1, 0, 2])])
        } else {
            x.into()
        }
    }
}

/// One direction, or both of a layer.
fn node(g: &mut Graph<'_>, calls: &[Call]) -> Result<(), String> {
    let (first, d) = (&calls[0], calls.len());
    let (recorded, h) = (&first.recorded, first.units());
    let sequence = &recorded.inputs.sequence;
    let dtype = sequence.x.dtype;
    let time = recorded.order.layout.time_dim();
    let x = first.swapped(g, &first.x);
    let [w, r, b] = weights(g, calls)?;
    let lengths = match &first.mask {
        Some(mask) => {
            let axes = g.integers(&[time as i64]);
            let attributes = vec![file::int("keepdims", 0)];
            let sum = g.node("ReduceSum", &[mask.clone(), axes], attributes);
            g.cast(&sum, dtype, DType::I32)?
        }
        None => String::new(),
    };
    let unsqueezed = |g: &mut Graph<'_>, x: &str, axis: i64| {
        let axis = g.integers(&[axis]);
        g.node("Unsqueeze", &[x.into(), axis], vec![])
    };
    let states: Vec<_> = calls.iter().flat_map(|call| &call.h0).cloned().collect();
    let states: Vec<_> = states.iter().map(|h0| unsqueezed(g, h0, 0)).collect();
    // tract 0.23 requires it if N is symbolic.
    let initial = match &states[..] {
        [] => {
            let n = g.size(&g.sizes(&sequence.x)[1 - time])?;
            let shape = g.shape(&[Dim::Is(d as i64), n, Dim::Is(h as i64)]);
            filled(g, shape, ScalarIr::Float(0.0), dtype)
        }
        [one] => one.clone(),
        both => g.node("Concat", both, vec![file::int("axis", 0)]),
    };
    let is_read = |call: &Call| g.used.contains(&call.states);
    let reads: Vec<bool> = calls.iter().map(is_read).collect();
    let repeats = |k: usize| reads[k] && calls[k].repeats();
    let has_last = calls.iter().any(|call| !call.last.is_empty()) || (0..d).any(repeats);
    let has_states = reads.contains(&true);
    let mut name = |is_there: bool, name: &str| {
        let name = is_there.then(|| g.unique(&format!("{}.{name}", first.path)));
        name.unwrap_or_default()
    };
    let (y, y_h) = (name(has_states, "Y"), name(has_last, "Y_h"));
    let gru = file::Node {
        input: vec![x, w, r, b, lengths.clone(), initial.clone()],
        op_type: Some("GRU".into()),
        attribute: file::described(&attributes(calls)),
        ..Default::default()
    };
    g.push(gru, vec![y.clone(), y_h.clone()]);
    let parts = |g: &mut Graph<'_>, x: &str, axis: i64| {
        if d == 1 || x.is_empty() {
            return vec![x.to_owned(); d];
        }
        let sizes = g.integers(&vec![1; d]);
        let axis = vec![file::int("axis", axis)];
        g.nodes("Split", &[x.into(), sizes], axis, &["part", "part"])
    };
    // A row without steps keeps its state. Engines return zero.
    let y_h = if has_last && !lengths.is_empty() && first.h0.is_some() {
        let zero = g.number(ScalarIr::Int(0), DType::I32)?;
        let is_empty = g.node("Equal", &[lengths, zero], vec![]);
        let is_empty = unsqueezed(g, &is_empty, 1);
        g.node("Where", &[is_empty, initial, y_h], vec![])
    } else {
        y_h
    };
    let ends = parts(g, &y_h, 0);
    for (call, end) in calls.iter().zip(&ends) {
        for last in &call.last {
            let end = call.swapped(g, end);
            g.alias(last, end);
        }
    }
    if !has_states {
        return Ok(());
    }
    for (k, part) in parts(g, &y, 1).iter().enumerate() {
        let call = &calls[k];
        if !reads[k] {
            continue;
        }
        let axes = g.integers(&[1]);
        let states = g.node("Squeeze", &[part.clone(), axes], vec![]);
        let mut states = call.swapped(g, &states);
        if let (true, Some(mask)) = (repeats(k), &first.mask) {
            let valid = g.cast(mask, dtype, DType::Bool(burn::tensor::BoolStore::Native))?;
            let valid = unsqueezed(g, &valid, 2);
            let repeated = match &call.h0 {
                Some(h0) if call.is_reverse() => unsqueezed(g, h0, time as i64),
                _ => call.swapped(g, &ends[k]),
            };
            states = g.node("Where", &[valid, states, repeated], vec![]);
        }
        g.alias(&call.states, states);
    }
    Ok(())
}

fn attributes(calls: &[Call]) -> Attributes {
    let (first, spec) = (&calls[0], &calls[0].recorded.spec);
    let mut attributes = Attributes {
        clip: spec.clip_gates.map(|clip| clip as f32),
        hidden_size: Some(first.units()),
        linear_before_reset: i64::from(spec.reset == Reset::AfterMatmul),
        direction: match (calls.len(), first.is_reverse()) {
            (1, false) => "forward",
            (1, true) => "reverse",
            _ => "bidirectional",
        }
        .into(),
        ..Default::default()
    };
    let of_calls = || calls.iter().map(|call| call.recorded.spec.activations);
    if of_calls().any(|activations| activations != Activations::default()) {
        for activations in of_calls() {
            attributes.push_activation(activations.update);
            attributes.push_activation(activations.candidate);
        }
    }
    attributes
}
