//! Published models: reads their files, imports every GRU node, and compares the results with ONNX
//! Runtime on the inputs of the real networks, and of crema on random inputs. `benches/models/fetch.py` downloads the
//! files, `benches/models/reference.py` records the results, and `benches/models/opus.py` records the results of Opus.
//! They fill the folder that `GRU_MODELS` names.

mod crema;
mod opus;
mod record;
mod sound;

use super::{
    backends::TestBackend,
    runs::{expect, values},
};
use burn::tensor::{Device, Tensor};
use gru_convert::onnx;
use gru_op::{
    Precision,
    spec::{Activations, Reset, Update},
};
use libtest_mimic::{Completion, Failed, Trial};
use record::Files;
use std::path::PathBuf;

/// The folder of the models. Without it the trials are ignored.
const MODELS: &str = "GRU_MODELS";
/// If set to any value, missing models are a failure.
const REQUIRE_MODELS: &str = "GRU_REQUIRE_MODELS";

/// The distance of outputs with rounded weights from float64, in dB: three dB less than the smallest that was
/// measured for these models, 49.3 and 32.6 dB. Another order of summation changes less than that. A wrong scale
/// or a lost group leaves about 10 dB.
const LEAST_DB: [(Precision, f64); 2] = [(Precision::Bf16, 46.3), (Precision::Int8, 29.6)];

/// The number of single steps on backends where each step takes milliseconds.
const FEW_STEPS: usize = 24;

/// A model: name of its record, file, inputs and units, GRU nodes in the order of the graph.
struct Published {
    name: &'static str,
    file: &'static str,
    units: usize,
    nodes: &'static [&'static str],
}

const PUBLISHED: [Published; 5] = [
    Published {
        name: "nsnet2-20ms-baseline",
        file: "nsnet2/nsnet2-20ms-baseline.onnx",
        units: 400,
        nodes: &["GRU_14", "GRU_20"],
    },
    Published {
        name: "nsnet2-20ms-48k-baseline",
        file: "nsnet2/nsnet2-20ms-48k-baseline.onnx",
        units: 600,
        nodes: &["GRU_15", "GRU_22"],
    },
    Published {
        name: "enc",
        file: "deepfilternet3/enc.onnx",
        units: 256,
        nodes: &["/emb_gru/GRU"],
    },
    Published {
        name: "erb_dec",
        file: "deepfilternet3/erb_dec.onnx",
        units: 256,
        nodes: &["/emb_gru/GRU", "/emb_gru/GRU_1"],
    },
    Published {
        name: "df_dec",
        file: "deepfilternet3/df_dec.onnx",
        units: 256,
        nodes: &["/df_gru/gru/GRU", "/df_gru/gru/GRU_1"],
    },
];

type Test = fn(&Files, &TestBackend, &Device) -> Result<(), String>;

/// Whether a test exists for a model and a backend.
type Exists = fn(&Published, &TestBackend) -> bool;

const TESTS: [(&str, Exists, Test); 6] = [
    ("nodes", |_, on| on.name == "flex", Files::nodes),
    (
        "file",
        |_, _| true,
        |files, on, device| files.at_once("file", on, device),
    ),
    (
        "rows",
        |_, _| true,
        |files, on, device| files.at_once("rows", on, device),
    ),
    ("frames", |_, _| true, Files::frame_by_frame),
    ("prepared", |_, on| on.name == "flex", Files::prepared),
    (
        "sound",
        |model, on| on.name == "flex" && model.name.starts_with("nsnet2"),
        Files::sound,
    ),
];

pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    let dir = || std::env::var_os(MODELS).map(PathBuf::from);
    let id = String::from("models/opus/stream");
    let mut trials = vec![match dir() {
        Some(dir) => Trial::test(id, move || Ok(opus::run(&dir)?)),
        None => without_files(id),
    }];
    for &backend in backends {
        let id = format!("models/crema/file/{}", backend.name);
        trials.push(match dir() {
            Some(dir) => backend.trial(id, move |device| crema::run(&dir, &backend, device)),
            None => without_files(id),
        });
    }
    for published in &PUBLISHED {
        for (test, exists, run) in TESTS {
            for &backend in backends.iter().filter(|on| exists(published, on)) {
                let id = format!("models/{}/{test}/{}", published.name, backend.name);
                trials.push(match dir() {
                    Some(dir) => backend.trial(id, move |device| {
                        run(&Files::open(published, &dir)?, &backend, device)
                    }),
                    None => without_files(id),
                });
            }
        }
    }
    trials
}

