"""The GRU nodes of an ONNX graph, and graphs that contain only these nodes."""
import copy
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

KNOWN = {"hidden_size", "linear_before_reset"}


class Network:
    """A model, its GRU nodes in order, and which nodes follow each other directly."""

    def __init__(self, path):
        self.model = onnx.load(str(path))
        graph = self.model.graph
        self.made_by = {out: node for node in graph.node for out in node.output}
        self.initializers = {t.name: t for t in graph.initializer}
        self.grus = [node for node in graph.node if node.op_type == "GRU"]
        for node in self.grus:
            attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
            if set(attributes) - KNOWN or attributes.get("linear_before_reset") != 1:
                sys.exit(f"{path}: {node.name} has {attributes}, expected linear_before_reset = 1 "
                         "alone")
        for first, second in zip(self.grus, self.grus[1:]):
            if self.between(second).input[0] != first.output[0]:
                sys.exit(f"{path}: {second.name} does not follow {first.name} directly")

    def between(self, node):
        """The `Squeeze` of the directions before a node."""
        made_by = self.made_by[node.input[0]]
        if made_by.op_type != "Squeeze":
            sys.exit(f"{node.name}: expected a Squeeze before it, got {made_by.op_type}")
        return made_by

    def weights(self, node):
        """W, R, B as float32 arrays."""
        return [numpy_helper.to_array(self.constant(name)) for name in node.input[1:4]]

    def constant(self, name):
        if name in self.initializers:
            return self.initializers[name]
        return self.made_by[name].attribute[0].t

    def with_inner_outputs(self):
        """The model with X, initial_h, Y and Y_h of every GRU as outputs, as bytes."""
        model = copy.deepcopy(self.model)
        known = {out.name for out in model.graph.output}
        for name in inner(self.grus):
            if name not in known:
                known.add(name)
                model.graph.output.append(floats(name, None))
        return model.SerializeToString()

    def cut(self, nodes, lengths=False):
        """A model of consecutive nodes. Inputs: `X`, `initial_h` of each node and, optionally,
        `sequence_lens`. Outputs: the last `Y` and each `Y_h`."""
        made, initializers, squeezed = [], [], None
        inputs, outputs = [floats("X", [None] * 3)], []

        def keep(name):
            """A constant in any form that a model may use."""
            if name in self.initializers:
                initializers.append(self.initializers[name])
            else:
                made.append(self.made_by[name])

        for k, original in enumerate(nodes):
            node = copy.deepcopy(original)
            if k > 0:
                squeeze = copy.deepcopy(self.between(original))
                for name in squeeze.input[1:]:
                    keep(name)
                made.append(squeeze)
            else:
                node.input[0] = "X"
            for name in node.input[1:4]:
                keep(name)
            node.input[4] = "sequence_lens" if lengths else ""
            node.input[5] = f"initial_h.{k}"
            inputs.append(floats(node.input[5], [None] * 3))
            made.append(node)
            outputs.append(floats(node.output[1], [None] * 3))
        if lengths:
            lengths = helper.make_tensor_value_info("sequence_lens", TensorProto.INT32, [None])
            inputs.append(lengths)
        y = floats(nodes[-1].output[0], [None] * 4)
        graph = helper.make_graph(made, "grus", inputs, [y, *outputs], initializers)
        model = helper.make_model(graph, opset_imports=self.model.opset_import)
        model.ir_version = self.model.ir_version
        onnx.checker.check_model(model)
        return model.SerializeToString()


def floats(name, shape):
    """A float32 input or output of a graph."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def inner(grus):
    """The input and output tensors of the nodes."""
    return [name for node in grus for name in (node.input[0], node.input[5], *node.output)]


def logistic(a):
    return 0.5 * (1 + np.tanh(0.5 * a))


def in_float64(weights, x, h0, lengths=None, before=False, sigmoid=logistic):
    """The equations of the operator with reset after or before the product, in float64: `X [T,N,I]` and
    `initial_h [1,N,H]` to `Y [T,1,N,H]` and `Y_h [1,N,H]`."""
    w, r, b = (a[0].astype(np.float64) for a in weights)
    h = h0[0].astype(np.float64)
    units = h.shape[1]
    lengths = np.full(len(h), len(x)) if lengths is None else lengths
    states = []
    for t, x_t in enumerate(x.astype(np.float64)):
        p, q = x_t @ w.T + b[:3 * units], h @ r.T + b[3 * units:]
        gate = lambda a, k: a[:, k * units:(k + 1) * units]
        z, reset = sigmoid(gate(p, 0) + gate(q, 0)), sigmoid(gate(p, 1) + gate(q, 1))
        product = (reset * h) @ r[2 * units:].T + b[5 * units:] if before else reset * gate(q, 2)
        n = np.tanh(gate(p, 2) + product)
        counts = (t < lengths)[:, None]
        h = np.where(counts, z * h + (1 - z) * n, h)
        states.append(np.where(counts, h, 0))
    return np.stack(states)[:, None], h[None]
