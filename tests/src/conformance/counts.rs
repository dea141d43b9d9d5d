//! Checks the numbers of cases in CONVENTIONS.md against the files.

use std::{fs, path::Path};

use gru_testkit::conformance::CaseSpec;

use super::vectors;

/// First words of the sources of recorded runs: PyTorch, TorchRL, Keras, ONNX Runtime, ONNX' reference
/// evaluator, TensorFlow.
const RECORDED: [&str; 6] = [
    "torch.nn.GRU",
    "torchrl.modules.GRUModule,",
    "keras.layers.GRU,",
    "onnxruntime ",
    "onnx.reference.",
    "TensorFlow ",
];
/// First words of the sources of computed cases: Apple's equations, and PyTorch's equations in float64.
const REFERENCES: [&str; 2] = [
    "written from Apple's documentation",
    "float64 torch autograd",
];

/// The name of each kind in the table.
const SYSTEMS: [(&str, &str); 7] = [
    ("PyTorch", "torch_gru"),
    ("TorchRL", "torchrl_gru"),
    ("Keras", "keras_gru"),
    ("ONNX", "onnx_gru"),
    ("TensorFlow", "tf_block_cell"),
    ("MPSGraph", "mpsgraph_gru"),
    ("float64", "grad_f64"),
];

fn read(file: &str) -> Result<String, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))
}

/// The sentences that count the cases by their source. Each file contains its source.
pub(super) fn sentences(cases: &[CaseSpec]) -> Result<(), String> {
    let (mut recorded, mut references) = ([0; 6], [0; 2]);
    for spec in cases {
        let case = spec.load(vectors::directory());
        let source = &case.metadata["source"];
        let of = |starts: &[&str]| starts.iter().position(|start| source.starts_with(start));
        match (of(&RECORDED), of(&REFERENCES)) {
            (Some(system), _) => recorded[system] += 1,
            (_, Some(reference)) => references[reference] += 1,
            _ => return Err(format!("{}: from {source}", spec.name())),
        }
    }
    let (all, runs) = (cases.len(), recorded.iter().sum::<usize>());
    let ([torch, torchrl, keras, runtime, evaluator, tensorflow], [apple, float64]) =
        (recorded, references);
    let sentence = format!(
        "{all} cases in `tests/data/conformance` test the numbers. {runs} are recorded runs of other \
         systems: {torch} of PyTorch 2.15.0, {torchrl} of TorchRL 0.14.1, {keras} of Keras 3.15.1, {runtime} of \
         ONNX Runtime 1.31.1, {evaluator} of the reference evaluator of ONNX 1.23.2, and {tensorflow} of \
         TensorFlow 2.21.0. The other cases are computed in float64: {apple} from the equations in Apple's documentation of \
         MPSGraph, and {float64} from the equations of gru-op."
    );
    let file = "crates/gru-op/CONVENTIONS.md";
    let words = read(file)?.split_whitespace().collect::<Vec<_>>().join(" ");
    if words.contains(&sentence) {
        Ok(())
    } else {
        Err(format!("{file} must contain: {sentence}"))
    }
}

/// Checks each row of the table: the number of cases with names that match its patterns.
pub(super) fn table(cases: &[CaseSpec]) -> Result<(), String> {
    let conventions = read("crates/gru-op/CONVENTIONS.md")?;
    let (mut names, mut before, mut rows) = (Vec::new(), 0, 0);
    let table = conventions
        .lines()
        .skip_while(|line| *line != "| system | feature | cases | names |");
    for line in table.skip(2).take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [system, _, said, patterns] = cells[..] else {
            return Err(format!("expected four columns: {line}"));
        };
        if let Some((system, count)) = system.split_once(" (") {
            let (_, kind) = *SYSTEMS
                .iter()
                .find(|(name, _)| *name == system)
                .ok_or_else(|| format!("{system} has no cases"))?;
            let prefix = format!("{kind}_");
            let of_kind = cases.iter().filter(|case| case.kind() == kind);
            names = of_kind
                .filter_map(|case| case.name().strip_prefix(&prefix))
                .collect();
            if count != format!("{})", names.len()) {
                return Err(format!("{system}: {} cases, not {count}", names.len()));
            }
        }
        let like = |patterns: &[&str]| {
            let any = |name: &&&str| patterns.iter().any(|p| matches(p, name));
            names.iter().filter(any).count()
        };
        // Patterns are between backquotes.
        let patterns: Vec<&str> = match patterns {
            "the others" => Vec::new(),
            patterns => patterns.split('`').skip(1).step_by(2).collect(),
        };
        let counted = match said.split_once(", ") {
            // One pattern for each number.
            Some(_) => {
                let each: Vec<String> = patterns.iter().map(|p| like(&[*p]).to_string()).collect();
                each.join(", ")
            }
            None if patterns.is_empty() => (names.len() - before).to_string(),
            None => {
                before = like(&patterns);
                before.to_string()
            }
        };
        if counted != said {
            return Err(format!(
                "{counted} cases, which differs from the table: {line}"
            ));
        }
        rows += 1;
    }
    match rows {
        0 => Err("CONVENTIONS.md: expected a table of cases, got none".into()),
        _ => Ok(()),
    }
}

/// Whether a name matches a pattern. `*` matches any text.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|name| {
            let mut places = name.char_indices().map(|(at, _)| at).chain([name.len()]);
            places.any(|at| matches(rest, &name[at..]))
        }),
    }
}
