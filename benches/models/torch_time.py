"""Times of PyTorch's GRU for one step of one row: float32, and with weights of 8 bits by dynamic quantization.

    pip install torch==2.15.0
    taskset -c 1 python benches/models/torch_time.py

Weights are random, with the sizes of `crates/gru-cpu/benches/stack.rs`. One thread. Prints microseconds, medians of
nine samples, as lines `name,precision,microseconds`.
"""
import statistics
import time
import warnings

import torch

SHAPES = [("cell", 64, 128, 1), ("g2p decoder", 256, 256, 1), ("DeepFilterNet 3", 256, 256, 5),
          ("RNNoise 0.2", 384, 384, 3), ("nsnet2-20ms-baseline", 400, 400, 2),
          ("nsnet2-20ms-48k-baseline", 600, 600, 2)]
SAMPLES, STEPS = 9, 60


def microseconds(gru, features):
    """Steps with carried state."""
    x, state = torch.randn(1, 1, features), None
    samples = []
    with torch.inference_mode():
        for _ in range(SAMPLES + 1):
            start = time.perf_counter()
            for _ in range(STEPS):
                _, state = gru(x, state)
            samples.append((time.perf_counter() - start) / STEPS * 1e6)
    return statistics.median(samples[1:])


def main():
    warnings.simplefilter("ignore")  # Dynamic quantization is deprecated.
    torch.set_num_threads(1)
    for name, features, hidden, layers in SHAPES:
        gru = torch.nn.GRU(features, hidden, layers)
        quantize = torch.ao.quantization.quantize_dynamic
        int8 = quantize(torch.nn.Sequential(gru), {torch.nn.GRU}, dtype=torch.qint8)[0]
        for precision, layer in (("float32", gru), ("int8", int8)):
            print(f"{name},{precision},{microseconds(layer, features):.2f}", flush=True)


main()
