//! The tables and the picture of the documents, generated from records. A document contains
//!
//! ```text
//! <!-- table RECORD both|infer|fwd_bwd SHAPES PEERS -->
//! …
//! <!-- end -->
//! ```
//!
//! with a file of `benches/results` and lists separated by commas. The last peer is gru-op or a prepared block, with which
//! the others are compared. Every peer has its best thread count, oneDNN also its faster version. A cell without a number
//! belongs to a peer that does not compute the row.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use crate::{
    chart,
    problem::{Kind, Shape},
    record::{self, Row},
};

const DOCUMENTS: [&str; 3] = [
    "README.md",
    "docs/src/performance.md",
    "docs/src/inference.md",
];
/// The peer that the others are compared with.
pub const OURS: &str = "gru-op-flex";
/// The picture and its record.
const PICTURE: [&str; 2] = ["docs/src/speed.svg", "epyc-zen4-2-cores.csv"];
const END: &str = "<!-- end -->";

/// Compares the documents with the records, or writes them.
///
/// # Errors
/// If a document differs, or a record does not have a named row, or rows of one cell were not measured together.
pub fn check(root: &Path, write: bool) -> Result<(), String> {
    let mut differences = Vec::new();
    for name in DOCUMENTS.into_iter().chain([PICTURE[0]]) {
        let path = root.join(name);
        // The picture may be new.
        let old = fs::read_to_string(&path).unwrap_or_default();
        let text = if name == PICTURE[0] {
            chart::svg(&best(root, PICTURE[1])?)?
        } else {
            fill(root, &old)?
        };
        if text == old {
            continue;
        }
        if write {
            fs::write(&path, text).map_err(|e| format!("{name}: {e}"))?;
        } else {
            differences.push(name);
        }
    }
    if differences.is_empty() {
        return Ok(());
    }
    let names = differences.join(", ");
    Err(format!(
        "not as generated from their records: {names}. Run `gru-benches tables --write`"
    ))
}

/// By mode, shape and peer: the row of the best thread count.
pub type Best = BTreeMap<(String, String, String), Row>;

/// Whether a peer computes a row.
pub fn computes(peer: &str, shape: &Shape, mode: &str) -> bool {
    let [n, _, inputs, .., directions] = shape.sizes;
    match (peer, shape.kind) {
        ("torch-cell" | "torch-split" | "torchrl", kind) => {
            matches!(kind, Kind::Starts(_) | Kind::Documents)
        }
        ("torch" | "paddle" | "onednn", kind) => !matches!(kind, Kind::Starts(_) | Kind::Documents),
        ("onnxruntime" | "openvino", Kind::Dense | Kind::Lengths(_)) => mode == "infer",
        ("onnxruntime" | "openvino", _) => false,
        // tract does not compute a single input.
        ("tract", _) if inputs == 1 => false,
        ("rten" | "tract", kind) => mode == "infer" && kind == Kind::Dense,
        ("ncnn", kind) => mode == "infer" && kind == Kind::Dense && n == 1,
        ("candle", kind) => directions == 1 && kind == Kind::Dense,
        ("prepared-flex", _) => mode == "infer",
        _ => true,
    }
}

fn best(root: &Path, name: &str) -> Result<Best, String> {
    let mut best = Best::new();
    let rows = record::read(&root.join("benches/results").join(name))?;
    let mut threads = BTreeMap::<_, BTreeSet<usize>>::new();
    for row in rows {
        let peer = row.peer.strip_suffix("-sycl").unwrap_or(&row.peer);
        let key = (row.mode.clone(), row.shape.clone(), peer.to_owned());
        threads.entry(key.clone()).or_default().insert(row.threads);
        let known = best.get(&key);
        if known.is_none_or(|known| row.median_ms < known.median_ms) {
            best.insert(key, row);
        }
    }
    // A peer measured with fewer thread counts would look slower.
    for ((mode, shape, peer), counts) in &threads {
        let ours = (mode.clone(), shape.clone(), OURS.to_owned());
        let is_checked = best.get(&ours).is_some_and(Row::is_of_one_run);
        if let Some(ours) = threads.get(&ours)
            && ours != counts
            && is_checked
        {
            return Err(format!(
                "{name}: {peer}, {shape}, {mode}: expected the thread counts of {OURS}, {ours:?}, got {counts:?}"
            ));
        }
    }
    Ok(best)
}

/// The document with all its tables generated.
fn fill(root: &Path, text: &str) -> Result<String, String> {
    let mut filled = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        filled += line;
        filled += "\n";
        let Some(words) = line
            .strip_prefix("<!-- table ")
            .and_then(|l| l.strip_suffix(" -->"))
        else {
            continue;
        };
        let words: Vec<&str> = words.split(' ').collect();
        let &[record, mode, shapes, peers] = &words[..] else {
            return Err(format!("{line}: expected RECORD MODE SHAPES PEERS"));
        };
        filled += &table(&best(root, record)?, mode, shapes, peers)
            .map_err(|e| format!("{line}: {e}"))?;
        if !lines.any(|line| line == END) {
            return Err(format!("{line}: expected {END} below"));
        }
        filled = filled + END + "\n";
    }
    Ok(filled)
}

