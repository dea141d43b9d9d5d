"""The protocol of benches/peer.rs, for the peers in Python. The driver puts this file before the file of a peer."""
import os
import sys
import time

import numpy as np

DENSE, STARTS, LENGTHS, PACKED = range(4)
THREADS = int(os.environ.get("OMP_NUM_THREADS", "1"))


class Problem:
    """A problem file: batch-major arrays, and PyTorch's four parameters for each direction of each layer."""

    def __init__(self, path):
        raw = np.fromfile(path, dtype="<i4")
        *self.sizes, self.kind, marks = raw[:8].tolist()
        n, t, i, h, layers, directions = self.sizes
        self.marks, floats = raw[8:8 + marks], raw[8 + marks:].view("<f4")

        def take(*shape):
            nonlocal floats
            part, floats = np.split(floats, [np.prod(shape)])
            return part.reshape(shape)

        self.x, self.h0, self.r = take(n, t, i), take(layers * directions, n, h), take(n, t, directions * h)
        self.weights = [[take(3 * h, i if k < directions else directions * h), take(3 * h, h), take(3 * h), take(3 * h)]
                        for k in range(layers * directions)]
        assert len(floats) == 0, "the problem file is too long"


def serve(version, prepare, wait=lambda: None):
    """Answers the driver. `prepare(problem, trains)` raises NotImplementedError, or returns an object with `call()`, and
    `outputs()`: arrays in the protocol's order. It may have a `note`."""
    print("ok", version, sep="\t", flush=True)
    case = None
    for line in sys.stdin:
        request, *words = line.rstrip("\n").split("\t")
        if request == "prepare":
            path, mode, out = words
            case = None
            try:
                case = prepare(Problem(path), mode == "fwd_bwd")
            except NotImplementedError as reason:
                print("no", reason, sep="\t", flush=True)
                continue
            arrays = case.outputs()
            np.concatenate([np.ravel(array) for array in arrays]).astype("<f4").tofile(out)
            names = ["y", "h_n", "d_x", "d_h0"]
            names += [f"d_{name}.{k}" for k in range(len(arrays) // 4) for name in ("w_ih", "w_hh", "b_ih", "b_hh")]
            print("ok", " ".join(names[:len(arrays)]), getattr(case, "note", ""), sep="\t", flush=True)
            del arrays
        else:
            warm_up, calls = map(int, words)
            for _ in range(warm_up):
                case.call()
            wait()
            begin = time.perf_counter_ns()
            for _ in range(calls):
                case.call()
            wait()
            print("ok", time.perf_counter_ns() - begin, sep="\t", flush=True)
