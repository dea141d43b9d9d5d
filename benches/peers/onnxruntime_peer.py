"""ONNX Runtime as a peer of the benchmark, inference only. benches/peer.rs describes the protocol.

A model with a GRU operator for each layer, time-major. Its tensors are bound before the clock starts. The output is the
one of the operator, [T,D,N,H].
"""
import os
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

DENSE, STARTS, LENGTHS, PACKED = range(4)


class Case:
    def __init__(self, raw, mode):
        n, t, i, h, layers, directions, kind, marks = raw[:8].tolist()
        if mode != "infer" or kind in (STARTS, PACKED):
            raise NotImplementedError("inference of padded sequences without starts only")
        floats = raw[8 + marks:].view("<f4")

        def take(*shape):
            nonlocal floats
            part, floats = floats[:int(np.prod(shape))], floats[int(np.prod(shape)):]
            return part.reshape(shape)

        x, h0 = take(n, t, i), take(layers * directions, n, h)
        take(n, t, directions * h)
        nodes, constants, source = [], [], "x"

        def constant(name, array):
            constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
            return name

        # Gates r, z, n become z, r, n.
        def gates(array):
            r, z, candidate = np.split(array, 3)
            return np.concatenate([z, r, candidate])

        lengths = constant("lengths", raw[8:8 + marks]) if kind == LENGTHS else ""
        for layer in range(layers):
            width = i if layer == 0 else directions * h
            parts = [[take(3 * h, width), take(3 * h, h), take(3 * h), take(3 * h)] for _ in range(directions)]
            weights = [constant(f"{name}{layer}", np.stack([gates(part[k]) for part in parts]))
                       for k, name in enumerate("wr")]
            bias = np.stack([np.concatenate([gates(part[2]), gates(part[3])]) for part in parts])
            state = constant(f"h{layer}", h0[layer * directions:(layer + 1) * directions])
            nodes.append(helper.make_node(
                "GRU", [source, *weights, constant(f"b{layer}", bias), lengths, state],
                [f"y{layer}", f"state{layer}"], hidden_size=h, linear_before_reset=1,
                direction="bidirectional" if directions == 2 else "forward"))
            if layer == layers - 1:
                break
            source = f"y{layer}"
            if directions == 2:
                nodes.append(helper.make_node("Transpose", [source], [f"turned{layer}"], perm=[0, 2, 1, 3]))
                source = f"turned{layer}"
            shape = constant(f"shape{layer}", np.array([t, n, directions * h], dtype=np.int64))
            nodes.append(helper.make_node("Reshape", [source, shape], [f"x{layer + 1}"]))  # no copy
            source = f"x{layer + 1}"
        assert len(floats) == 0, "the problem file is too long"
        floats_of = lambda name, *shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        self.names = [f"y{layers - 1}", *(f"state{layer}" for layer in range(layers))]
        outputs = [floats_of(self.names[0], t, directions, n, h),
                   *(floats_of(name, directions, n, h) for name in self.names[1:])]
        graph = helper.make_graph(nodes, "gru", [floats_of("x", t, n, i)], outputs, constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=9)
        onnx.checker.check_model(model)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = int(os.environ["OMP_NUM_THREADS"])
        with tempfile.TemporaryDirectory() as folder:  # a session keeps the bytes of a model that is not from a file
            path = os.path.join(folder, "gru.onnx")
            onnx.save(model, path)
            self.session = onnxruntime.InferenceSession(path, options)
        self.binding = self.session.io_binding()
        self.x = onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(x.transpose(1, 0, 2)))
        self.binding.bind_ortvalue_input("x", self.x)
        for name in self.names:
            self.binding.bind_output(name)

    def call(self):
        self.session.run_with_iobinding(self.binding)

    def outputs(self):
        self.call()
        y, *states = self.binding.copy_outputs_to_cpu()
        return np.concatenate([y.transpose(2, 0, 1, 3).ravel(), *(state.ravel() for state in states)]).astype("<f4")


def start():
    """The first call of a process starts threads and loads code. This one leaves their memory out of the peak."""
    n, t, i, h = 64, 4, 64, 256
    raw = np.zeros(8 + n * t * (i + h) + n * h + 3 * h * (i + h + 2), dtype="<i4")
    raw[:8] = n, t, i, h, 1, 1, DENSE, 0
    Case(raw, "infer").call()


def main():
    start()
    print("ready", onnxruntime.__version__, sep="\t", flush=True)
    case = None
    for line in sys.stdin:
        request, *words = line.rstrip("\n").split("\t")
        if request == "prepare":
            problem, mode, out = words
            case = None
            try:
                case = Case(np.fromfile(problem, dtype="<i4"), mode)
            except NotImplementedError as reason:
                print("no", reason, sep="\t", flush=True)
                continue
            case.outputs().tofile(out)
            print("ok", "y h_n", "", sep="\t", flush=True)
        else:
            warm_up, calls = map(int, words)
            for _ in range(warm_up):
                case.call()
            begin = time.perf_counter_ns()
            for _ in range(calls):
                case.call()
            print("ok", time.perf_counter_ns() - begin, sep="\t", flush=True)


if __name__ == "__main__":
    main()
