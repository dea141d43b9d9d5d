//! The operator and the block against the recorded vectors of other frameworks.

use burn::{
    module::Param,
    tensor::{DType, Device, Tensor},
};
use gru_op::{GruBlockConfig, GruSpec, GruWeights, gru_cell, gru_sequence};
use gru_testkit::{
    close::{Outcome, Tensors, Tolerance},
    conformance::{Array, Case, CaseSpec},
};
use libtest_mimic::{Failed, Trial};

use super::{backends::TestBackend, runs, vectors};

/// Float64 references, then `torch.nn.GRU` and `GRUCell`, on every backend.
pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    let grad_f64 = vectors::of_kind("grad_f64");
    let (packed, torch): (Vec<_>, Vec<_>) = vectors::of_kind("torch_gru")
        .into_iter()
        .partition(|spec| !spec.option("lengths").is_null());
    let mut trials = Vec::new();
    for backend in backends {
        for spec in &grad_f64 {
            for dtype in backend.dtypes() {
                trials.push(grad_f64_trial(spec, backend, dtype));
            }
        }
        for spec in &torch {
            trials.push(torch_trial(spec, backend));
        }
    }
    let counts = [grad_f64.len(), torch.len(), packed.len()];
    trials.push(Trial::test("conformance/number-of-cases", move || {
        // Packed sequences need lengths, which the operator does not take yet.
        match counts {
            [6, 17, 6] => Ok(()),
            _ => Err(Failed::from(format!("{counts:?}, expected [6, 17, 6]"))),
        }
    }));
    trials
}

/// In float64 against the full numbers, in float32 against the rounded ones.
fn grad_f64_trial(spec: &CaseSpec, backend: &TestBackend, dtype: DType) -> Trial {
    let id = format!("conformance/{}/{}", spec.name(), backend.id(dtype));
    let (spec, backend_of) = (spec.clone(), *backend);
    backend.trial(id, move |device| {
        let case = spec.load(vectors::directory());
        let (twin, tolerance) = match dtype {
            DType::F64 => (".f64", Tolerance::F64),
            _ => ("", case.tolerance()),
        };
        let (problem, inputs, expected) = vectors::grad_f64(&case, twin);
        let got = runs::sequence(gru_sequence, &problem, &inputs, device, dtype)?;
        got.compare(&expected, backend_of.tolerance(tolerance))
    })
}

fn torch_trial(spec: &CaseSpec, backend: &TestBackend) -> Trial {
    let id = format!("conformance/{}/{}", spec.name(), backend.id(DType::F32));
    let (spec, backend_of) = (spec.clone(), *backend);
    backend.trial(id, move |device| {
        let case = spec.load(vectors::directory());
        let device = device.clone().autodiff();
        let got = match spec.flag("cell") {
            Some(true) => torch_cell(&case, &device)?,
            _ => torch_block(&case, &device)?,
        };
        let prefixed = |prefix: &str| -> Tensors {
            case.with_prefix(prefix)
                .map(|(name, array)| (name.to_owned(), array.data.clone()))
                .collect()
        };
        let expected = Outcome {
            outputs: prefixed("out."),
            gradients: prefixed("grad."),
        };
        got.compare(&expected, backend_of.tolerance(case.tolerance()))
    })
}

fn leaf<const D: usize>(array: &Array, device: &Device) -> Tensor<D> {
    let shape = array.shape[..].try_into().expect("the rank is known");
    runs::tensor(&array.data, shape, device, DType::F32).require_grad()
}

/// A weight's gradient as PyTorch stores it: transposed.
fn weight_gradient(
    name: &str,
    leaf: &Tensor<2>,
    gradients: &burn::tensor::Gradients,
) -> Result<(String, Vec<f64>), String> {
    let shape = leaf.dims().to_vec();
    let data = runs::gradient(name, leaf, gradients)?;
    Ok((name.to_owned(), Array { shape, data }.transposed().data))
}

