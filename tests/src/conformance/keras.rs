//! `keras.layers.GRU`: masks with gaps, `go_backwards`, only the last output.

use burn::tensor::{Device, Tensor, TensorData};
use gru_convert::keras;
use gru_op::{Reset, SequenceOptions};
use gru_testkit::{
    close::{Outcome, Tensors},
    conformance::Case,
};

use super::{gradients_of, leaf, state_dict, text, values_by_key};
use crate::runs::{self, gradient, values};

pub fn run(case: &Case, device: &Device) -> Result<Outcome, String> {
    let device = &device.clone().autodiff();
    let spec = &case.spec;
    let option = |name: &str, default: &str| -> String {
        spec.option(name).as_str().unwrap_or(default).to_owned()
    };
    let reset = match spec.flag("reset_after") {
        Some(true) => Reset::AfterMatmul,
        _ => Reset::BeforeMatmul,
    };
    let dict = state_dict(case, |name| {
        ["kernel", "recurrent_kernel", "bias"].contains(&name)
    });
    let activations = keras::activations(
        &option("activation", "tanh"),
        &option("recurrent_activation", "sigmoid"),
    );
    let backwards = spec.flag("go_backwards") == Some(true);
    let mut config = keras::config(&dict, "")
        .map_err(text)?
        .with_reverse(backwards)
        .with_activations(activations.map_err(text)?);
    if !config.bias {
        // Only the shape of the bias shows the reset form.
        config.spec.reset = reset;
    } else if config.spec.reset != reset {
        return Err(format!(
            "inferred {:?}, expected {reset:?}",
            config.spec.reset
        ));
    }
    let block = keras::import(&dict, "", &config, device).map_err(text)?;

    let x: Tensor<3> = leaf(case.tensor("in.x"), device);
    let initial: Option<Tensor<2>> = case.get("in.initial_state").map(|h| leaf(h, device));
    let state = initial.clone().map(|h| h.unsqueeze_dim::<3>(0));
    let (output, state) = match case.get("in.mask") {
        Some(mask) => {
            let steps: Vec<bool> = mask.data.iter().map(|&m| m != 0.0).collect();
            let mask = Tensor::from_data(TensorData::new(steps, mask.shape.clone()), device);
            block.forward_with(x.clone(), SequenceOptions::new().state(state).mask(mask))
        }
        None => block.forward(x.clone(), state),
    };
    // Keras returns the output in the order of processing.
    let output = if backwards { reversed(output) } else { output };
    let state = state.squeeze_dim::<2>(0);
    let up = |name: &str| &case.tensor(name).data;
    let (output, loss) = match spec.flag("return_sequences") {
        Some(false) => {
            let [_, t, _] = output.dims();
            let last: Tensor<2> = output.narrow(1, t - 1, 1).squeeze_dim(1);
            (
                values(last.clone()),
                runs::loss(&last, up("up.grad_output")),
            )
        }
        _ => (
            values(output.clone()),
            runs::loss(&output, up("up.grad_output")),
        ),
    };
    let gradients = (loss + runs::loss(&state, up("up.grad_state"))).backward();
    let exported = keras::export(&gradients_of(&block, &gradients)?, "");
    let mut named = values_by_key(&exported.map_err(text)?);
    named.insert("x".into(), gradient("x", &x, &gradients)?);
    if let Some(initial) = &initial {
        let of_initial = gradient("initial_state", initial, &gradients)?;
        named.insert("initial_state".into(), of_initial);
    }
    Ok(Outcome {
        outputs: Tensors::from([("output".into(), output), ("state".into(), values(state))]),
        gradients: named,
    })
}

/// Reverses the time axis without `flip`. With fusion, Burn 0.22.1 sends the flip of a float tensor as a
/// flip of an integer tensor, which ends the session of a remote device.
fn reversed(sequence: Tensor<3>) -> Tensor<3> {
    let [_, t, _] = sequence.dims();
    let steps: Vec<i32> = (0..t as i32).rev().collect();
    let steps = Tensor::from_data(
        TensorData::from(steps.as_slice()),
        &sequence.device().inner(),
    );
    sequence.select(1, steps)
}
