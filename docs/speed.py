#!/usr/bin/env python3
"""Draws docs/speed.svg, the chart of the README, from a record of benches/results.

    python3 docs/speed.py [RECORD.csv]

Requires only the standard library. Every peer has its best thread count.
"""
import csv
import math
import pathlib
import sys

FOLDER = pathlib.Path(__file__).parent
RECORD = FOLDER.parent / "benches/results/epyc-zen4-2-cores.csv"
# N, T, I, H. The numbers are those of SHAPES in benches/support.
SHAPES = {
    "cell": "1, 1, 64, 128",
    "stream": "1, 128, 64, 128",
    "audio": "1, 2048, 1, 32",
    "long": "8, 2048, 64, 64",
    "char-s": "32, 64, 128, 256",
    "char-l": "64, 100, 256, 512",
    "speech": "16, 400, 80, 512",
    "big": "64, 50, 1024, 1024",
    "bi-char": "as char-s, bidirectional",
    "deep-char": "as char-s, 3 layers",
}
PEERS = {"onednn": "oneDNN", "torch": "PyTorch", "burn-flex": "Burn Gru"}
MODES = {"infer": "Inference", "fwd_bwd": "Training (forward and backward)"}
OURS = "gru-op-flex"
LEFT, PANEL, GAP, TOP, ROW = 208, 290, 46, 84, 24
LOWEST, HIGHEST = 0.5, 600
HEIGHT = TOP + ROW * len(SHAPES) + 44
STYLE = """
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
"""


def medians(record):
    """The lowest median of each mode, shape and peer over all thread counts, and the date."""
    best, dates = {}, set()
    with open(record, newline="") as file:
        for row in csv.DictReader(file):
            key = row["mode"], row["shape"], row["peer"]
            best[key] = min(best.get(key, math.inf), float(row["median_ms"]))
            dates.add(row["date"])
    (date,) = dates
    return best, date


def marker(peer, x, y):
    """A circle, a square or a diamond, so that the chart does not rely on colours."""
    if peer == "torch":
        return f'<rect class="{peer}" x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8"/>'
    if peer == "onednn":
        return f'<circle class="{peer}" cx="{x:.1f}" cy="{y:.1f}" r="4.5"/>'
    return f'<path class="{peer}" d="M{x:.1f} {y - 5.5:.1f}l5.5 5.5l-5.5 5.5l-5.5-5.5z"/>'


def main():
    record = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else RECORD
    best, date = medians(record)
    width = LEFT + 2 * PANEL + GAP + 20
    bottom = TOP + ROW * len(SHAPES)
    title = f"Time relative to gru-op on two Zen 4 cores, {date}"
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" '
        f'width="{width}" height="{HEIGHT}" role="img" aria-label="{title}">',
        f"<title>{title}</title>",
        f"<style>{STYLE}</style>",
        f'<text class="title" x="12" y="22">{title}</text>',
    ]
    x = 12
    for peer, name in PEERS.items():
        out += [marker(peer, x + 6, 42), f'<text x="{x + 16}" y="46">{name}</text>']
        x += 90
    out.append(f'<text class="small" x="{x}" y="46">right of the line is slower than gru-op; logarithmic scale</text>')
    for row, (shape, sizes) in enumerate(SHAPES.items()):
        y = TOP + ROW * (row + 0.5)
        out += [
            f'<text x="12" y="{y + 4}">{shape}</text>',
            f'<text class="small" x="{LEFT - 12}" y="{y + 4}" text-anchor="end">{sizes}</text>',
        ]
    out.append(f'<text class="small" x="{LEFT - 12}" y="{TOP - 6}" text-anchor="end">N, T, I, H</text>')
    for panel, (mode, name) in enumerate(MODES.items()):
        left = LEFT + panel * (PANEL + GAP)

        def at(times):
            return left + PANEL * math.log(times / LOWEST) / math.log(HIGHEST / LOWEST)

        out.append(f'<text x="{left}" y="{TOP - 12}">{name}</text>')
        for tick in (0.5, 1, 2, 5, 10, 30, 100, 500):
            kind = "one" if tick == 1 else "grid"
            text = "one-text" if tick == 1 else "small"
            out += [
                f'<path class="{kind}" d="M{at(tick):.1f} {TOP}V{bottom + 4}"/>',
                f'<text class="{text}" x="{at(tick):.1f}" y="{bottom + 20}" text-anchor="middle">{tick:g}×</text>',
            ]
        out.append(f'<text class="one-text" x="{at(1):.1f}" y="{bottom + 36}" text-anchor="middle">gru-op</text>')
        for row, shape in enumerate(SHAPES):
            y = TOP + ROW * (row + 0.5)
            for peer in reversed(PEERS):
                times = best[mode, shape, peer] / best[mode, shape, OURS]
                out.append(marker(peer, at(times), y))
    out.append("</svg>\n")
    (FOLDER / "speed.svg").write_text("\n".join(out))


if __name__ == "__main__":
    main()
