//! Packed batches of blocks: equal to the padded batch with lengths, values and every gradient. Conversions.
//! `options` compares the operator with the oracle.

use super::{
    backends::TestBackend,
    runs::{gradient, loss, random, tensor, values},
};
use burn::tensor::{DType, Device, Tensor};
use gru_op::{GruBlock, GruBlockConfig, SequenceOptions, pack, unpack};
use gru_testkit::{
    close::{Outcome, Tensors, Tolerance},
    random::numbers,
};
use libtest_mimic::Trial;

const I: usize = 3;
const H: usize = 7;

/// The lengths of the rows, by name.
const BATCHES: [(&str, &[usize]); 4] = [
    // Unsorted, repeated and zero, first and last.
    ("unequal", &[0, 4, 6, 1, 4, 0]),
    ("sorted", &[5, 2, 2]),
    ("equal", &[4, 4, 4]),
    ("one-step", &[1, 1, 1]),
];

pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for &backend in backends {
        let tolerance = backend.tolerance(Tolerance::F32);
        let id = |name: &str| format!("ragged/{name}/{}", backend.name);
        for (name, lengths) in BATCHES {
            let batch = Batch { lengths };
            trials.push(backend.trial(id(&format!("block-{name}")), move |device| {
                block(batch, device, tolerance)
            }));
        }
        trials.push(backend.trial(id("conversions"), conversions));
    }
    trials
}

/// Rows of these lengths.
#[derive(Clone, Copy)]
struct Batch {
    lengths: &'static [usize],
}

impl Batch {
    fn n(&self) -> usize {
        self.lengths.len()
    }

    fn t(&self) -> usize {
        self.lengths.iter().copied().max().unwrap_or(0)
    }

    /// The valid rows of `[N,T,features]` values.
    fn valid(&self, rows: &[f64]) -> Vec<f64> {
        let (n, t) = (self.n(), self.t());
        let features = rows.len() / (n * t);
        let places = (0..n).flat_map(|row| (0..self.lengths[row]).map(move |s| row * t + s));
        places
            .flat_map(|at| rows[at * features..][..features].to_vec())
            .collect()
    }

    /// `[N,T,features]` values, and the same without padding.
    fn both(&self, features: usize, device: &Device) -> [Tensor<2>; 2] {
        let (n, t) = (self.n(), self.t());
        let rows = numbers("rows", n * t * features, 1.0);
        let packed = self.valid(&rows);
        let m = self.lengths.iter().sum();
        [
            tensor(&rows, [n * t, features], device, DType::F32),
            tensor(&packed, [m, features], device, DType::F32),
        ]
    }
}

fn block(batch: Batch, device: &Device, tolerance: Tolerance) -> Result<(), String> {
    let (n, t, lengths) = (batch.n(), batch.t(), batch.lengths);
    let device = &device.clone().autodiff();
    let block: GruBlock = GruBlockConfig::new(I, H)
        .with_num_layers(2)
        .with_bidirectional(true)
        .init(device);
    let ([x, x_packed], [d_y, _]) = (batch.both(I, device), batch.both(2 * H, device));
    let d_y = values(d_y);
    let d_last = numbers("d_last", 4 * n * H, 1.0);
    let run = |is_packed: bool| -> Result<Outcome, String> {
        let state: Tensor<3> = random("state", [4, n, H], device).require_grad();
        let x = if is_packed { &x_packed } else { &x }
            .clone()
            .require_grad();
        let (y, last) = if is_packed {
            block.forward_packed(x.clone(), lengths, Some(state.clone()))
        } else {
            let options = SequenceOptions::new().state(state.clone()).lengths(lengths);
            let (y, last) = block.forward_with(x.clone().reshape([n, t, I]), options);
            (y.reshape([n * t, 2 * H]), last)
        };
        let d_y = if is_packed {
            batch.valid(&d_y)
        } else {
            d_y.clone()
        };
        let gradients = (loss(&y, &d_y) + loss(&last, &d_last)).backward();
        let packed = |all: Vec<f64>| if is_packed { all } else { batch.valid(&all) };
        let mut named = Tensors::from([
            ("x".into(), packed(gradient("x", &x, &gradients)?)),
            ("h0".into(), gradient("state", &state, &gradients)?),
        ]);
        for (k, layer) in block.layers.iter().enumerate() {
            for (name, weight) in [("w_ih", &layer.w_ih), ("w_hh", &layer.w_hh)] {
                let d = gradient(name, &weight.val(), &gradients)?;
                named.insert(format!("{name} of layer {k}"), d);
            }
            for (name, bias) in [("b_ih", &layer.b_ih), ("b_hh", &layer.b_hh)] {
                let bias = bias.as_ref().ok_or("the block has biases")?;
                let d = gradient(name, &bias.val(), &gradients)?;
                named.insert(format!("{name} of layer {k}"), d);
            }
        }
        let outputs = [
            ("y".into(), packed(values(y))),
            ("h_t".into(), values(last)),
        ];
        Ok(Outcome {
            gradients: named,
            outputs: Tensors::from(outputs),
        })
    };
    run(true)?.compare(&run(false)?, tolerance)
}

/// The numbers are `10·row + step`.
fn conversions(device: &Device) -> Result<(), String> {
    let expect = |name: &str, got: Vec<f64>, expected: &[f64]| {
        if got == expected {
            Ok(())
        } else {
            Err(format!("{name}: expected {expected:?}, got {got:?}"))
        }
    };
    let numbers =
        |numbers: &[f64]| -> Tensor<2> { tensor(numbers, [numbers.len(), 1], device, DType::F32) };
    let rows = [0.0, 1.0, 10.0, 11.0, 12.0, 20.0];
    let lengths = [2, 3, 1];
    let padded = unpack(numbers(&rows), &lengths);
    let expected = [0.0, 1.0, 0.0, 10.0, 11.0, 12.0, 20.0, 0.0, 0.0];
    expect("unpack", values(padded.clone()), &expected)?;
    let nan = padded.clone() / padded; // NaN in the padding, and at step 0 of row 0
    let packed = values(pack(nan, &lengths));
    expect("pack", packed[1..].to_vec(), &[1.0; 5])?;

    let empty = unpack(numbers(&[]), &[0, 0]);
    if empty.dims() != [2, 0, 1] || pack(empty, &[0, 0]).dims() != [0, 1] {
        return Err("expected empty rows".into());
    }
    Ok(())
}
