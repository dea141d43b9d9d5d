"""The peers that read an ONNX model, inference only. Runs after protocol.py.

    onnxruntime | openvino | openvino-bf16
    write PROBLEM MODEL      # only writes the model, for the peers in Rust

The model has a GRU operator for each layer, time-major, with the initial states as constants. Its outputs are the one
of the last operator, [T,D,N,H], and the final states of each layer. x is bound before the clock starts.
OpenVINO has no 8-bit variant here: NNCF 3.4 finds nothing to quantize in this model.
"""
import tempfile

import onnx
from onnx import TensorProto, helper, numpy_helper


def gru(problem):
    n, t, i, h, layers, directions = problem.sizes
    nodes, constants, source = [], [], "x"

    def constant(name, array):
        constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    # Gates r, z, n become z, r, n.
    def gates(array):
        r, z, candidate = np.split(array, 3)
        return np.concatenate([z, r, candidate])

    lengths = constant("lengths", problem.marks) if problem.kind == LENGTHS else ""
    for layer in range(layers):
        at = slice(layer * directions, (layer + 1) * directions)
        parts = problem.weights[at]
        weights = [constant(f"{name}{layer}", np.stack([gates(part[k]) for part in parts]))
                   for k, name in enumerate("wr")]
        bias = np.stack([np.concatenate([gates(part[2]), gates(part[3])]) for part in parts])
        state = constant(f"h{layer}", problem.h0[at])
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
    floats = lambda name, *shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    outputs = [floats(f"y{layers - 1}", t, directions, n, h),
               *(floats(f"state{layer}", directions, n, h) for layer in range(layers))]
    graph = helper.make_graph(nodes, "gru", [floats("x", t, n, i)], outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=9)
    onnx.checker.check_model(model)
    return model


class Case:
    def __init__(self, problem, trains):
        if trains or problem.kind in (STARTS, PACKED):
            raise NotImplementedError("inference of padded sequences without starts only")
        x = np.ascontiguousarray(problem.x.transpose(1, 0, 2))
        with tempfile.TemporaryDirectory() as folder:  # ONNX Runtime keeps the bytes of a model that is not from a file
            path = os.path.join(folder, "gru.onnx")
            onnx.save(gru(problem), path)
            self.load(path, x)

    def outputs(self):
        y, *states = self.results()
        return y.transpose(2, 0, 1, 3), np.concatenate(states)


class OnnxRuntime(Case):
    def load(self, path, x):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = THREADS
        self.session = onnxruntime.InferenceSession(path, options)
        self.binding = self.session.io_binding()
        self.x = onnxruntime.OrtValue.ortvalue_from_numpy(x)
        self.binding.bind_ortvalue_input("x", self.x)
        for output in self.session.get_outputs():
            self.binding.bind_output(output.name)

    def call(self):
        self.session.run_with_iobinding(self.binding)

    def results(self):
        self.call()
        return self.binding.copy_outputs_to_cpu()


class OpenVino(Case):
    precision = "bf16" if sys.argv[1].endswith("bf16") else "f32"

    def load(self, path, x):
        import openvino
        options = {"INFERENCE_PRECISION_HINT": self.precision, "NUM_STREAMS": 1, "INFERENCE_NUM_THREADS": THREADS,
                   "ENABLE_CPU_PINNING": False}
        self.request = openvino.Core().compile_model(path, "CPU", options).create_infer_request()
        self.x = x
        self.request.set_input_tensor(openvino.Tensor(x, shared_memory=True))

    def call(self):
        return self.request.infer(share_outputs=True)

    def results(self):
        return list(self.call().values())


if sys.argv[1] == "write":
    onnx.save(gru(Problem(sys.argv[2])), sys.argv[3])
else:
    package, case = {"onnxruntime": ("onnxruntime", OnnxRuntime)}.get(sys.argv[1], ("openvino", OpenVino))
    serve(__import__(package).__version__.split("-")[0], case)
