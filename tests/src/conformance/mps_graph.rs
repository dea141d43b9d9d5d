//! `MPSGraph.GRU` and `GRUGradients` with every optional argument and activation.

pub mod arguments;

use arguments::{Arguments, arguments, descriptor};
use burn::tensor::{DType, Device, Tensor};
use gru_convert::mps_graph;
use gru_op::{
    Layout, SequenceOptions, Update, gru_sequence_with,
    mps_graph::{GruDescriptor, RecurrentWeight},
};
use gru_testkit::{
    close::{Outcome, Tensors, close},
    conformance::{Case, CaseSpec},
};

use super::{constant, gradients_of, leaf, state_dict, text, values_by_key};
use crate::{
    backends::TestBackend,
    runs::{self, expect, gradient, values},
};

pub fn run(case: &Case, device: &Device) -> Result<Outcome, String> {
    let descriptor = descriptor(&case.spec);
    let arguments = arguments(case, device, false);
    let results = arguments.gru(&descriptor);
    let [h, z_state] = &results[..] else {
        return Err(format!("{} results in training, expected 2", results.len()));
    };
    let up = |name: &str| case.get(&format!("up.{name}"));
    let d = arguments.gradients(
        constant(up("sourceGradient").expect("every case has one"), device),
        z_state.clone(),
        h.clone(),
        up("stateGradient").map(|d| constant(d, device)),
        &descriptor,
    );
    let mut gradients = Tensors::from([
        ("source".into(), values(d.source)),
        (
            "recurrentWeight".into(),
            match d.recurrent_weight {
                RecurrentWeight::One(d) => values(d),
                RecurrentWeight::Two(d) => values(d),
            },
        ),
    ]);
    gradients.extend(d.input_weight.map(|d| ("inputWeight".into(), values(d))));
    gradients.extend(d.bias.map(|d| ("bias".into(), values(d))));
    gradients.extend(d.init_state.map(|d| ("initState".into(), values(d))));
    gradients.extend(
        d.secondary_bias
            .map(|d| ("secondaryBias".into(), values(d))),
    );
    Ok(Outcome {
        outputs: Tensors::from([("h".into(), values(h.clone()))]),
        gradients,
    })
}

/// Without `reset_after` the secondary bias is ignored, and its gradient is zero.
pub fn ignored_bias() -> Result<(), String> {
    let (t, n, h, device) = (4, 2, 3, Device::flex());
    let draw = |count: usize| -> Vec<f64> { (0..count).map(|k| (k as f64).sin()).collect() };
    let x = || runs::tensor::<3>(&draw(t * n * 3 * h), [t, n, 3 * h], &device, DType::F32);
    let w = || runs::tensor::<2>(&draw(3 * h * h), [3 * h, h], &device, DType::F32);
    let bias = || Some(runs::tensor::<1>(&draw(h), [h], &device, DType::F32));
    let mut descriptor = GruDescriptor::new(Update::Keeps);
    descriptor.training = true;
    let arguments = |secondary_bias| Arguments {
        secondary_bias,
        ..Arguments::new(x(), w())
    };
    let run = |bias, descriptor: &GruDescriptor| {
        let results = arguments(bias).gru(descriptor);
        (results[0].clone(), results[1].clone())
    };
    let (y, z) = run(bias(), &descriptor);
    let without = values(run(None, &descriptor).0);
    expect("states with the bias", values(y.clone()), without)?;
    let d = arguments(bias()).gradients(y.clone(), z, y, None, &descriptor);
    let d = d.secondary_bias.map(values);
    expect("gradient", d, Some(vec![0.0; h]))?;
    descriptor.reset_after = true;
    if values(run(bias(), &descriptor).0) == values(run(None, &descriptor).0) {
        return Err("expected other states with reset_after".into());
    }
    Ok(())
}

