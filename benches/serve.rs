//! This program as a peer: `GruBlock`, a prepared `GruBlock` or Burn's own `Gru` on a backend. The protocol is described in
//! [`crate::peer`].

use std::{hint::black_box, path::Path, rc::Rc};

use burn::tensor::{DType, Device, capture};
use gru_op::Precision;

use crate::{
    layer::{Layer, Program},
    problem::{Problem, Shape},
    protocol::{self, Prepared},
};

/// Answers the requests of standard input. `peer` is `gru-op-`, `prepared-` or `burn-`, a backend, and a type other than
/// float32, such as `gru-op-cuda-bfloat16`. `-bf16` and `-int8` are precisions of a prepared block. With `-replay` at the end
/// calls are replays of a recorded graph.
pub fn serve(peer: &str) {
    let (peer, replays) = match peer.strip_suffix("-replay") {
        Some(peer) => (peer, true),
        None => (peer, false),
    };
    match program(peer) {
        Err(reason) => protocol::say(&format!("no\t{reason}")),
        Ok((program, device, dtype)) => {
            let version = if program == Program::Burn {
                protocol::version(include_str!("../Cargo.lock"), "burn")
            } else {
                env!("CARGO_PKG_VERSION")
            };
            protocol::serve(version, |problem, trains| {
                let layer = layer(program, &device, dtype, problem, trains)?;
                if replays {
                    replay(layer, device.clone())
                } else {
                    Ok(call(layer, device.clone()))
                }
            });
        }
    }
}

const NUMBERS: [(&str, DType, Precision); 5] = [
    ("-float16", DType::F16, Precision::Full),
    ("-bfloat16", DType::BF16, Precision::Full),
    ("-bf16", DType::F32, Precision::Bf16),
    ("-int8", DType::F32, Precision::Int8),
    ("", DType::F32, Precision::Full),
];

fn program(peer: &str) -> Result<(Program, Device, DType), String> {
    let found = NUMBERS.iter().find(|(suffix, ..)| peer.ends_with(suffix));
    let &(suffix, dtype, precision) = found.expect("the last suffix is empty");
    let rest = &peer[..peer.len() - suffix.len()];
    let (name, backend) = rest.rsplit_once('-').ok_or("no backend")?;
    let program = match (name, precision) {
        ("prepared", _) => Program::Prepared(precision),
        ("gru-op", Precision::Full) => Program::Block,
        ("burn", Precision::Full) => Program::Burn,
        _ => return Err("no such peer".into()),
    };
    Ok((program, device(backend)?, dtype))
}

fn layer(
    program: Program,
    device: &Device,
    dtype: DType,
    problem: &Path,
    trains: bool,
) -> Result<Layer, String> {
    if trains && matches!(program, Program::Prepared(_)) {
        return Err("inference only".into());
    }
    let name = problem.file_stem().and_then(|name| name.to_str());
    let shape = name.and_then(Shape::find);
    let shape = shape.expect("a file is named after its shape");
    Ok(Layer::new(
        &Problem::new(shape),
        program,
        trains,
        device,
        dtype,
    ))
}

fn call(layer: Layer, device: Device) -> Prepared {
    Prepared {
        outputs: layer.outputs(&layer.call()),
        note: layer.note(),
        calls: Box::new(move |count| {
            for _ in 0..count {
                black_box(layer.call());
            }
            device.sync().expect("the device works");
        }),
    }
}

/// The same inputs for each replay.
fn replay(layer: Layer, device: Device) -> Result<Prepared, String> {
    let layer = Rc::new(layer);
    let of_graph = layer.clone();
    let mut graph = capture(&device, move || of_graph.call());
    if !graph.is_hardware() {
        return Err("not recorded".into());
    }
    // SAFETY: the closure owns all tensors, and only this thread uses them.
    let results = unsafe { graph.replay() };
    let outputs = layer.outputs(results);
    Ok(Prepared {
        outputs,
        note: layer.note(),
        calls: Box::new(move |count| {
            for _ in 0..count {
                // SAFETY: as above.
                let results = unsafe { graph.replay() };
                black_box(results);
            }
            device.sync().expect("the device works");
        }),
    })
}

fn device(backend: &str) -> Result<Device, String> {
    match backend {
        "flex" => Ok(Device::flex()),
        #[allow(deprecated)] // Supported as long as it exists.
        "ndarray" => Ok(Device::ndarray()),
        #[cfg(feature = "wgpu")]
        "wgpu" => Ok(Device::wgpu(burn::tensor::DeviceKind::DefaultDevice)),
        #[cfg(feature = "cuda")]
        "cuda" => {
            let found = Device::enumerate(burn::tensor::DeviceType::Cuda).into_vec();
            found
                .into_iter()
                .next()
                .ok_or_else(|| "there is no CUDA device".into())
        }
        other => Err(format!("backend {other}: not in this build")),
    }
}
