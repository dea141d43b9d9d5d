"""The peers that read an ONNX model, inference only. Runs after protocol.py.

    onnxruntime | openvino | openvino-bf16
    write PROBLEM MODEL      # only writes the model, for the peers in Rust

The model has a GRU operator for each layer, time-major. Its inputs are x and the initial states of each layer: with
constant states an optimizer would compute the recurrent product of a single step in advance. Its outputs are the one of
the last operator, [T,D,N,H], and the final states of each layer. Inputs are bound before the clock starts.
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
        nodes.append(helper.make_node(
            "GRU", [source, *weights, constant(f"b{layer}", bias), lengths, f"h{layer}"],
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
    states = lambda name: [floats(f"{name}{layer}", directions, n, h) for layer in range(layers)]
    inputs, outputs = [floats("x", t, n, i), *states("h")], [floats(f"y{layers - 1}", t, directions, n, h), *states("state")]
    graph = helper.make_graph(nodes, "gru", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=9)
    onnx.checker.check_model(model)
    return model


class Case:
    def __init__(self, problem, trains):
        if trains or problem.kind in (STARTS, PACKED):
            raise NotImplementedError("inference of padded sequences without starts only")
        directions = problem.sizes[5]
        states = np.split(problem.h0, len(problem.h0) // directions)
        self.inputs = {"x": np.ascontiguousarray(problem.x.transpose(1, 0, 2)),
                       **{f"h{layer}": np.ascontiguousarray(state) for layer, state in enumerate(states)}}
        with tempfile.TemporaryDirectory() as folder:  # ONNX Runtime keeps the bytes of a model that is not from a file
            path = os.path.join(folder, "gru.onnx")
            onnx.save(gru(problem), path)
            self.load(path)

    def outputs(self):
        y, *states = self.results()
        return y.transpose(2, 0, 1, 3), np.concatenate(states)


class OnnxRuntime(Case):
    def load(self, path):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = THREADS
        self.session = onnxruntime.InferenceSession(path, options)
        self.binding = self.session.io_binding()
        self.values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in self.inputs.items()}
        for name, value in self.values.items():
            self.binding.bind_ortvalue_input(name, value)
        for output in self.session.get_outputs():
            self.binding.bind_output(output.name)

    def call(self):
        self.session.run_with_iobinding(self.binding)

    def results(self):
        self.call()
        return self.binding.copy_outputs_to_cpu()


class OpenVino(Case):
    precision = "bf16" if sys.argv[1].endswith("bf16") else "f32"

    def load(self, path):
        import openvino
        options = {"INFERENCE_PRECISION_HINT": self.precision, "NUM_STREAMS": 1, "INFERENCE_NUM_THREADS": THREADS,
                   "ENABLE_CPU_PINNING": False}
        self.request = openvino.Core().compile_model(path, "CPU", options).create_infer_request()
        for name, array in self.inputs.items():
            self.request.set_tensor(name, openvino.Tensor(array, shared_memory=True))

    def call(self):
        return self.request.infer(share_outputs=True)

    def results(self):
        return list(self.call().values())


if sys.argv[1] == "write":
    onnx.save(gru(Problem(sys.argv[2])), sys.argv[3])
else:
    package, case = {"onnxruntime": ("onnxruntime", OnnxRuntime)}.get(sys.argv[1], ("openvino", OpenVino))
    serve(__import__(package).__version__.split("-")[0], case)
