"""PyTorch and oneDNN on the shapes of `sequence.rs`, as rows of the same record.

    python benches/peers/peers.py --threads 1,2 --csv benches/results/NAME.csv [--shapes char-s,long]
    ONEDNN=./onednn_gru python benches/peers/peers.py ...       # oneDNN too, see benches/peers/onednn_gru.cpp
    python benches/peers/peers.py --device cuda --csv ...       # cuDNN: float32 without TF32

Run it directly after `cargo bench -p gru-benches --bench sequence -- --csv benches/results/NAME.csv`, on
an idle machine: only times of one run can be compared. Requires torch.

  infer      forward in inference
  train_fwd  forward in training, which keeps what backward needs
  fwd_bwd    forward, Σ y ⊙ r, gradients of x, h0, all weights and biases
"""
import argparse
import csv
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

#  N, T, I, H, layers, directions
SHAPES = {
    "cell": (1, 1, 64, 128, 1, 1),
    "stream": (1, 128, 64, 128, 1, 1),
    "audio": (1, 2048, 1, 32, 1, 1),
    "char-s": (32, 64, 128, 256, 1, 1),
    "char-l": (64, 100, 256, 512, 1, 1),
    "speech": (16, 400, 80, 512, 1, 1),
    "long": (8, 2048, 64, 64, 1, 1),
    "big": (64, 50, 1024, 1024, 1, 1),
    "bi-char": (32, 64, 128, 256, 1, 2),
    "deep-char": (32, 64, 128, 256, 3, 1),
}
FIELDS = ["date", "machine", "peer", "version", "shape", "mode", "threads", "median_ms", "min_ms",
          "samples", "gflops", "sgemm_gflops", "saved_floats"]


def flops(shape, mode):
    n, t, i, h, layers, d = shape
    inputs = [i] + [h * d] * (layers - 1)
    forward = sum(2 * n * t * (k + h) * 3 * h * d for k in inputs)
    return forward * (3 if mode == "fwd_bwd" else 1)


def machine():
    for line in open("/proc/cpuinfo") if os.path.exists("/proc/cpuinfo") else []:
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown"


def measure(run):
    """Median and minimum milliseconds of a call, and the number of samples. Short calls run in batches."""
    start, once = time.perf_counter(), []
    while len(once) < 3 or (time.perf_counter() - start < 0.3 and len(once) < 2000):
        t = time.perf_counter()
        run()
        once.append(time.perf_counter() - t)
    inner = max(1, int(1e-3 / max(min(once), 1e-7)))
    samples, start = [], time.perf_counter()
    while len(samples) < 15 or (time.perf_counter() - start < 1.5 and len(samples) < 200):
        t = time.perf_counter()
        for _ in range(inner):
            run()
        samples.append((time.perf_counter() - t) * 1e3 / inner)
    return statistics.median(samples), min(samples), len(samples)


def torch_rows(threads, shapes, device):
    import torch

    torch.set_num_threads(threads)
    torch.set_default_device(device)
    if device == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False

    def done(run):
        """Runs the call and waits for a GPU."""
        if device == "cpu":
            return run

        def waited():
            run()
            torch.cuda.synchronize()

        return waited

    a, b = torch.randn(2048, 2048), torch.randn(2048, 2048)
    median, least, _ = measure(done(lambda: a @ b))
    rate = 2 * 2048**3 / (least * 1e6)
    for name in shapes:
        n, t, i, h, layers, d = shape = SHAPES[name]
        torch.manual_seed(0)
        gru = torch.nn.GRU(i, h, num_layers=layers, bidirectional=d == 2)
        x = torch.randn(t, n, i).requires_grad_()
        h0 = (0.1 * torch.randn(layers * d, n, h)).requires_grad_()
        r = torch.randn(t, n, d * h)
        wanted = [x, h0, *gru.parameters()]

        def infer():
            with torch.inference_mode():
                return gru(x, h0)

        def fwd_bwd():
            y, _ = gru(x, h0)
            return torch.autograd.grad((y * r).sum(), wanted)

        runs = {"infer": infer, "train_fwd": lambda: gru(x, h0), "fwd_bwd": fwd_bwd}
        for mode, run in runs.items():
            median, least, samples = measure(done(run))
            peer = "torch" if device == "cpu" else f"torch-{device}"
            yield (peer, torch.__version__, name, mode, threads, median, least, samples,
                   flops(shape, mode) / (median * 1e6), rate)


def onednn_rows(program, threads, shapes):
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as out:
        env = dict(os.environ, OMP_NUM_THREADS=str(threads))
        common = [program, "--threads", str(threads), "--json", out.name, "--patience", "0"]
        subprocess.run([*common, "--gemm"], check=True, env=env, stdout=subprocess.DEVNULL)
        subprocess.run([*common, "--shapes", ",".join(shapes)], check=True, env=env,
                       stdout=subprocess.DEVNULL)
        lines = [json.loads(line) for line in open(out.name)]
    gemm = [line for line in lines if line["mode"] == "gemm"]
    rate = max((g["gflops"] * g["median_ms"] / g["min_ms"] for g in gemm), default=float("nan"))
    for line in lines:
        if line["mode"] in ("infer", "train_fwd", "fwd_bwd"):
            shape = SHAPES[line["shape"]]
            yield ("onednn", line["version"], line["shape"], line["mode"], threads,
                   line["median_ms"], line["min_ms"], line["reps"],
                   flops(shape, line["mode"]) / (line["median_ms"] * 1e6), rate)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--threads", default="1,2")
    ap.add_argument("--shapes", default=",".join(SHAPES))
    ap.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    ap.add_argument("--csv", required=True)
    a = ap.parse_args()
    shapes = a.shapes.split(",")
    head = not os.path.exists(a.csv) or os.path.getsize(a.csv) == 0
    with open(a.csv, "a", newline="") as file:
        out = csv.writer(file)
        if head:
            out.writerow(FIELDS)
        for threads in map(int, a.threads.split(",")):
            if "," in a.threads:
                # Thread pools get their size once, so each count needs a process.
                file.flush()
                subprocess.run([sys.executable, __file__, "--threads", str(threads), "--shapes",
                                a.shapes, "--device", a.device, "--csv", a.csv], check=True)
                continue
            rows = list(torch_rows(threads, shapes, a.device))
            if program := os.environ.get("ONEDNN"):
                rows += onednn_rows(program, threads, shapes)
            for row in rows:
                today = datetime.date.today().isoformat()
                peer, version, shape, mode, k, median, least, samples, gflops, rate = row
                out.writerow([today, machine(), peer, version, shape, mode, k, f"{median:.5f}",
                              f"{least:.5f}", samples, f"{gflops:.2f}", f"{rate:.1f}", ""])
                print(f"{peer:8} {shape:10} {mode:10} {k} threads {median:10.3f} ms")


if __name__ == "__main__":
    main()