/// Burn's autodiff through `gru` gives the same gradients, including the state's gradient. Inference
/// gives the same states. The z state has the documented contents.
pub fn by_autodiff(case: &Case, device: &Device, backend: &TestBackend) -> Result<(), String> {
    let tolerance = backend.tolerance(case.tolerance());
    let descriptor = descriptor(&case.spec);
    let mut inference = descriptor;
    inference.training = false;
    match &arguments(case, device, false).gru(&inference)[..] {
        [h] => {
            let (h, expected) = (values(h.clone()), &case.tensor("out.h").data);
            close("h of inference", &h, expected, tolerance.forward)?;
        }
        other => return Err(format!("inference gave {} results", other.len())),
    }
    let device = &device.clone().autodiff();
    let arguments = arguments(case, device, true);
    let mut results = arguments.gru(&descriptor);
    check_z_state(case, &descriptor, &results[1], tolerance.forward)?;
    let h = results.remove(0);
    let mut loss = runs::loss(&h, &case.tensor("up.sourceGradient").data);
    if let Some(d_state) = case.get("up.stateGradient") {
        let [t, n, features] = h.dims();
        let size = features / if descriptor.bidirectional { 2 } else { 1 };
        let last = |d: usize| {
            let reverse = descriptor.reverse && !descriptor.bidirectional || d == 1;
            let at = if reverse { 0 } else { t - 1 };
            let step: Tensor<2> = h.clone().narrow(0, at, 1).squeeze_dim(0);
            step.narrow(1, d * size, size)
        };
        let finals = (0..features / size).map(last).collect();
        let state: Tensor<2> = Tensor::cat(finals, 1);
        assert_eq!(state.dims(), [n, features]);
        loss = loss + runs::loss(&state, &d_state.data);
    }
    let d = loss.backward();
    let expected = |name: &str| &case.tensor(&format!("grad.{name}")).data;
    let check = |name: &str, got: Vec<f64>| close(name, &got, expected(name), tolerance.gradient);
    check("source", gradient("source", &arguments.source, &d)?)?;
    match &arguments.recurrent_weight {
        RecurrentWeight::One(w) => check("recurrentWeight", gradient("R", w, &d)?)?,
        RecurrentWeight::Two(w) => check("recurrentWeight", gradient("R", w, &d)?)?,
    }
    if let Some(w) = &arguments.input_weight {
        check("inputWeight", gradient("inputWeight", w, &d)?)?;
    }
    if let Some(b) = &arguments.bias {
        check("bias", gradient("bias", b, &d)?)?;
    }
    if let Some(h0) = &arguments.init_state {
        check("initState", gradient("initState", h0, &d)?)?;
    }
    if let Some(b) = &arguments.secondary_bias {
        check("secondaryBias", gradient("secondaryBias", b, &d)?)?;
    }
    Ok(())
}

/// Whether the case has an input weight, which a block requires.
pub fn has_input_weight(spec: &CaseSpec) -> bool {
    spec.flag("inputWeight") != Some(false)
}

