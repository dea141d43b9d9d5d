"""Times of ONNX Runtime for the recorded inputs: only the GRUs, one round per line on stdin.

A round prints lines `model,what,threads,milliseconds per second of sound` and ends with a line that
contains a dot. `file` is one call for the whole file. `frame` is one call per frame with tensors that
are bound in advance, so that Python adds little time. `call` runs a graph that only copies its input,
a hundred times.
"""
import sys
import time

import numpy as np
import onnxruntime
from onnx import helper
from safetensors.numpy import load_file

from cut import floats
from features import DeepFilterNet3
from libdf import LibDf
from speech import noisy_speech

THREADS = [1, 2]
# Frames per second of sound. NSNet2's package uses frames of 512 samples at 48 kHz.
FRAME_RATE = {"nsnet2-20ms-48k-baseline": 48000 / 512}
USUAL_FRAME_RATE = 100.0
# Time until the threads of ONNX Runtime stop waiting for work.
REST = 0.1


def session(model, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def value(array):
    """A tensor with its own memory. A tensor made from an array shares the array's memory."""
    return onnxruntime.OrtValue.ortvalue_from_numpy(np.array(array, order="C"))


class Grus:
    """The GRUs of one file as one model in one session."""

    def __init__(self, network, recorded, threads):
        self.session = session(network.cut(network.grus), threads)
        key = "stack" if len(network.grus) > 1 else network.grus[0].name
        self.x, initial = recorded[f"{key}:file:X"], recorded[f"{key}:file:initial_h"]
        names = [f"initial_h.{k}" for k in range(len(network.grus))]
        self.feeds = {"X": self.x, **{name: initial[k:k + 1] for k, name in enumerate(names)}}
        self.initial = [initial[k:k + 1] for k in range(len(names))]
        # Two sets of states, used alternately: previous step and current step.
        states = [[value(h) for h in self.initial] for _ in range(2)]
        self.first = states[0]
        y_name, *h_names = [out.name for out in self.session.get_outputs()]
        self.frames, self.out = [], []
        for t in range(len(self.x)):
            binding = self.session.io_binding()
            binding.bind_ortvalue_input("X", value(self.x[t:t + 1]))
            y = value(np.zeros((1, 1, *self.initial[0].shape[1:]), np.float32))
            binding.bind_ortvalue_output(y_name, y)
            for k, (before, after) in enumerate(zip(names, h_names)):
                binding.bind_ortvalue_input(before, states[t % 2][k])
                binding.bind_ortvalue_output(after, states[(t + 1) % 2][k])
            self.frames.append(binding)
            self.out.append(y)
        self.by_frame()
        y = np.concatenate([y.numpy() for y in self.out])
        distance = np.abs(y - recorded[f"{key}:file:Y"]).max()
        if distance > 1e-4:
            sys.exit(f"{key}: frame by frame differs by {distance:.1e} from the whole file")

    def by_frame(self):
        for value, initial in zip(self.first, self.initial):
            value.update_inplace(initial)
        run = self.session.run_with_iobinding
        for frame in self.frames:
            run(frame)

    def by_file(self):
        self.session.run(None, self.feeds)


def copy_call():
    """The minimum time of a call: copying one frame."""
    shape = [1, 1, 256]
    node = helper.make_node("Identity", ["x"], ["y"])
    graph = helper.make_graph([node], "copy", [floats("x", shape)], [floats("y", shape)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
    copy = session(model.SerializeToString(), 1)
    binding = copy.io_binding()
    binding.bind_ortvalue_input("x", value(np.zeros(shape, np.float32)))
    binding.bind_ortvalue_output("y", value(np.zeros(shape, np.float32)))
    return lambda: [copy.run_with_iobinding(binding) for _ in range(100)]


def serve(root, networks):
    """Runs one round for each line on stdin."""
    runs = [("copy", "call", 1, 1.0, copy_call())]
    for name, network in networks.items():
        recorded = load_file(root / "recorded" / f"{name}.safetensors")
        rate = FRAME_RATE.get(name, USUAL_FRAME_RATE)
        for threads in THREADS:
            grus = Grus(network, recorded, threads)
            seconds = len(grus.x) / rate
            runs += [(name, "file", threads, seconds, grus.by_file),
                     (name, "frame", threads, seconds, grus.by_frame)]
    if (root / "deepfilternet3/libdeepfilter.so").is_file() and sys.platform == "linux":
        seconds = 1.0
        sound, library = noisy_speech(DeepFilterNet3.RATE, seconds), LibDf(root / "deepfilternet3")
        runs.append(("libdeepfilter", "network", 1, seconds, lambda: library.lsnr(sound)))
    for *_, run in runs:
        run()
    print(f"onnxruntime {onnxruntime.__version__}", flush=True)
    for _ in sys.stdin:
        for name, what, threads, seconds, run in runs:
            start = time.perf_counter()
            run()
            print(f"{name},{what},{threads},{(time.perf_counter() - start) * 1e3 / seconds:.6f}")
        time.sleep(REST)
        print(".", flush=True)
