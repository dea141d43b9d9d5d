//! NaN and infinities of PyTorch: every result has the same kind, finite or not. The matrix compares with the oracle.

use burn::tensor::{DType, Device};
use gru_op::{Checkpointing, GruSpec, spec::Sizes};
use gru_testkit::{
    close::{Outcome, Tensors, Tolerance},
    draw::Drawn,
    oracle::Call,
};
use libtest_mimic::Trial;
use safetensors::SafeTensors;

use super::{
    backends::TestBackend,
    operator::{self, Way},
    runs::expect,
    vectors::{self, from_pytorch},
};

pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for backend in backends {
        for (mode, checkpointing) in [
            ("speed", Checkpointing::KeepGates),
            ("lean", Checkpointing::Recompute),
        ] {
            let id = format!("nonfinite/pytorch-{mode}/{}", backend.id(DType::F32));
            trials.push(backend.trial(id, move |device| check(checkpointing, device)));
        }
    }
    trials
}

/// Every run that `tests/data/nonfinite/generate.py` recorded.
fn check(checkpointing: Checkpointing, device: &Device) -> Result<(), String> {
    let path = crate::data().join("nonfinite/torch.safetensors");
    let bytes = std::fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let file = SafeTensors::deserialize(&bytes).map_err(|e| e.to_string())?;
    let (n, t, i, h) = (3, 4, 2, 5);
    let names = file.names().into_iter();
    let mut cases: Vec<&str> = names.filter_map(|name| name.split('/').next()).collect();
    cases.sort_unstable();
    cases.dedup();
    // Three values in seven tensors.
    expect("cases", cases.len(), 21)?;
    for case in cases {
        let numbers = |name: &str| -> Vec<f64> {
            let tensor = file.tensor(&format!("{case}/{name}"));
            let tensor = tensor.expect("every case has all tensors");
            let (numbers, _) = tensor.data().as_chunks();
            let number = |b: &[u8; 4]| f32::from_le_bytes(*b).into();
            numbers.iter().map(number).collect()
        };
        let of =
            |kind: &str, name: &str| from_pytorch(name, &numbers(&format!("{kind}.{name}")), h);
        let inputs = vectors::inputs(|name| of("in", name));
        let call = Call::new(Sizes { n, t, i, h }, GruSpec::default(), inputs);
        let drawn = Drawn::new(call, numbers("in.d_y"), vec![0.0; n * h]);
        let expected = Outcome {
            outputs: ["y", "h_t"]
                .map(|name| (name.into(), of("out", name)))
                .into(),
            gradients: vectors::by_name(|name| of("grad", name)),
        };
        let way = Way {
            checkpointing,
            ..Way::default()
        };
        let got = operator::run(device, DType::F32, &drawn, way)?;
        let exact = Tolerance {
            forward: 0.0,
            gradient: 0.0,
        };
        let compared = kinds(&got).compare(&kinds(&expected), exact);
        compared.map_err(|e| format!("{case}: {e}"))?;
    }
    Ok(())
}

/// Which outputs are NaN, and which are infinite with which sign, and which gradients are not finite. If a gradient is
/// infinite, PyTorch's form of the blend, `n + z (h − n)`, gives NaN: ∞ − z·∞.
fn kinds(outcome: &Outcome) -> Outcome {
    let replaced = |tensors: &Tensors, kind: fn(f64) -> f64| -> Tensors {
        let kinds = |values: &Vec<f64>| values.iter().map(|&v| kind(v)).collect();
        let tensors = tensors.iter();
        tensors.map(|(name, v)| (name.clone(), kinds(v))).collect()
    };
    Outcome {
        outputs: replaced(&outcome.outputs, |v| if v.is_finite() { 0.0 } else { v }),
        gradients: replaced(&outcome.gradients, |v| {
            if v.is_finite() { 0.0 } else { f64::NAN }
        }),
    }
}
