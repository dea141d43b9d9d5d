//! Measured times: medians and a table.

use std::collections::BTreeMap;

use bench_support::median;

/// What was measured, and by whom.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// `enc`, or another model.
    pub model: String,
    /// `file`: one call for all frames. `frame`: one call for each.
    pub what: String,
    /// `onnxruntime`, `GruBlock`, or a stream: `Stream` (float32), `Bf16`, `Int8`.
    pub peer: String,
    /// The number of threads.
    pub threads: usize,
}

/// Milliseconds per second of sound, one sample per round.
#[derive(Debug, Default)]
pub struct Times(BTreeMap<Key, Vec<f64>>);

/// Columns of the table: peer, threads, head.
const COLUMNS: [(&str, usize, &str); 7] = [
    ("onnxruntime", 1, "ORT, 1 thread"),
    ("onnxruntime", 2, "ORT, 2 threads"),
    ("GruBlock", 1, "GruBlock, 1 thread"),
    ("GruBlock", 2, "GruBlock, 2 threads"),
    ("Stream", 1, "Stream"),
    ("Bf16", 1, "Stream, 16 bits"),
    ("Int8", 1, "Stream, 8 bits"),
];
/// The three models of one network.
const PARTS: [&str; 3] = ["enc", "erb_dec", "df_dec"];
const WHOLE: &str = "DeepFilterNet 3";

impl Times {
    /// Adds one sample.
    pub fn add(&mut self, key: Key, ms: f64) {
        self.0.entry(key).or_default().push(ms);
    }

    fn median(&self, model: &str, what: &str, peer: &str, threads: usize) -> Option<f64> {
        if model == WHOLE {
            let parts = PARTS.map(|part| self.median(part, what, peer, threads));
            return parts.into_iter().sum();
        }
        let key = Key {
            model: model.into(),
            what: what.into(),
            peer: peer.into(),
            threads,
        };
        self.0.get(&key).cloned().map(median)
    }

    /// Prints a Markdown table of the models in this order. The last column is the speed-up over ONNX
    /// Runtime in float32, each with its best thread count.
    pub fn print(&self, models: &[&str]) {
        print!("| model | call |");
        COLUMNS.iter().for_each(|(.., head)| print!(" {head} |"));
        println!(" ORT / ours |");
        println!("|---|---{}|---|", "|---".repeat(COLUMNS.len()));
        for model in models.iter().chain([&WHOLE]) {
            for what in ["file", "frame"] {
                print!("| {model} | {what} |");
                let (mut theirs, mut ours) = (f64::INFINITY, f64::INFINITY);
                for (peer, threads, _) in COLUMNS {
                    let ms = self.median(model, what, peer, threads);
                    match ms {
                        Some(ms) => print!(" {ms:.2} |"),
                        None => print!(" – |"),
                    }
                    let best = match peer {
                        "onnxruntime" => &mut theirs,
                        // Rounded weights are no faster way to the same numbers.
                        "Bf16" | "Int8" => continue,
                        _ => &mut ours,
                    };
                    *best = best.min(ms.unwrap_or(f64::INFINITY));
                }
                if theirs.is_finite() && ours.is_finite() {
                    println!(" {:.2} |", theirs / ours)
                } else {
                    println!(" – |")
                }
            }
        }
        if let Some(call) = self.median("copy", "call", "onnxruntime", 1) {
            // Measured as a hundred calls per second of sound.
            println!(
                "\nONNX Runtime call that copies one frame: {:.1} µs.",
                call * 10.0
            );
        }
        if let Some(ms) = self.median("libdeepfilter", "network", "onnxruntime", 1) {
            println!("Whole DeepFilterNet 3 in its own library: {ms:.1} ms.");
        }
    }
}
