//! `torch.nn.GRU`, including packed sequences, and `torch.nn.GRUCell`, with PyTorch's key names.

use burn::tensor::{Device, Tensor};
use gru_convert::{StateDict, pytorch};
use gru_op::SequenceOptions;
use gru_testkit::{
    close::{Outcome, Tensors},
    conformance::Case,
};

use super::{gradients_of, leaf, state_dict, text, values_by_key};
use crate::runs::{self, gradient, values};

pub fn run(case: &Case, device: &Device) -> Result<Outcome, String> {
    let device = device.clone().autodiff();
    let dict = state_dict(case, |name| {
        name.starts_with("weight_") || name.starts_with("bias_")
    });
    match case.spec.flag("cell") {
        Some(true) => cell(case, &dict, &device),
        _ => block(case, &dict, &device),
    }
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
    let config = pytorch::config(dict, "")
        .map_err(text)?
        .with_batch_first(case.spec.flag("batch_first").unwrap_or(false));
    let block = pytorch::import(dict, "", &config, device).map_err(text)?;
    let x: Tensor<3> = leaf(case.tensor("in.x"), device);
    let h0: Option<Tensor<3>> = case.get("in.h0").map(|h0| leaf(h0, device));
    let (output, h_n) = match case.get("in.lengths") {
        Some(lengths) => {
            let lengths: Vec<usize> = lengths.data.iter().map(|&len| len as usize).collect();
            {
                let options = SequenceOptions::new().state(h0.clone()).lengths(&lengths);
                block.forward_with(x.clone(), options)
            }
        }
        None => block.forward(x.clone(), h0.clone()),
    };
    let loss = runs::loss(&output, &case.tensor("up.grad_output").data)
        + runs::loss(&h_n, &case.tensor("up.grad_h_n").data);
    let gradients = loss.backward();
    let exported = pytorch::export(&gradients_of(&block, &gradients)?, "");
    let mut named = values_by_key(&exported.map_err(text)?);
    named.insert("x".into(), gradient("x", &x, &gradients)?);
    if let Some(h0) = &h0 {
        named.insert("h0".into(), gradient("h0", h0, &gradients)?);
    }
    Ok(Outcome {
        outputs: Tensors::from([
            ("output".into(), values(output)),
            ("h_n".into(), values(h_n)),
        ]),
        gradients: named,
    })
}
