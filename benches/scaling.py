"""Draws speed-up and efficiency over threads from a record, each relative to the program's own time with one thread.
In the root of the repository:

    cargo run --release -p gru-benches -- --peers gru-op-flex,torch,openvino,onednn --threads 1,2,4,8,16 \\
        --shapes char-s,char-l,speech,big,stream,ragged,rl --csv benches/results/NAME-scaling.csv
    target/peers/bin/python benches/scaling.py benches/results/NAME-scaling.csv docs/src/scaling.svg

With `--cores 2` all threads have two cores, as in the picture of the book.
"""
import csv
import sys
from pathlib import Path

import matplotlib
from matplotlib import pyplot

record, picture = map(Path, sys.argv[1:])
times = {}
for row in csv.DictReader(record.open()):
    curve = times.setdefault((row["mode"], row["shape"]), {}).setdefault(row["peer"], {})
    curve[int(row["threads"])] = float(row["median_ms"])
counts = sorted({count for curves in times.values() for curve in curves.values() for count in curve})
shapes = list(dict.fromkeys(shape for _, shape in times))
peers = list(dict.fromkeys(peer for curves in times.values() for peer in curves))
matplotlib.rcParams.update({"svg.hashsalt": "", "svg.fonttype": "none", "font.size": 8})
lines = [(mode, kind) for mode in ("infer", "fwd_bwd") for kind in ("speed-up", "efficiency")]
figure, axes = pyplot.subplots(4, len(shapes), figsize=(2 * len(shapes) + 1, 7), sharex=True, sharey="row", squeeze=False)
for (mode, kind), row in zip(lines, axes):
    row[0].set_ylabel(f"{mode}\n{kind}")
    for shape, panel in zip(shapes, row):
        for peer, curve in times.get((mode, shape), {}).items():
            threads = sorted(curve) if 1 in curve else []
            values = [curve[1] / curve[count] / (count if kind == "efficiency" else 1) for count in threads]
            panel.plot(threads, values, ".-", color=f"C{peers.index(peer)}", label=peer)
        panel.set_xscale("log", base=2)
        panel.set_xticks(counts, counts)
        panel.set_ylim(bottom=0)
        panel.grid(alpha=0.3)
for shape, top, bottom in zip(shapes, axes[0], axes[-1]):
    top.set_title(shape)
    bottom.set_xlabel("threads")
figure.legend(*axes[0][0].get_legend_handles_labels(), ncols=len(peers), loc="upper center")
figure.tight_layout(rect=(0, 0, 1, 0.96))
figure.savefig(picture, metadata={"Date": None})
