//! `GRUBlockCell` and `GRUBlockCellGrad`, as single cells and chained over time.

use burn::tensor::{Device, Tensor};
use gru_convert::tensorflow as weights_of;
use gru_op::tensorflow::{gru_block_cell, gru_block_cell_grad, gru_block_cell_weight_grad};
use gru_testkit::{
    close::{Outcome, Tensors, close},
    conformance::{Array, Case},
};

use super::{constant, gradients_of, state_dict, text, values_by_key};
use crate::{
    backends::TestBackend,
    runs::{self, expect, values},
};

pub fn run(case: &Case, device: &Device) -> Result<Outcome, String> {
    let steps = case.spec.number("T").unwrap_or(1);
    let at = |array: &Array, t: usize| -> Tensor<2> {
        let [.., n, features] = array.shape[..] else {
            panic!("every sequence has rows and features");
        };
        let data = array.data[t * n * features..][..n * features].to_vec();
        let shape = vec![n, features];
        constant(&Array { shape, data }, device)
    };
    let input = |name: &str| case.tensor(&format!("in.{name}"));
    let w_ru: Tensor<2> = constant(input("w_ru"), device);
    let w_c: Tensor<2> = constant(input("w_c"), device);
    let b_ru: Tensor<1> = constant(input("b_ru"), device);
    let b_c: Tensor<1> = constant(input("b_c"), device);

    let mut outputs = Tensors::new();
    let mut saved = Vec::new();
    let mut h: Tensor<2> = constant(input("h_prev"), device);
    for t in 0..steps {
        let (x, before) = (at(input("x"), t), h);
        let (r, u, c, new) = gru_block_cell(
            x.clone(),
            before.clone(),
            w_ru.clone(),
            w_c.clone(),
            b_ru.clone(),
            b_c.clone(),
        );
        for (name, tensor) in [("r", &r), ("u", &u), ("c", &c), ("h", &new)] {
            let all = outputs.entry(name.to_owned()).or_default();
            all.extend(values(tensor.clone()));
        }
        saved.push((x, before, r, u, c));
        h = new;
    }

    let mut gradients = Tensors::new();
    let mut carried: Option<Tensor<2>> = None;
    for (t, (x, before, r, u, c)) in saved.into_iter().enumerate().rev() {
        let upstream = at(case.tensor("up.d_h"), t);
        let d_h = match carried {
            Some(carried) => upstream + carried,
            None => upstream,
        };
        let (d_x, d_h_prev, d_c_bar, d_r_bar_u_bar) = gru_block_cell_grad(
            x.clone(),
            before.clone(),
            w_ru.clone(),
            w_c.clone(),
            b_ru.clone(),
            b_c.clone(),
            r.clone(),
            u,
            c,
            d_h,
        );
        let of_weights =
            gru_block_cell_weight_grad(x, before, r, d_c_bar.clone(), d_r_bar_u_bar.clone());
        for (name, tensor) in [
            ("d_x", d_x),
            ("d_c_bar", d_c_bar),
            ("d_r_bar_u_bar", d_r_bar_u_bar),
        ] {
            let later = gradients.remove(name).unwrap_or_default();
            gradients.insert(name.into(), [values(tensor), later].concat());
        }
        for (name, numbers) in [
            ("d_w_ru", values(of_weights.d_w_ru)),
            ("d_w_c", values(of_weights.d_w_c)),
            ("d_b_ru", values(of_weights.d_b_ru)),
            ("d_b_c", values(of_weights.d_b_c)),
        ] {
            let sum = gradients
                .entry(name.to_owned())
                .or_insert_with(|| vec![0.0; numbers.len()]);
            sum.iter_mut().zip(numbers).for_each(|(sum, d)| *sum += d);
        }
        carried = Some(d_h_prev);
    }
    let d_h_prev = carried.expect("there is at least one step");
    gradients.insert("d_h_prev".into(), values(d_h_prev));
    Ok(Outcome { outputs, gradients })
}

/// Two other paths through the same cell: autodiff of the cell function, and autodiff of a block with
/// the imported weights. The block exports its gradients under TensorFlow's names.
pub fn by_autodiff(case: &Case, device: &Device, backend: &TestBackend) -> Result<(), String> {
    let device = &device.clone().autodiff();
    let tolerance = backend.tolerance(case.tolerance());
    let input = |name: &str| case.tensor(&format!("in.{name}"));
    let d_h = &case.tensor("up.d_h").data;
    let expected = |name: &str| &case.tensor(&format!("grad.{name}")).data;

    let x: Tensor<2> = super::leaf(input("x"), device);
    let h_prev: Tensor<2> = super::leaf(input("h_prev"), device);
    let w_ru: Tensor<2> = super::leaf(input("w_ru"), device);
    let w_c: Tensor<2> = super::leaf(input("w_c"), device);
    let b_ru: Tensor<1> = super::leaf(input("b_ru"), device);
    let b_c: Tensor<1> = super::leaf(input("b_c"), device);
    let cell = |x: Tensor<2>| {
        let (h_prev, w_ru, w_c) = (h_prev.clone(), w_ru.clone(), w_c.clone());
        gru_block_cell(x, h_prev, w_ru, w_c, b_ru.clone(), b_c.clone())
    };
    let (.., h) = cell(x.clone());
    let d = runs::loss(&h, d_h).backward();
    for (name, got) in [
        ("d_x", runs::gradient("x", &x, &d)?),
        ("d_h_prev", runs::gradient("h_prev", &h_prev, &d)?),
        ("d_w_ru", runs::gradient("w_ru", &w_ru, &d)?),
        ("d_w_c", runs::gradient("w_c", &w_c, &d)?),
        ("d_b_ru", runs::gradient("b_ru", &b_ru, &d)?),
        ("d_b_c", runs::gradient("b_c", &b_c, &d)?),
    ] {
        close(name, &got, expected(name), tolerance.gradient)?;
    }

    let of_gates = |x: Tensor<2>| {
        let (r, u, c, _) = cell(x);
        let d = (runs::loss(&r, d_h) + runs::loss(&u, d_h) + runs::loss(&c, d_h)).backward();
        Ok::<_, String>([
            runs::gradient("w_ru", &w_ru, &d)?,
            runs::gradient("w_c", &w_c, &d)?,
        ])
    };
    // Plain data next to tracked weights.
    let [plain, tracked] = [x.clone().inner(), x.clone()].map(of_gates);
    expect("gradients for plain data", plain?, tracked?)?;

    let dict = state_dict(case, |name| {
        name.starts_with("w_") || name.starts_with("b_")
    });
    let config = weights_of::config(&dict, "").map_err(text)?;
    let block = weights_of::import(&dict, "", &config, device).map_err(text)?;
    let (h, _) = block.step(x, Some(h_prev.unsqueeze_dim(0)));
    close(
        "h",
        &values(h.clone()),
        &case.tensor("out.h").data,
        tolerance.forward,
    )?;
    let d = runs::loss(&h, d_h).backward();
    let exported = weights_of::export(&gradients_of(&block, &d)?, "").map_err(text)?;
    for (name, got) in values_by_key(&exported) {
        close(
            &name,
            &got,
            expected(&format!("d_{name}")),
            tolerance.gradient,
        )?;
    }
    Ok(())
}