/// Imports the arrays as a [`GruBlock`](gru_op::GruBlock). The block gives the recorded states and
/// gradients under Apple's names, and exports the arrays unchanged.
pub fn by_block(case: &Case, device: &Device, backend: &TestBackend) -> Result<(), String> {
    let tolerance = backend.tolerance(case.tolerance());
    let device = &device.clone().autodiff();
    let descriptor = descriptor(&case.spec);
    let dict = state_dict(case, |name| {
        ["recurrentWeight", "inputWeight", "bias", "secondaryBias"].contains(&name)
    });
    let config = mps_graph::config(&dict, "", &descriptor).map_err(text)?;
    let block = mps_graph::import(&dict, "", &descriptor, &config, device).map_err(text)?;

    let (again, mut again_descriptor) = mps_graph::export(&block, "").map_err(text)?;
    again_descriptor.training = descriptor.training;
    again_descriptor.reset_gate_first = descriptor.reset_gate_first;
    expect("exported descriptor", again_descriptor, descriptor)?;
    let again = in_order_of(&descriptor, values_by_key(&again));
    for (name, expected) in values_by_key(&dict) {
        let expected: Vec<f64> = expected.iter().map(|&v| f64::from(v as f32)).collect();
        expect(&name, again.get(&name), Some(&expected))?;
    }

    let x: Tensor<3> = leaf(case.tensor("in.source"), device);
    let directions = block.directions();
    let h0: Option<Tensor<2>> = case.get("in.initState").map(|h| leaf(h, device));
    let of = |d: usize, all: &Option<Tensor<2>>| {
        let all = all.clone();
        all.map(|all| all.narrow(1, d * block.d_hidden, block.d_hidden))
    };
    let (h, state) = match case.get("in.mask") {
        None => {
            let each = (0..directions).map(|d| of(d, &h0));
            let state = each.collect::<Option<Vec<_>>>();
            let (h, state) = block.forward(x.clone(), state.map(|all| Tensor::stack(all, 0)));
            let each = (0..directions).map(|d| state.clone().narrow(0, d, 1).squeeze_dim(0));
            (h, Tensor::<2>::cat(each.collect(), 1))
        }
        // A block draws its own recurrent masks. A given mask is multiplied into the weights.
        Some(mask) => {
            let mask = Some(constant(mask, device));
            let each = block.layers.iter().enumerate().map(|(d, layer)| {
                let options = SequenceOptions::new()
                    .layout(Layout::TimeMajor)
                    .direction(layer.direction)
                    .state(of(d, &h0))
                    .recurrent_mask(of(d, &mask));
                gru_sequence_with(x.clone(), &layer.weights(), &layer.spec, options)
            });
            let (h, state): (Vec<_>, Vec<_>) = each.unzip();
            (Tensor::cat(h, 2), Tensor::cat(state, 1))
        }
    };
    let recorded = |name: &str| &case.tensor(name).data;
    close(
        "h",
        &values(h.clone()),
        recorded("out.h"),
        tolerance.forward,
    )?;
    let mut loss = runs::loss(&h, recorded("up.sourceGradient"));
    if let Some(d_state) = case.get("up.stateGradient") {
        loss = loss + runs::loss(&state, &d_state.data);
    }
    let d = loss.backward();
    let mut gradients = gradients_of(&block, &d)?;
    for layer in &mut gradients.layers {
        // MPSGraph has one bias of r and z. The export would add the gradients of both biases of a layer.
        let of_candidate = |b: Tensor<1>| {
            let [gates] = b.dims();
            b.slice_fill(0..gates / 3 * 2, 0)
        };
        layer.b_hh = layer.b_hh.take().map(|b| b.map(of_candidate));
    }
    let (exported, _) = mps_graph::export(&gradients, "").map_err(text)?;
    let mut named = in_order_of(&descriptor, values_by_key(&exported));
    named.insert("source".into(), gradient("source", &x, &d)?);
    if let Some(h0) = &h0 {
        named.insert("initState".into(), gradient("initState", h0, &d)?);
    }
    for (name, expected) in case.with_prefix("grad.") {
        let got = named
            .get(name)
            .ok_or(format!("{name}: expected a gradient, got none"))?;
        close(name, got, &expected.data, tolerance.gradient)?;
    }
    Ok(())
}

/// Exported arrays with gates z, r, o, in the order of a descriptor.
fn in_order_of(descriptor: &GruDescriptor, mut arrays: Tensors) -> Tensors {
    let directions = if descriptor.bidirectional { 2 } else { 1 };
    for (name, numbers) in &mut arrays {
        if descriptor.reset_gate_first && name != "secondaryBias" {
            let len = numbers.len() / directions;
            for direction in numbers.chunks_exact_mut(len) {
                let (z, rest) = direction.split_at_mut(len / 3);
                z.swap_with_slice(&mut rest[..len / 3]);
            }
        }
    }
    arrays
}

/// The z state contains the gates after their activations, in gate order, as documented.
fn check_z_state(
    case: &Case,
    descriptor: &GruDescriptor,
    z_state: &Tensor<3>,
    tolerance: f64,
) -> Result<(), String> {
    let [t, n, features] = z_state.dims();
    let directions = if descriptor.bidirectional { 2 } else { 1 };
    let h = features / (3 * directions);
    let order = if descriptor.reset_gate_first {
        ["r", "z", "o"]
    } else {
        ["z", "r", "o"]
    };
    for d in 0..directions {
        for (k, gate) in order.iter().enumerate() {
            let got = z_state.clone().narrow(2, (3 * d + k) * h, h);
            let recorded = case.tensor(&format!("aux.{gate}"));
            let rows = recorded.data.chunks_exact(directions * h);
            let expected: Vec<f64> = rows.flat_map(|row| &row[d * h..][..h]).copied().collect();
            assert_eq!(expected.len(), t * n * h);
            close(
                &format!("z_state {gate}"),
                &values(got),
                &expected,
                tolerance,
            )?;
        }
    }
    Ok(())
}
