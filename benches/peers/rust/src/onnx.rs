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
use tract_onnx::prelude::{self, Framework, InferenceModelExt, IntoRunnable, TValue, onnx, tvec};

use crate::{Result, protocol::Prepared};

const WRITE: &str = concat!(
    include_str!("../../protocol.py"),
    include_str!("../../onnx_peer.py")
);

pub fn rten(problem: &Path, trains: bool) -> Result<Prepared> {
    let (path, sizes, x) = model(problem, trains)?;
    let model = Model::load_file(path)?;
    let [n, t, i, ..] = sizes;
    let x = NdTensor::from_data([t, n, i], x);
    let call = move || {
        let input = vec![(model.input_ids()[0], x.view().into())];
        let results = model.run(input, model.output_ids(), None);
        results.expect("the model is valid")
    };
    let results = call().into_iter().map(|value| {
        let tensor: Tensor<f32> = value.try_into().expect("all outputs are float32");
        tensor.to_vec()
    });
    Ok(prepared(sizes, results.collect(), call))
}

pub fn tract(problem: &Path, trains: bool) -> Result<Prepared> {
    let (path, sizes, x) = model(problem, trains)?;
    let threads = env::var("RAYON_NUM_THREADS")?.parse()?;
    if threads > 1 {
        set_default_executor(Executor::multithread(threads));
    }
    let model = onnx().model_for_path(path)?;
    let model = model.into_optimized()?.into_runnable()?;
    let [n, t, i, ..] = sizes;
    let x = TValue::from(prelude::Tensor::from_shape(&[t, n, i], &x)?);
    let call = move || model.run(tvec!(x.clone())).expect("the model is valid");
    let results = call().into_iter().map(|value| {
        let floats = value.to_plain_array_view::<f32>();
        let floats = floats.expect("all outputs are float32");
        floats.iter().copied().collect()
    });
    Ok(prepared(sizes, results.collect(), call))
}

/// The ONNX model of a problem, its sizes, and x as `[T,N,I]`.
fn model(problem: &Path, trains: bool) -> Result<(PathBuf, [usize; 6], Vec<f32>)> {
    if trains {
        return Err("inference only".into());
    }
    let (sizes, floats) = crate::read(problem)?;
    let path = problem.with_extension("onnx");
    let mut python = Command::new(env::current_exe()?.with_file_name("python"));
    let python = python.args(["-c", WRITE, "write"]).args([problem, &path]);
    assert!(python.status()?.success(), "{python:?}");
    let [n, t, i, ..] = sizes;
    Ok((path, sizes, swap(&floats[..n * t * i], [n, t, i])))
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
