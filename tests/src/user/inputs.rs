//! Inputs that are views: one row, step or value for all (stride 0).

use super::{H, I, N, T, Test, runs, values};
use burn::tensor::{Device, Tensor};
use gru_op::{GruSpec, GruWeights, SequenceOptions, gru_sequence_with};
use gru_testkit::{
    close::{Tolerance, close},
    random::numbers,
};

pub const TESTS: &[(&str, Test)] = &[("expanded", expanded)];

/// Every argument expanded from one row, one step or one value. Outputs and gradients equal those of contiguous copies.
fn expanded(device: &Device) -> Result<(), String> {
    let device = &device.clone().autodiff();
    fn leaf<const D: usize>(name: &str, shape: [usize; D], device: &Device) -> Tensor<D> {
        runs::random(name, shape, device).require_grad()
    }
    let (d_y, d_h_t) = (numbers("d_y", N * T * H, 1.0), numbers("d_h_t", N * H, 1.0));
    let run = |make_copy: bool| -> Result<[Vec<f64>; 7], String> {
        fn view<const D: usize>(leaf: &Tensor<D>, shape: [usize; D], make_copy: bool) -> Tensor<D> {
            let view = leaf.clone().expand(shape);
            if make_copy { view * 1.0 } else { view }
        }
        let x = leaf("x", [1, T, I], device);
        let h0 = leaf("h0", [1, 1], device);
        let w_ih = leaf("w_ih", [1, 3 * H], device);
        let w_hh = leaf("w_hh", [1, 3 * H], device);
        let b_ih = leaf("b_ih", [1], device);
        let mask = leaf("mask", [1, H], device);
        let zoneout = leaf("zoneout", [1, 1, H], device).abs();
        let steps = Tensor::<2, burn::tensor::Bool>::full([1, 1], true, device).expand([N, T]);
        let options = SequenceOptions::new()
            .state(view(&h0, [N, H], make_copy))
            .recurrent_mask(view(&mask, [N, H], make_copy))
            .zoneout(view(&zoneout, [N, T, H], make_copy))
            .mask(steps);
        let weights = GruWeights::new(
            view(&w_ih, [I, 3 * H], make_copy),
            view(&w_hh, [H, 3 * H], make_copy),
        )
        .with_b_ih(view(&b_ih, [3 * H], make_copy));
        let x_of_all = view(&x, [N, T, I], make_copy);
        let (y, h_t) = gru_sequence_with(x_of_all, &weights, &GruSpec::default(), options);
        let total = runs::loss(&y, &d_y) + runs::loss(&h_t, &d_h_t);
        let gradients = total.backward();
        Ok([
            values(y),
            values(h_t),
            runs::gradient("x", &x, &gradients)?,
            runs::gradient("h0", &h0, &gradients)?,
            runs::gradient("w_ih", &w_ih, &gradients)?,
            runs::gradient("w_hh", &w_hh, &gradients)?,
            runs::gradient("b_ih", &b_ih, &gradients)?,
        ])
    };
    let names = ["y", "h_t", "d_x", "d_h0", "d_w_ih", "d_w_hh", "d_b_ih"];
    for ((name, got), expected) in names.iter().zip(run(false)?).zip(run(true)?) {
        close(name, &got, &expected, Tolerance::F32.gradient)?;
    }
    Ok(())
}
