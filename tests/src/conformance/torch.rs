//! `torch.nn.GRU`, including packed sequences, `torch.nn.GRUCell`, and TorchRL's `GRUModule` with starts, all with
//! PyTorch's key names.

use burn::tensor::{Device, Tensor};
use gru_convert::{StateDict, pytorch};
use gru_op::{GruBlock, SequenceOptions, pack, unpack};
use gru_testkit::{
    close::{Outcome, Tensors},
    conformance::{Array, Case},
};

use super::{constant, gradients_of, leaf, state_dict, text, values_by_key};
use crate::{
    backends::TestBackend,
    runs::{self, gradient, values},
};

pub fn run(case: &Case, device: &Device) -> Result<Outcome, String> {
    let device = device.clone().autodiff();
    let dict = weights(case);
    match case.spec.flag("cell") {
        Some(true) => cell(case, &dict, &device),
        _ => block(case, &dict, &device),
    }
}

fn weights(case: &Case) -> StateDict {
    state_dict(case, |name| {
        name.starts_with("weight_") || name.starts_with("bias_")
    })
}

fn cell(case: &Case, dict: &StateDict, device: &Device) -> Result<Outcome, String> {
    let config = pytorch::config(dict, "").map_err(text)?;
    let block = pytorch::import(dict, "", &config, device).map_err(text)?;
    let x: Tensor<2> = leaf(case.tensor("in.x"), device);
    let hx: Tensor<2> = leaf(case.tensor("in.hx"), device);
    let (h, _) = block.step(x.clone(), Some(hx.clone().unsqueeze_dim(0)));
    let gradients = runs::loss(&h, &case.tensor("up.grad_h").data).backward();
    let exported = pytorch::export(&gradients_of(&block, &gradients)?, "")
        .and_then(|dict| dict.renamed(|key| key.replace("_l0", "")));
    let mut named = values_by_key(&exported.map_err(text)?);
    named.insert("x".into(), gradient("x", &x, &gradients)?);
    named.insert("hx".into(), gradient("hx", &hx, &gradients)?);
    Ok(Outcome {
        outputs: Tensors::from([("h".into(), values(h))]),
        gradients: named,
    })
}

fn block(case: &Case, dict: &StateDict, device: &Device) -> Result<Outcome, String> {
    let options = match case.get("in.lengths") {
        Some(lengths) => SequenceOptions::new().lengths(&integers(lengths)),
        None => SequenceOptions::new(),
    };
    sequence(case, dict, device, |block, x, [h0, _]| {
        block.forward_with(x, options.clone().state(h0))
    })
}

fn integers(array: &Array) -> Vec<usize> {
    array.data.iter().map(|&len| len as usize).collect()
}

/// Packed sequences as packed rows.
pub fn packed(case: &Case, device: &Device, backend: &TestBackend) -> Result<(), String> {
    let device = &device.clone().autodiff();
    let dict = weights(case);
    let lengths = integers(case.tensor("in.lengths"));
    let got = sequence(case, &dict, device, |block, x, [h0, _]| {
        let swapped = |x: Tensor<3>| {
            if block.batch_first {
                x
            } else {
                x.swap_dims(0, 1)
            }
        };
        let (y, h_n) = block.forward_packed(pack(swapped(x.clone()), &lengths), &lengths, h0);
        // Steps past the longest row.
        let y = swapped(unpack(y, &lengths));
        let [shape, mut missing] = [x.dims(), y.dims()];
        let time = usize::from(block.batch_first);
        missing[time] = shape[time] - missing[time];
        let zeros = Tensor::zeros(missing, (&y.device(), y.dtype()));
        (Tensor::cat(vec![y, zeros], time), h_n)
    })?;
    let tolerance = backend.tolerance(case.tolerance());
    got.compare(&super::expected(case), tolerance)
}

/// TorchRL's `GRUModule` over several steps.
pub fn run_with_starts(case: &Case, device: &Device) -> Result<Outcome, String> {
    let device = &device.clone().autodiff();
    let dict = weights(case);
    let starts: Tensor<2> = constant(case.tensor("in.starts"), device);
    let options = SequenceOptions::new().starts(starts.equal_elem(1));
    sequence(case, &dict, device, |block, x, [h0, start_state]| {
        block.forward_with(x, options.clone().state(h0).start_state(start_state))
    })
}

/// The outputs and gradients of a block, from `h0` and, at starts, from `start_state`.
fn sequence(
    case: &Case,
    dict: &StateDict,
    device: &Device,
    run: impl Fn(&GruBlock, Tensor<3>, [Option<Tensor<3>>; 2]) -> (Tensor<3>, Tensor<3>),
) -> Result<Outcome, String> {
    let of_torchrl = case.spec.kind() == "torchrl_gru";
    let batch_first = case.spec.flag("batch_first").unwrap_or(of_torchrl);
    let config = pytorch::config(dict, "")
        .map_err(text)?
        .with_batch_first(batch_first);
    let block = pytorch::import(dict, "", &config, device).map_err(text)?;
    let x: Tensor<3> = leaf(case.tensor("in.x"), device);
    let [h0, start_state] = ["h0", "start_state"].map(|name| {
        let state = case.get(&format!("in.{name}"));
        state.map(|state| leaf::<3>(state, device))
    });
    let (output, h_n) = run(&block, x.clone(), [h0.clone(), start_state.clone()]);
    let loss = runs::loss(&output, &case.tensor("up.grad_output").data)
        + runs::loss(&h_n, &case.tensor("up.grad_h_n").data);
    let gradients = loss.backward();
    let exported = pytorch::export(&gradients_of(&block, &gradients)?, "");
    let mut named = values_by_key(&exported.map_err(text)?);
    for (name, input) in [
        ("x", Some(&x)),
        ("h0", h0.as_ref()),
        ("start_state", start_state.as_ref()),
    ] {
        if let Some(input) = input {
            named.insert(name.into(), gradient(name, input, &gradients)?);
        }
    }
    Ok(Outcome {
        outputs: Tensors::from([
            ("output".into(), values(output)),
            ("h_n".into(), values(h_n)),
        ]),
        gradients: named,
    })
}
