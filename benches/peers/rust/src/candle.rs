//! candle's GRU.

use std::{collections::HashMap, hint::black_box, path::Path};

use candle_core::{DType, Device, Error, Result, Tensor, Var};
use candle_nn::{
    VarBuilder,
    rnn::{GRU, GRUConfig, GRUState, RNN},
};

use crate::protocol::Prepared;

const NAMES: [&str; 4] = ["w_ih", "w_hh", "b_ih", "b_hh"];

struct Case {
    layers: Vec<GRU>,
    x: Tensor,
    /// `[N,H]` for each layer.
    h0: Vec<Tensor>,
    upstream: Tensor,
    /// The inputs of the backward pass with the names of their gradients. None in inference.
    variables: Vec<(String, Var)>,
}

impl Case {
    fn new(sizes: [usize; 6], floats: Vec<f32>, trains: bool) -> Result<Self> {
        let [n, t, i, h, layers, _] = sizes;
        let mut floats = floats.into_iter();
        let mut take = |shape: &[usize]| {
            let values: Vec<f32> = floats.by_ref().take(shape.iter().product()).collect();
            Tensor::from_vec(values, shape, &Device::Cpu)
        };
        let mut variables = Vec::new();
        // Inference has plain tensors, because candle keeps a graph of what variables compute.
        let mut input = |name: String, tensor: Tensor| {
            if !trains {
                return Ok(tensor);
            }
            let variable = Var::from_tensor(&tensor)?;
            let tensor = variable.as_tensor().clone();
            variables.push((name, variable));
            Ok::<_, Error>(tensor)
        };
        let x = input("d_x".into(), take(&[n, t, i])?)?;
        let h0 = input("d_h0".into(), take(&[layers, n, h])?)?;
        let upstream = take(&[n, t, h])?;
        let mut grus = Vec::new();
        for layer in 0..layers {
            let inputs = if layer == 0 { i } else { h };
            let shapes = [
                vec![3 * h, inputs],
                vec![3 * h, h],
                vec![3 * h],
                vec![3 * h],
            ];
            let mut named = HashMap::new();
            for (name, shape) in NAMES.iter().zip(shapes) {
                let weight = input(format!("d_{name}.{layer}"), take(&shape)?)?;
                let (kind, of) = name.split_once('_').expect("two words");
                let torch = if kind == "w" { "weight" } else { "bias" };
                named.insert(format!("{torch}_{of}_l0"), weight);
            }
            let weights = VarBuilder::from_tensors(named, DType::F32, &Device::Cpu);
            grus.push(GRU::new(inputs, h, GRUConfig::default(), weights)?);
        }
        let h0 = (0..layers).map(|layer| h0.get(layer));
        Ok(Self {
            layers: grus,
            x,
            h0: h0.collect::<Result<_>>()?,
            upstream,
            variables,
        })
    }

    /// The output, the final states, and with backward the gradients.
    fn call(&self) -> Result<(Tensor, Tensor, Vec<Tensor>)> {
        let mut y = self.x.clone();
        let mut finals = Vec::new();
        for (layer, h0) in self.layers.iter().zip(&self.h0) {
            let states = layer.seq_init(&y, &GRUState { h: h0.clone() })?;
            finals.push(states[states.len() - 1].h.clone());
            // `GRU::states_to_tensor` makes `[N,T·H]` of them.
            y = Tensor::stack(&states.iter().map(|state| &state.h).collect::<Vec<_>>(), 1)?;
        }
        let mut gradients = Vec::new();
        if !self.variables.is_empty() {
            let store = (&y * &self.upstream)?.sum_all()?.backward()?;
            for (name, variable) in &self.variables {
                let gradient = store
                    .get(variable)
                    .ok_or(Error::Msg(format!("no {name}")))?;
                gradients.push(gradient.clone());
            }
        }
        Ok((y, Tensor::stack(&finals, 0)?, gradients))
    }

    fn outputs(&self) -> Result<Vec<(String, Vec<f32>)>> {
        let (y, state, gradients) = self.call()?;
        let names = self.variables.iter().map(|(name, _)| name.as_str());
        let named = ["y", "h_n"].into_iter().chain(names);
        named
            .zip([y, state].into_iter().chain(gradients))
            .map(|(name, tensor)| Ok((name.to_owned(), tensor.flatten_all()?.to_vec1()?)))
            .collect()
    }
}

pub fn prepare(problem: &Path, trains: bool) -> crate::Result<Prepared> {
    let (sizes, floats) = crate::read(problem)?;
    if sizes[5] != 1 {
        return Err("one direction only".into());
    }
    let case = Case::new(sizes, floats, trains)?;
    Ok(Prepared {
        outputs: case.outputs()?,
        note: "",
        calls: Box::new(move |count| {
            for _ in 0..count {
                black_box(case.call().expect("the first call returned no error"));
            }
        }),
    })
}