fn table(best: &Best, mode: &str, shapes: &str, peers: &str) -> Result<String, String> {
    let peers: Vec<&str> = peers.split(',').collect();
    let modes = match mode {
        "both" => vec!["infer", "fwd_bwd"],
        one => vec![one],
    };
    let mut lines = vec!["| shape | N×T×I×H |".to_owned(), "|---|---|".to_owned()];
    for peer in &peers {
        lines[0] += &format!(" {} |", title(peer)?);
        lines[1] += "---|";
    }
    lines[0] += " factor |";
    lines[1] += "---|";
    for shape in shapes.split(',') {
        let mut line = format!("| `{shape}` | {} |", sizes(shape)?);
        let mut cells = vec![Vec::new(); peers.len()];
        let mut factors = Vec::new();
        for mode in &modes {
            let get = |peer: &&str| {
                let row = best.get(&(mode.to_string(), shape.into(), peer.to_string()));
                let ours = best.get(&(mode.to_string(), shape.into(), OURS.into()));
                let is_checked = ours.is_some_and(Row::is_of_one_run);
                if row.is_none() && is_checked && computes(peer, of(shape)?, mode) {
                    return Err(format!("no row of {shape}, {mode}, {peer}"));
                }
                Ok(row)
            };
            let rows: Vec<Option<&Row>> = peers.iter().map(get).collect::<Result<_, _>>()?;
            let ours = rows.last().copied().flatten();
            let ours = ours.ok_or_else(|| format!("no row of {shape}, {mode}, gru-op"))?;
            if let Some(apart) = rows.iter().flatten().find(|row| row.date != ours.date) {
                return Err(format!(
                    "{shape}, {mode}: expected rows of one run, got {} of {} and {} of {}",
                    ours.peer, ours.date, apart.peer, apart.date
                ));
            }
            let others = rows[..rows.len() - 1].iter().flatten();
            let others = others.filter(|row| row.peer != OURS);
            let rival = others.min_by(|a, b| a.median_ms.total_cmp(&b.median_ms));
            let factor = rival.map(|rival| record::factor(rival, ours));
            let winner = match (&factor, rival) {
                (Some(factor), Some(_)) if factor.is_level => None,
                (Some(factor), Some(rival)) if factor.value < 1.0 => Some(&rival.peer),
                _ => Some(&ours.peer),
            };
            for (cell, row) in cells.iter_mut().zip(&rows) {
                cell.push(match row {
                    Some(row) if winner == Some(&row.peer) => {
                        format!("**{}**", short(row.median_ms))
                    }
                    Some(row) => short(row.median_ms),
                    None => "–".to_owned(),
                });
            }
            factors.push(factor.map_or("–".to_owned(), |factor| factor.to_string()));
        }
        for cell in cells {
            line += &format!(" {} |", cell.join(" / "));
        }
        lines.push(line + &format!(" {} |", factors.join(" / ")));
    }
    Ok(lines.join("\n") + "\n")
}

pub fn title(peer: &str) -> Result<&'static str, String> {
    Ok(match peer {
        "burn-flex" => "Burn `Gru`",
        "torch" => "PyTorch",
        "torch-cell" => "PyTorch, cells",
        "torch-split" => "PyTorch, split",
        "torchrl" => "TorchRL",
        "openvino" => "OpenVINO",
        "paddle" => "Paddle",
        "ncnn" => "ncnn",
        "rten" => "rten",
        "tract" => "tract",
        "onednn" => "oneDNN",
        "onnxruntime" => "ONNX Runtime",
        "candle" => "candle",
        "gru-op-flex" => "gru-op",
        "prepared-flex" => "gru-op, prepared",
        other => return Err(format!("no title for {other}")),
    })
}

pub fn of(name: &str) -> Result<&'static Shape, String> {
    Shape::find(name).ok_or_else(|| format!("unknown shape {name}"))
}

/// The sizes of a shape, as text.
fn sizes(name: &str) -> Result<String, String> {
    let [n, t, i, h, layers, directions] = of(name)?.sizes;
    let mut text = format!("{n}×{t}×{i}×{h}");
    if layers > 1 {
        text += &format!(", {layers} layers");
    }
    if directions == 2 {
        text += ", bidirectional";
    }
    Ok(text)
}

/// Three digits.
fn short(ms: f64) -> String {
    match 2 - ms.log10().floor() as i32 {
        ..0 => format!("{:.0}", (ms / 10.0).round() * 10.0),
        digits => format!("{ms:.0$}", digits as usize),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn documents_are_as_generated_from_their_records() {
        super::check(&crate::root(), false).unwrap_or_else(|difference| panic!("{difference}"));
    }
}
