//! rten and tract, with the ONNX model of `onnx_peer.py`.

use std::{
    env,
    hint::black_box,
    path::{Path, PathBuf},
    process::Command,
};

use rten::Model;
use rten_tensor::{NdTensor, Tensor, prelude::*};
use tract_linalg::multithread::{Executor, set_default_executor};
use tract_onnx::prelude::{self, Framework, InferenceModelExt, IntoRunnable, TValue, TVec, onnx};

use crate::{Result, protocol::Prepared};

const WRITE: &str = concat!(
    include_str!("../../protocol.py"),
    include_str!("../../onnx_peer.py")
);

pub fn rten(problem: &Path, trains: bool) -> Result<Prepared> {
    let (path, sizes, inputs) = model(problem, trains)?;
    let model = Model::load_file(path)?;
    let inputs = inputs.map(|(shape, floats)| NdTensor::from_data(shape, floats));
    let inputs: Vec<_> = inputs.collect();
    let call = move || {
        let views = inputs.iter().map(|input| input.view().into());
        let inputs = model.input_ids().iter().copied().zip(views).collect();
        let results = model.run(inputs, model.output_ids(), None);
        results.expect("the model is valid")
    };
    let results = call().into_iter().map(|value| {
        let tensor: Tensor<f32> = value.try_into().expect("all outputs are float32");
        tensor.to_vec()
    });
    Ok(prepared(sizes, results.collect(), call))
}

pub fn tract(problem: &Path, trains: bool) -> Result<Prepared> {
    let (path, sizes, inputs) = model(problem, trains)?;
    let threads = env::var("RAYON_NUM_THREADS")?.parse()?;
    if threads > 1 {
        set_default_executor(Executor::multithread(threads));
    }
    let model = onnx().model_for_path(path)?;
    let model = model.into_optimized()?.into_runnable()?;
    let inputs = inputs.map(|(shape, floats)| prelude::Tensor::from_shape(&shape, &floats));
    let inputs = inputs
        .map(|tensor| tensor.map(TValue::from))
        .collect::<prelude::TractResult<TVec<_>>>()?;
    // An error for I = 1, `audio`: "xw not contiguous".
    let results = model.run(inputs.clone())?.into_iter().map(|value| {
        let floats = value.to_plain_array_view::<f32>();
        let floats = floats.expect("all outputs are float32");
        floats.iter().copied().collect()
    });
    let results = results.collect();
    let call = move || model.run(inputs.clone()).expect("it ran before");
    Ok(prepared(sizes, results, call))
}

/// A shape and its numbers.
type Input = ([usize; 3], Vec<f32>);

/// The ONNX model of a problem, its sizes, and its inputs: x as `[T,N,I]`, and the states of each layer, `[D,N,H]`.
fn model(
    problem: &Path,
    trains: bool,
) -> Result<(PathBuf, [usize; 6], impl Iterator<Item = Input>)> {
    if trains {
        return Err("inference only".into());
    }
    let (sizes, floats) = crate::read(problem)?;
    let path = problem.with_extension("onnx");
    let mut python = Command::new(env::current_exe()?.with_file_name("python"));
    let python = python.args(["-c", WRITE, "write"]).args([problem, &path]);
    assert!(python.status()?.success(), "{python:?}");
    let [n, t, i, h, layers, directions] = sizes;
    let (x, rest) = floats.split_at(n * t * i);
    let x = ([t, n, i], swap(x, [n, t, i]));
    let states = rest[..layers * directions * n * h].chunks(directions * n * h);
    let states = states.map(|state| ([directions, n, h], state.to_vec()));
    let inputs: Vec<_> = std::iter::once(x).chain(states).collect();
    Ok((path, sizes, inputs.into_iter()))
}

/// From a call, and the outputs of the first one: y `[T,D,N,H]`, and a state of each layer.
fn prepared<R>(
    sizes: [usize; 6],
    results: Vec<Vec<f32>>,
    call: impl Fn() -> R + 'static,
) -> Prepared {
    let [n, t, _, h, _, directions] = sizes;
    let y = swap(&results[0], [t * directions, n, h]);
    Prepared {
        outputs: vec![("y".into(), y), ("h_n".into(), results[1..].concat())],
        note: "",
        calls: Box::new(move |count| (0..count).for_each(|_| drop(black_box(call())))),
    }
}

/// An array `[A,B,C]` as `[B,A,C]`.
fn swap(floats: &[f32], [a, b, c]: [usize; 3]) -> Vec<f32> {
    let rows = (0..b).flat_map(|column| (0..a).map(move |row| (row * b + column) * c));
    rows.flat_map(|at| &floats[at..at + c]).copied().collect()
}