fn without_files(id: String) -> Trial {
    Trial::ignorable_test(id, move || {
        let reason = format!("{MODELS}: expected a folder with the models");
        if std::env::var_os(REQUIRE_MODELS).is_some() {
            Err(Failed::from(format!(
                "{reason}, and {REQUIRE_MODELS} is set"
            )))
        } else {
            Ok(Completion::ignored_with(reason))
        }
    })
}

impl Files {
    /// Checks the names and configurations of the GRU nodes in the file.
    fn nodes(&self, _: &TestBackend, _: &Device) -> Result<(), String> {
        let Published { units, nodes, .. } = *self.published;
        let names: Vec<&str> = self.model.grus().iter().map(|node| node.name()).collect();
        expect("GRU nodes", &names[..], nodes)?;
        for node in self.model.grus() {
            let expected = onnx::Attributes {
                hidden_size: Some(units),
                linear_before_reset: 1,
                ..Default::default()
            };
            expect(node.name(), node.attributes(), &expected)?;
            let config = self.model.config(node.name()).map_err(|e| e.to_string())?;
            let sizes = (config.d_input, config.d_hidden, config.num_layers);
            let spec = config.spec;
            let kind = (spec.reset, spec.update, spec.activations);
            let usual = (Reset::AfterMatmul, Update::Keeps, Activations::default());
            let directions = (config.bidirectional, config.reverse, config.batch_first);
            let got = (sizes, kind, directions, config.bias);
            let expected = ((units, units, 1), usual, (false, false, false), true);
            expect(node.name(), got, expected)?;
        }
        Ok(())
    }

    /// The ONNX call as one sequence. The case `rows` has two rows with different lengths. One row has an initial state
    /// that is not zero.
    fn at_once(&self, case: &str, backend: &TestBackend, device: &Device) -> Result<(), String> {
        for node in self.published.nodes {
            let block = self.import(node, device)?;
            let run = self.record.run(&format!("{node}:{case}"), device)?;
            let lengths = run.lengths.as_deref();
            let initial = Some(run.initial_h.clone());
            let (y, y_h) = onnx::run(&block, run.x.clone(), lengths, initial);
            run.compare(y, y_h, backend)?;
        }
        Ok(())
    }

    /// `GruBlock::step` with a carried state.
    fn frame_by_frame(&self, backend: &TestBackend, device: &Device) -> Result<(), String> {
        for node in self.published.nodes {
            let block = self.import(node, device)?;
            let mut run = self.record.run(&format!("{node}:file"), device)?;
            let [t, n, i] = run.x.dims();
            let steps = if backend.samples_modes() {
                FEW_STEPS.min(t)
            } else {
                t
            };
            let (mut state, mut stepped) = (run.initial_h, Vec::new());
            for t in 0..steps {
                let frame = run.x.clone().narrow(0, t, 1);
                let (y, next) = block.step(frame.reshape([n, i]), Some(state));
                stepped.extend(values(y));
                state = next;
            }
            run.y.truncate(steps * n * block.d_hidden);
            run.y.compare("by step", &stepped, backend)?;
            if steps == t {
                run.y_h.compare("by step", &values(state), backend)?;
            }
        }
        Ok(())
    }

    /// The output of all GRUs in sequence, prepared.
    fn run_prepared(
        &self,
        mut x: Tensor<3>,
        state: Option<Tensor<3>>,
        precision: Precision,
        device: &Device,
    ) -> Result<Tensor<3>, String> {
        for (k, node) in self.published.nodes.iter().enumerate() {
            let prepared = self.import(node, device)?.prepare(precision);
            let state = state.as_ref().map(|state| state.clone().narrow(0, k, 1));
            x = prepared.forward(x, state).0;
        }
        Ok(x)
    }

    /// The output of all GRUs in sequence, with rounded weights: its distance from float64 in dB.
    fn prepared(&self, _: &TestBackend, device: &Device) -> Result<(), String> {
        let nodes = self.published.nodes;
        let key = if let [node] = nodes { node } else { "stack" };
        let run = self.record.run(&format!("{key}:file"), device)?;
        for (precision, least) in LEAST_DB {
            let state = Some(run.initial_h.clone());
            let y = self.run_prepared(run.x.clone(), state, precision, device)?;
            let (mut signal, mut noise) = (0.0, 0.0);
            for (got, expected) in values(y).into_iter().zip(&run.y.float64) {
                signal += expected * expected;
                noise += (got - expected) * (got - expected);
            }
            let db = 10.0 * (signal / noise).log10();
            eprintln!("{}: {precision:?}: {db:.1} dB", self.published.name);
            if db.is_nan() || db < least {
                return Err(format!(
                    "{precision:?}: expected at least {least} dB, got {db:.1}"
                ));
            }
        }
        Ok(())
    }
}