/// `torch.nn.GRUCell` through [`gru_cell`].
fn torch_cell(case: &Case, device: &Device) -> Result<Outcome, String> {
    let weight = |name: &str| leaf::<2>(&case.tensor(name).transposed(), device);
    let bias = |name: &str| case.get(name).map(|bias| leaf::<1>(bias, device));
    let weights = GruWeights {
        w_ih: weight("in.weight_ih"),
        w_hh: weight("in.weight_hh"),
        b_ih: bias("in.bias_ih"),
        b_hh: bias("in.bias_hh"),
    };
    let x: Tensor<2> = leaf(case.tensor("in.x"), device);
    let hx: Tensor<2> = leaf(case.tensor("in.hx"), device);
    let h = gru_cell(x.clone(), Some(hx.clone()), &weights, &GruSpec::default());
    let gradients = runs::loss(&h, &case.tensor("up.grad_h").data).backward();
    let mut named = Tensors::from([
        ("x".into(), runs::gradient("x", &x, &gradients)?),
        ("hx".into(), runs::gradient("hx", &hx, &gradients)?),
        weight_gradient("weight_ih", &weights.w_ih, &gradients)?,
        weight_gradient("weight_hh", &weights.w_hh, &gradients)?,
    ]);
    for (name, bias) in [("bias_ih", &weights.b_ih), ("bias_hh", &weights.b_hh)] {
        if let Some(bias) = bias {
            named.insert(name.into(), runs::gradient(name, bias, &gradients)?);
        }
    }
    Ok(Outcome {
        outputs: Tensors::from([("h".into(), runs::values(h))]),
        gradients: named,
    })
}

/// `torch.nn.GRU` through a block with the recorded weights.
fn torch_block(case: &Case, device: &Device) -> Result<Outcome, String> {
    let spec = &case.spec;
    let size = |name| spec.number(name).expect("every case has its sizes");
    let layers = spec.number("layers").unwrap_or(1);
    let bidirectional = spec.flag("bidirectional").unwrap_or(false);
    let mut block = GruBlockConfig::new(size("I"), size("H"))
        .with_num_layers(layers)
        .with_bidirectional(bidirectional)
        .with_bias(spec.flag("bias").unwrap_or(true))
        .with_batch_first(spec.flag("batch_first").unwrap_or(false))
        .init(device);
    let suffixes: Vec<String> = (0..layers)
        .flat_map(|layer| {
            let directions = ["", "_reverse"]
                .into_iter()
                .take(1 + usize::from(bidirectional));
            directions.map(move |direction| format!("_l{layer}{direction}"))
        })
        .collect();
    if block.layers.len() != suffixes.len() {
        let (got, expected) = (block.layers.len(), suffixes.len());
        return Err(format!("{got} layers, expected {expected}"));
    }
    for (layer, suffix) in block.layers.iter_mut().zip(&suffixes) {
        let weight = |name: &str| {
            let rows = case.tensor(&format!("in.{name}{suffix}"));
            Param::from_tensor(leaf(&rows.transposed(), device))
        };
        let bias = |name: &str| {
            let bias = case.get(&format!("in.{name}{suffix}"))?;
            Some(Param::from_tensor(leaf(bias, device)))
        };
        layer.w_ih = weight("weight_ih");
        layer.w_hh = weight("weight_hh");
        layer.b_ih = bias("bias_ih");
        layer.b_hh = bias("bias_hh");
    }
    let x: Tensor<3> = leaf(case.tensor("in.x"), device);
    let h0: Option<Tensor<3>> = case.get("in.h0").map(|h0| leaf(h0, device));
    let (output, h_n) = block.forward(x.clone(), h0.clone());
    let loss = runs::loss(&output, &case.tensor("up.grad_output").data)
        + runs::loss(&h_n, &case.tensor("up.grad_h_n").data);
    let gradients = loss.backward();
    let mut named = Tensors::from([("x".into(), runs::gradient("x", &x, &gradients)?)]);
    if let Some(h0) = &h0 {
        named.insert("h0".into(), runs::gradient("h0", h0, &gradients)?);
    }
    for (layer, suffix) in block.layers.iter().zip(&suffixes) {
        for (name, weight) in [("weight_ih", &layer.w_ih), ("weight_hh", &layer.w_hh)] {
            let name = format!("{name}{suffix}");
            named.extend([weight_gradient(&name, &weight.val(), &gradients)?]);
        }
        for (name, bias) in [("bias_ih", &layer.b_ih), ("bias_hh", &layer.b_hh)] {
            if let Some(bias) = bias {
                let name = format!("{name}{suffix}");
                let gradient = runs::gradient(&name, &bias.val(), &gradients)?;
                named.insert(name, gradient);
            }
        }
    }
    Ok(Outcome {
        outputs: Tensors::from([
            ("output".into(), runs::values(output)),
            ("h_n".into(), runs::values(h_n)),
        ]),
        gradients: named,
    })
}
