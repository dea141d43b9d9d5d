"""ONNX Runtime as a peer of the benchmark, inference only. benches/support/peer.rs describes the protocol.

A model with a GRU operator for each layer, time-major. Its tensors are bound before the clock starts.
"""
import os
import sys
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

DENSE, STARTS, LENGTHS, PACKED = range(4)


class Case:
    def __init__(self, path, mode):
        raw = np.fromfile(path, dtype="<i4")
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
        nodes, constants, inputs = [], [], ["x"]

        def constant(name, array):
            constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
            return name

        # Gates r, z, n become z, r, n.
        def gates(array):
            r, z, candidate = np.split(array, 3)
            return np.concatenate([z, r, candidate])

        lengths = constant("lengths", raw[8:8 + marks]) if kind == LENGTHS else ""
        constant("shape", np.array([t, n, directions * h], dtype=np.int64))
        for layer in range(layers):
            width = i if layer == 0 else directions * h
            parts = [[take(3 * h, width), take(3 * h, h), take(3 * h), take(3 * h)] for _ in range(directions)]
            weights = [constant(f"{name}{layer}", np.stack([gates(part[k]) for part in parts]))
                       for k, name in enumerate("wr")]
            bias = np.stack([np.concatenate([gates(part[2]), gates(part[3])]) for part in parts])
            state = constant(f"h{layer}", h0[layer * directions:(layer + 1) * directions])
            nodes.append(helper.make_node(
                "GRU", [inputs[-1], *weights, constant(f"b{layer}", bias), lengths, state],
                [f"y{layer}", f"state{layer}"], hidden_size=h, linear_before_reset=1,
                direction="bidirectional" if directions == 2 else "forward"))
            nodes.append(helper.make_node("Transpose", [f"y{layer}"], [f"turned{layer}"], perm=[0, 2, 1, 3]))
            nodes.append(helper.make_node("Reshape", [f"turned{layer}", "shape"], [f"out{layer}"]))
            inputs.append(f"out{layer}")
        assert len(floats) == 0, "the problem file is too long"
        floats_of = lambda name, *shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        self.names = [inputs[-1], *(f"state{layer}" for layer in range(layers))]
        outputs = [floats_of(self.names[0], t, n, directions * h),
                   *(floats_of(name, directions, n, h) for name in self.names[1:])]
        graph = helper.make_graph(nodes, "gru", [floats_of("x", t, n, i)], outputs, constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=9)
        onnx.checker.check_model(model)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = int(os.environ["OMP_NUM_THREADS"])
        self.session = onnxruntime.InferenceSession(model.SerializeToString(), options)
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
        return np.concatenate([y.transpose(1, 0, 2).ravel(), *(state.ravel() for state in states)]).astype("<f4")


def main():
    print("ready", onnxruntime.__version__, sep="\t", flush=True)
    case = None
    for line in sys.stdin:
        request, *words = line.rstrip("\n").split("\t")
        if request == "prepare":
            problem, mode, out = words
            try:
                case = Case(problem, mode)
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
