//! The picture of speed in README, generated from a record like the tables.

use std::fmt::Write;

use crate::tables::{Best, OURS, computes, of, title};

/// Programs from top to bottom.
const PEERS: [&str; 10] = [
    "burn-flex",
    "candle",
    "torch",
    "paddle",
    "ncnn",
    "tract",
    "rten",
    "onnxruntime",
    "openvino",
    "onednn",
];
const TICKS: [f64; 7] = [0.5, 1.0, 2.0, 5.0, 20.0, 100.0, 500.0];
/// The ends of the logarithmic axis.
const RANGE: [f64; 2] = [0.3, 700.0];
const ROW: usize = 24;
const TOP: usize = 50;

/// One row for each program and one column for each mode. A bar ends at the geometric mean of the time relative to
/// gru-op, over all shapes that the program computes. A line shows the range.
pub fn svg(best: &Best) -> Result<String, String> {
    let bottom = TOP + ROW * PEERS.len();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 800 {}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        bottom + 40
    );
    let text = |svg: &mut String, x: f64, y: usize, anchor: &str, words: &str| {
        writeln!(
            svg,
            "<text x=\"{x:.0}\" y=\"{y}\" text-anchor=\"{anchor}\">{words}</text>"
        )
        .expect("a string grows");
    };
    for (k, peer) in PEERS.iter().enumerate() {
        let name = title(peer)?.replace('`', "");
        text(&mut svg, 104.0, TOP + ROW * k + 17, "end", &name);
    }
    for (mode, words, left) in [
        ("infer", "Inference", 115.0),
        ("fwd_bwd", "Training", 465.0),
    ] {
        let [low, high] = RANGE;
        let x = |ratio: f64| left + 320.0 * (ratio / low).ln() / (high / low).ln();
        text(
            &mut svg,
            left + 160.0,
            20,
            "middle",
            &format!("{words}: time relative to gru-op"),
        );
        for tick in TICKS {
            let (at, color) = (x(tick), if tick == 1.0 { "black" } else { "#ddd" });
            writeln!(
                svg,
                "<path d=\"M{at:.1} {TOP}V{bottom}\" stroke=\"{color}\"/>"
            )
            .expect("a string grows");
            text(&mut svg, at, bottom + 17, "middle", &format!("{tick}"));
        }
        text(&mut svg, x(1.0), TOP - 6, "middle", "gru-op");
        for (k, peer) in PEERS.iter().enumerate() {
            let mut ratios = Vec::new();
            for ((_, shape, _), row) in best.iter().filter(|((m, _, p), _)| m == mode && p == peer)
            {
                let ours = best.get(&(mode.to_owned(), shape.clone(), OURS.to_owned()));
                if let Some(ours) =
                    ours.filter(|_| of(shape).is_ok_and(|of| computes(peer, of, mode)))
                {
                    ratios.push(row.median_ms / ours.median_ms);
                }
            }
            if ratios.is_empty() {
                continue;
            }
            let mean =
                (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
            let [least, most] =
                [f64::min, f64::max].map(|of| ratios.iter().copied().reduce(of).unwrap_or(mean));
            let (y, start, end) = (TOP + ROW * k, x(mean.min(1.0)), x(mean.max(1.0)));
            writeln!(
                svg,
                "<rect x=\"{start:.1}\" y=\"{}\" width=\"{:.1}\" height=\"14\" fill=\"#7aa6d6\"/>\n\
                 <path d=\"M{:.1} {}H{:.1}\" stroke=\"#234\"/>",
                y + 5,
                end - start,
                x(least),
                y + 12,
                x(most)
            )
            .expect("a string grows");
            text(
                &mut svg,
                x(most) + 5.0,
                y + 16,
                "start",
                &format!("{mean:.1}"),
            );
        }
    }
    let note =
        "Bar and number: geometric mean over all shapes that the program computes. Line: range.";
    text(&mut svg, 400.0, bottom + 34, "middle", note);
    Ok(svg + "</svg>\n")
}
