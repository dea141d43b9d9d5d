//! The device: adapters, limits, features.

use std::process::Command;

use burn::tensor::Tensor;
#[cfg(feature = "wgpu")]
use burn::tensor::{read_sync, wgpu::wgpu};
use cubecl::ir::features::Plane;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Clock, Rows, Stop, caught, device, read, table};

#[derive(Serialize, Deserialize)]
struct Row {
    what: String,
    is: String,
}

pub fn run(rows: &mut Rows, _: &Clock, _: &[String]) -> Result<(), Stop> {
    let mut say = |what: &str, is: String| {
        let what = what.to_owned();
        rows.add(&Row { what, is })
    };
    say(
        "system",
        format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
    )?;
    say("processor", processor())?;
    if let Some(driver) = output(
        "nvidia-smi",
        &["--query-gpu=name,driver_version", "--format=csv,noheader"],
    ) {
        say("nvidia-smi", driver)?;
    }
    #[cfg(feature = "cuda")]
    say(
        "CUDA toolkit",
        std::env::var("GPU_KIT_CUDA").unwrap_or_default(),
    )?;
    #[cfg(feature = "wgpu")]
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    #[cfg(feature = "wgpu")]
    for adapter in read_sync(instance.enumerate_adapters(wgpu::Backends::all())) {
        let info = adapter.get_info();
        let is = format!(
            "{}, {:?}, {:?}, driver {} {}, planes of {} to {}",
            info.name,
            info.device_type,
            info.backend,
            info.driver,
            info.driver_info,
            info.subgroup_min_size,
            info.subgroup_max_size
        );
        say("adapter", is)?;
    }
    // The device of all other parts.
    let client = cubecl::Device::default().client();
    let properties = client.properties();
    say("device", properties.identity.name.clone())?;
    say("runtime", client.name().to_owned())?;
    say(
        "limits of gru-cube's kernels",
        format!("{:?}", gru_cube::Limits::of(&client)),
    )?;
    say("hardware", format!("{:?}", properties.hardware))?;
    say("memory", format!("{:?}", properties.memory))?;
    let features = &properties.features;
    say(
        "plane operations",
        features.plane.contains(Plane::Ops).to_string(),
    )?;
    say("matrix units", format!("{:?}", features.matmul.cmma))?;
    say(
        "device memory scope",
        features.device_memory_scope.to_string(),
    )?;
    // Compiles a kernel.
    let sum = caught(|| (Tensor::<1>::from_floats([1.0, 2.0], &device()) + 1.0).into_data());
    let sum = sum.and_then(|data| data.try_into_vec::<f32>().map_err(|e| format!("{e:?}")));
    match sum {
        Ok(sum) if sum == [2.0, 3.0] => Ok(say("a sum of tensors", "right".to_owned())?),
        wrong => Err(format!("a sum of tensors: expected [2, 3], got {wrong:?}").into()),
    }
}

pub fn page(rows: &[Value]) -> String {
    let rows = read::<Row>(rows);
    table(
        &["", ""],
        rows.into_iter().map(|row| vec![row.what, row.is]),
    )
}

fn processor() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = cpu.lines().find_map(|line| line.strip_prefix("model name"));
    let name = name.map_or("unknown", |name| name.trim_start_matches([':', '\t', ' ']));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{name}, {cores} cores")
}

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
