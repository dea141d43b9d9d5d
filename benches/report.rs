//! Turns a record of `benches/results` into a Markdown table and a plot.
//!
//!     cargo run --release -p gru-benches --bin report -- benches/results/NAME.csv > table.md
//!
//! The plot is written next to the record, as NAME.svg. Each peer is shown with its best thread count.
//! The table leaves out the forward pass in training, because Burn frees unused graphs late. Each of
//! many such passes therefore writes to new memory.

use std::{collections::BTreeMap, error::Error, path::Path};

use plotters::prelude::*;

/// Order of the shapes, and of the columns. gru-op is last.
const SHAPES: [&str; 10] = [
    "cell",
    "stream",
    "audio",
    "long",
    "char-s",
    "char-l",
    "speech",
    "big",
    "bi-char",
    "deep-char",
];
const PEERS: [(&str, &str, RGBColor); 4] = [
    ("burn-flex", "Burn `nn::Gru`", RGBColor(0xc9, 0xa2, 0x7a)),
    ("torch", "PyTorch", RGBColor(0xd9, 0x5f, 0x3b)),
    ("onednn", "oneDNN", RGBColor(0x7f, 0x8c, 0x9b)),
    ("gru-op-flex", "gru-op", RGBColor(0x1f, 0x6f, 0xb5)),
];

/// The best median of a peer, and its share of the run's fastest sgemm rate.
#[derive(Clone, Copy)]
struct Best {
    ms: f64,
    share: f64,
    threads: usize,
}

/// By mode, shape and peer.
type Table = BTreeMap<(String, String, String), Best>;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args()
        .nth(1)
        .ok_or("expected a CSV file as argument")?;
    let (table, machine) = read(&path)?;
    println!("Medians in ms, each with its best thread count. {machine}.\n");
    for (mode, title) in [("infer", "inference"), ("fwd_bwd", "forward and backward")] {
        print_table(&table, mode, title);
    }
    let plot = Path::new(&path).with_extension("svg");
    draw(&table, &plot)?;
    eprintln!("plot: {}", plot.display());
    Ok(())
}

fn read(path: &str) -> Result<(Table, String), Box<dyn Error>> {
    let rows: Vec<Row> = csv::Reader::from_path(path)?
        .deserialize()
        .collect::<Result<_, _>>()?;
    // The fastest large product of the run, from any peer.
    let mut sgemm = BTreeMap::<usize, f64>::new();
    for row in &rows {
        let rate = sgemm.entry(row.threads).or_default();
        *rate = rate.max(row.sgemm_gflops);
    }
    let mut table = Table::new();
    let mut machine = String::new();
    for row in rows {
        machine = format!("{}, {}", row.machine, row.date);
        let best = Best {
            ms: row.median_ms,
            share: row.gflops / sgemm[&row.threads],
            threads: row.threads,
        };
        let key = (row.mode, row.shape, row.peer);
        let known = table.get(&key).map_or(f64::INFINITY, |known| known.ms);
        if best.ms < known {
            table.insert(key, best);
        }
    }
    Ok((table, machine))
}

/// The used columns of a record.
#[derive(serde::Deserialize)]
struct Row {
    date: String,
    machine: String,
    peer: String,
    shape: String,
    mode: String,
    threads: usize,
    median_ms: f64,
    gflops: f64,
    sgemm_gflops: f64,
}

fn get(table: &Table, mode: &str, shape: &str, peer: &str) -> Option<Best> {
    let key = (mode.to_string(), shape.to_string(), peer.to_string());
    table.get(&key).copied()
}

fn print_table(table: &Table, mode: &str, title: &str) {
    let peers: Vec<_> = PEERS
        .iter()
        .filter(|(peer, ..)| table.keys().any(|(m, _, p)| m == mode && p == peer))
        .collect();
    println!("**{title}**\n");
    print!("| shape |");
    peers.iter().for_each(|(_, name, _)| print!(" {name} |"));
    println!(" of sgemm | × best peer | × Burn |");
    println!("|---{}|---|---|---|", "|---".repeat(peers.len()));
    for shape in SHAPES {
        let Some(ours) = get(table, mode, shape, "gru-op-flex") else {
            continue;
        };
        print!("| {shape} |");
        let mut best = f64::INFINITY;
        for (peer, ..) in &peers {
            match get(table, mode, shape, peer) {
                Some(cell) => {
                    print!(" {} |", short(cell.ms));
                    if *peer != "gru-op-flex" {
                        best = best.min(cell.ms);
                    }
                }
                None => print!(" – |"),
            }
        }
        let burn = get(table, mode, shape, "burn-flex").map_or(f64::NAN, |b| b.ms);
        println!(
            " {:.0}% ({} thr.) | {:.2} | {:.1} |",
            100.0 * ours.share,
            ours.threads,
            best / ours.ms,
            burn / ours.ms
        );
    }
    println!();
}

fn short(ms: f64) -> String {
    match ms {
        ms if ms < 0.1 => format!("{ms:.4}"),
        ms if ms < 1.0 => format!("{ms:.3}"),
        ms if ms < 100.0 => format!("{ms:.2}"),
        ms => format!("{ms:.0}"),
    }
}

/// Forward and backward: the time of each peer divided by gru-op's time, on a logarithmic axis.
fn draw(table: &Table, path: &Path) -> Result<(), Box<dyn Error>> {
    let mode = "fwd_bwd";
    let shapes: Vec<&str> = SHAPES
        .into_iter()
        .filter(|shape| get(table, mode, shape, "gru-op-flex").is_some())
        .collect();
    let ratio = |shape: &str, peer: &str| {
        let ours = get(table, mode, shape, "gru-op-flex")?;
        Some(get(table, mode, shape, peer)?.ms / ours.ms)
    };
    let all = shapes
        .iter()
        .flat_map(|s| PEERS.iter().filter_map(|(p, ..)| ratio(s, p)));
    let (low, high) = all.fold((0.5, 2.0), |(low, high): (f64, f64), r| {
        (low.min(r), high.max(r))
    });
    let root = SVGBackend::new(path, (860, 420)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .margin(12)
        .caption(
            "Time of forward and backward, gru-op = 1",
            ("sans-serif", 18),
        )
        .x_label_area_size(36)
        .y_label_area_size(50)
        .build_cartesian_2d(
            0f64..shapes.len() as f64,
            (low * 0.9..high * 1.2).log_scale(),
        )?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .x_labels(2 * shapes.len() + 1)
        .x_label_formatter(&|x| {
            let middle = (x.fract() - 0.5).abs() < 1e-6;
            let shape = shapes.get(*x as usize).filter(|_| middle);
            shape.map(|s| s.to_string()).unwrap_or_default()
        })
        .y_label_formatter(&|y| format!("{y:.1}"))
        .draw()?;
    let width = 0.8 / PEERS.len() as f64;
    for (k, (peer, name, color)) in PEERS.iter().enumerate() {
        let bars = shapes.iter().enumerate().filter_map(|(s, shape)| {
            let left = s as f64 + 0.1 + k as f64 * width;
            let top = ratio(shape, peer)?;
            Some(Rectangle::new(
                [(left, low * 0.9), (left + width * 0.92, top)],
                color.filled(),
            ))
        });
        let bars: Vec<_> = bars.collect();
        if bars.is_empty() {
            continue;
        }
        chart
            .draw_series(bars)?
            .label(name.replace('`', ""))
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], color.filled()));
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.2))
        .draw()?;
    root.present()?;
    Ok(())
}
