//! The chart of the README: the time of each peer relative to gru-op.

use crate::tables::{Best, OURS, sizes};

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
const PEERS: [(&str, &str); 3] = [
    ("onednn", "oneDNN"),
    ("torch", "PyTorch"),
    ("burn-flex", "Burn Gru"),
];
const MODES: [(&str, &str); 2] = [
    ("infer", "Inference"),
    ("fwd_bwd", "Training (forward and backward)"),
];
const LEFT: f64 = 250.0;
const PANEL: f64 = 290.0;
const GAP: f64 = 46.0;
const TOP: f64 = 84.0;
const ROW: f64 = 24.0;
const TICKS: [f64; 9] = [0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 100.0, 500.0];
const STYLE: &str = "
text { font: 12px system-ui, sans-serif; fill: #1f2328 }
.title { font-weight: 600; font-size: 14px }
.small { font-size: 10.5px; fill: #59636e }
.grid { stroke: #d1d9e0 }
.one { stroke: #0969da; stroke-width: 2 }
.one-text { fill: #0969da; font-weight: 600 }
.onednn { fill: #59636e }
.torch { fill: #cf222e }
.burn-flex { fill: #bf8700 }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc }
  .small { fill: #9198a1 }
  .grid { stroke: #3d444d }
  .one { stroke: #4493f8 }
  .one-text { fill: #4493f8 }
  .onednn { fill: #9198a1 }
  .torch { fill: #ff7b72 }
  .burn-flex { fill: #e3b341 }
}
";

/// The chart as SVG.
///
/// # Errors
/// If a row is missing.
pub fn draw(best: &Best) -> Result<String, String> {
    let get = |mode: &str, shape: &str, peer: &str| {
        let row = best.get(&(mode.into(), shape.into(), peer.into()));
        row.ok_or_else(|| format!("chart: no row of {shape}, {mode}, {peer}"))
    };
    let bottom = TOP + ROW * SHAPES.len() as f64;
    let (width, height) = (LEFT + 2.0 * PANEL + GAP + 20.0, bottom + 44.0);
    let first = get("infer", "cell", OURS)?;
    let title = format!(
        "Time relative to gru-op on two cores, {}, {}",
        first.machine,
        &first.date[..10]
    );
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" role=\"img\" aria-label=\"{title}\">\n<title>{title}</title>\n<style>{STYLE}</style>\n\
         <text class=\"title\" x=\"12\" y=\"22\">{title}</text>\n"
    );
    let mut x = 12.0;
    for (peer, name) in PEERS {
        out += &marker(peer, x + 6.0, 42.0);
        out += &format!("<text x=\"{}\" y=\"46\">{name}</text>\n", x + 16.0);
        x += 90.0;
    }
    out += &text(
        "small",
        x,
        46.0,
        "start",
        "right of the line is slower than gru-op; logarithmic scale",
    );
    for (row, shape) in SHAPES.into_iter().enumerate() {
        let y = TOP + ROW * (row as f64 + 0.5) + 4.0;
        out += &format!("<text x=\"12\" y=\"{y}\">{shape}</text>\n");
        out += &text("small", LEFT - 12.0, y, "end", &sizes(shape)?);
    }
    out += &text("small", LEFT - 12.0, TOP - 6.0, "end", "N, T, I, H");
    for (panel, (mode, name)) in MODES.into_iter().enumerate() {
        let left = LEFT + panel as f64 * (PANEL + GAP);
        let [lowest, highest] = [0.15f64, 700.0];
        let at = |times: f64| left + PANEL * (times / lowest).ln() / (highest / lowest).ln();
        out += &format!("<text x=\"{left}\" y=\"{}\">{name}</text>\n", TOP - 12.0);
        for tick in TICKS {
            let (line, label) = if tick == 1.0 {
                ("one", "one-text")
            } else {
                ("grid", "small")
            };
            let x = at(tick);
            out += &format!(
                "<path class=\"{line}\" d=\"M{x:.1} {TOP}V{}\"/>\n",
                bottom + 4.0
            );
            out += &text(label, x, bottom + 20.0, "middle", &format!("{tick}×"));
        }
        out += &text("one-text", at(1.0), bottom + 36.0, "middle", "gru-op");
        for (row, shape) in SHAPES.into_iter().enumerate() {
            let ours = get(mode, shape, OURS)?.median_ms;
            for (peer, _) in PEERS.into_iter().rev() {
                let times = get(mode, shape, peer)?.median_ms / ours;
                out += &marker(peer, at(times), TOP + ROW * (row as f64 + 0.5));
            }
        }
    }
    Ok(out + "</svg>\n")
}

fn text(class: &str, x: f64, y: f64, anchor: &str, text: &str) -> String {
    format!(
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y}\" text-anchor=\"{anchor}\">{text}</text>\n"
    )
}

/// A circle, a square or a diamond, so that the chart does not rely on colours.
fn marker(peer: &str, x: f64, y: f64) -> String {
    match peer {
        "torch" => {
            let (x, y) = (x - 4.0, y - 4.0);
            format!("<rect class=\"{peer}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"8\" height=\"8\"/>\n")
        }
        "onednn" => format!("<circle class=\"{peer}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.5\"/>\n"),
        _ => {
            let y = y - 5.5;
            format!("<path class=\"{peer}\" d=\"M{x:.1} {y:.1}l5.5 5.5l-5.5 5.5l-5.5-5.5z\"/>\n")
        }
    }
}
