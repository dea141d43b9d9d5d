//! candle's GRU as a peer of the benchmark. `benches/peer.rs` describes the protocol.

use std::{
    collections::HashMap,
    fs,
    io::{BufRead, Write, stdin, stdout},
    time::Instant,
};

use candle_core::{DType, Device, Error, Result, Tensor, Var};
use candle_nn::{
    VarBuilder,
    rnn::{GRU, GRUConfig, GRUState, RNN},
};

const NAMES: [&str; 4] = ["w_ih", "w_hh", "b_ih", "b_hh"];

struct Case {
    layers: Vec<GRU>,
    x: Tensor,
    /// `[N,H]` for each layer.
    h0: Vec<Tensor>,
    /// None in inference.
    training: Option<Training>,
}

struct Training {
    upstream: Tensor,
    /// The inputs of the backward pass with the names of their gradients.
    variables: Vec<(String, Var)>,
}

impl Case {
    fn new(bytes: &[u8], trains: bool) -> Result<Self> {
        let words: Vec<[u8; 4]> = bytes
            .chunks_exact(4)
            .map(|b| [b[0], b[1], b[2], b[3]])
            .collect();
        let head: Vec<usize> = words[..8]
            .iter()
            .map(|&b| i32::from_le_bytes(b) as usize)
            .collect();
        let [n, t, i, h, layers, directions, kind, _] = head[..] else {
            unreachable!("eight numbers")
        };
        if (kind, directions) != (0, 1) {
            return Err(Error::Msg(
                "one direction, without starts and lengths, only".into(),
            ));
        }
        let mut floats = words[8..].iter().map(|&b| f32::from_le_bytes(b));
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
        Ok(Self {
            layers: grus,
            x,
            h0: (0..layers)
                .map(|layer| h0.get(layer))
                .collect::<Result<_>>()?,
            training: trains.then_some(Training {
                upstream,
                variables,
            }),
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
        if let Some(training) = &self.training {
            let store = (&y * &training.upstream)?.sum_all()?.backward()?;
            for (name, variable) in &training.variables {
                let gradient = store
                    .get(variable)
                    .ok_or(Error::Msg(format!("no {name}")))?;
                gradients.push(gradient.clone());
            }
        }
        Ok((y, Tensor::stack(&finals, 0)?, gradients))
    }

    /// Writes the outputs, and returns their names.
    fn outputs(&self, path: &str) -> Result<String> {
        let (y, state, gradients) = self.call()?;
        let mut names = vec!["y", "h_n"];
        if let Some(training) = &self.training {
            names.extend(training.variables.iter().map(|(name, _)| name.as_str()));
        }
        let mut bytes = Vec::new();
        for tensor in [y, state].into_iter().chain(gradients) {
            for value in tensor.flatten_all()?.to_vec1::<f32>()? {
                bytes.extend(value.to_le_bytes());
            }
        }
        fs::write(path, bytes)?;
        Ok(names.join(" "))
    }
}

/// The version in Cargo.lock.
fn version() -> &'static str {
    let lock = include_str!("../Cargo.lock");
    let entry = lock.split("name = \"candle-core\"\nversion = \"").nth(1);
    entry
        .and_then(|entry| entry.split('"').next())
        .unwrap_or("unknown")
}

/// The first call of a process starts threads. A call of zeros before `ready` leaves their memory out of the peak.
fn start() -> Result<()> {
    let [n, t, i, h] = [64i32, 4, 64, 128];
    let head = [n, t, i, h, 1, 1, 0, 0];
    let floats = n * t * (i + h) + n * h + 3 * h * (i + h + 2);
    let mut bytes: Vec<u8> = head.iter().flat_map(|size| size.to_le_bytes()).collect();
    bytes.resize(4 * (head.len() + floats as usize), 0);
    Case::new(&bytes, true)?.call()?;
    Ok(())
}

fn main() -> Result<()> {
    start()?;
    say(&format!("ready\t{}", version()));
    let mut case = None;
    for line in stdin().lock().lines() {
        match line?.split('\t').collect::<Vec<_>>()[..] {
            ["prepare", problem, mode, out] => {
                drop(case.take());
                match Case::new(&fs::read(problem)?, mode == "fwd_bwd") {
                    Ok(new) => {
                        say(&format!("ok\t{}\t", new.outputs(out)?));
                        case = Some(new);
                    }
                    Err(reason) => say(&format!("no\t{reason}")),
                }
            }
            ["sample", warm_up, calls] => {
                let case = case.as_ref().expect("a problem is prepared");
                let count = |text: &str| text.parse::<usize>().expect("the driver sends numbers");
                for _ in 0..count(warm_up) {
                    case.call()?;
                }
                let start = Instant::now();
                for _ in 0..count(calls) {
                    case.call()?;
                }
                say(&format!("ok\t{}", start.elapsed().as_nanos()));
            }
            _ => say("no\tunknown request"),
        }
    }
    Ok(())
}

fn say(line: &str) {
    println!("{line}");
    stdout().flush().expect("the driver reads");
}
