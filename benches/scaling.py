"""Draws speed-up over threads from a record, relative to the program's own time with one thread, in four panels.
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

# Both modes of a batch, training of one long row, and rows of different lengths.
PANELS = [("infer", "char-l"), ("fwd_bwd", "char-l"), ("fwd_bwd", "stream"), ("fwd_bwd", "ragged")]
record, picture = map(Path, sys.argv[1:])
times = {}
for row in csv.DictReader(record.open()):
    curve = times.setdefault((row["mode"], row["shape"]), {}).setdefault(row["peer"], {})
    curve[int(row["threads"])] = float(row["median_ms"])
counts = sorted({count for curves in times.values() for curve in curves.values() for count in curve})
peers = list(dict.fromkeys(peer for curves in times.values() for peer in curves))
matplotlib.rcParams.update({"svg.hashsalt": "", "svg.fonttype": "none", "font.size": 9})
names = {"gru-op-flex": "gru-op", "torch": "PyTorch", "openvino": "OpenVINO", "onednn": "oneDNN"}
figure, axes = pyplot.subplots(1, len(PANELS), figsize=(10, 2.8), sharex=True, sharey=True)
for (mode, shape), panel in zip(PANELS, axes):
    for peer, curve in times[mode, shape].items():
        values = [curve[1] / curve[count] for count in sorted(curve)]
        panel.plot(sorted(curve), values, ".-", color=f"C{peers.index(peer)}", label=names.get(peer, peer))
    panel.set_xscale("log", base=2)
    panel.set_xticks(counts, counts)
    panel.set_ylim(bottom=0)
    panel.grid(alpha=0.3)
    panel.set_title(f"{shape}, {'inference' if mode == 'infer' else 'training'}")
    panel.set_xlabel("threads")
axes[0].set_ylabel("speed-up over one thread")
figure.legend(*axes[0].get_legend_handles_labels(), ncols=len(peers), loc="upper center")
figure.tight_layout(rect=(0, 0, 1, 0.9))
figure.savefig(picture, metadata={"Date": None})
