"""The GRUs of crema's chord model, from its Keras 2 file. `reference.py` runs them. Requires numpy, onnx and h5py."""
import json
import sys

import h5py
import numpy as np
from onnx import helper, numpy_helper

from cut import floats, in_float64

FILE = "crema/model.h5"
STEPS, ROWS = 200, 2
KERAS = {"reset_after": False, "activation": "tanh", "recurrent_activation": "hard_sigmoid"}
ONNX = {"activations": ["HardSigmoid", "Tanh"], "activation_alpha": [0.2], "activation_beta": [0.5]}


def hard_sigmoid(a):
    """Keras 2's function. The slope of Keras 3 is 1/6."""
    return np.clip(0.2 * a + 0.5, 0, 1)


def directions(path):
    """For each layer and direction: its name LAYER/DIRECTION, its ONNX model, X, initial_h, and (Y, Y_h) in float64.

    X contains random numbers in the first layer, and the first layer's output in the second. Both have the batch
    normalization of the network."""
    random = np.random.default_rng(1)
    with h5py.File(path) as file:
        def arrays(layer, group, *names):
            return [file[f"model_weights/{layer}/{layer}/{group}{name}:0"][:] for name in names]

        layers = json.loads(file.attrs["model_config"])["config"]["layers"]
        configs = {layer["name"]: layer["config"] for layer in layers}
        for k in (1, 2):
            name, norm = f"bidirectional_{k}", f"batch_normalization_{k + 2}"
            gru = configs[name]["layer"]["config"]
            if any(gru[key] != value for key, value in KERAS.items()):
                sys.exit(f"{path}: {name} has {gru}, expected {KERAS}")
            mean, variance, gamma, beta = arrays(norm, "", "moving_mean", "moving_variance", "gamma", "beta")
            if k == 1:
                x = random.standard_normal((STEPS, ROWS, len(mean)))
            else:
                x = (np.concatenate(outputs, 2) - mean) / np.sqrt(variance + configs[norm]["epsilon"])
            x, outputs = (gamma * x + beta).astype(np.float32), []
            for direction, order in [("forward", 1), ("backward", -1)]:
                w, r, b = arrays(name, f"{direction}_gru_{k}/", "kernel", "recurrent_kernel", "bias")
                # Keras and ONNX have the same order of gates.
                weights = [np.ascontiguousarray(a)[None] for a in (w.T, r.T, np.append(b, 0 * b))]
                h0 = random.uniform(-1, 1, (1, ROWS, len(r))).astype(np.float32)
                y, y_h = in_float64(weights, x[::order], h0, before=True, sigmoid=hard_sigmoid)
                outputs.append(y[::order, 0])
                yield f"{name}/{direction}", as_onnx(weights, order), x, h0, (y[::order], y_h)


def as_onnx(weights, order):
    """The bytes of a model with one node."""
    names = ["X", "W", "R", "B", "", "initial_h.0"]
    node = helper.make_node("GRU", names, ["Y", "Y_h"], hidden_size=weights[1].shape[2], linear_before_reset=0,
                            direction="forward" if order > 0 else "reverse", **ONNX)
    inputs, outputs = ([floats(name, None) for name in some] for some in [("X", names[5]), ("Y", "Y_h")])
    constants = [numpy_helper.from_array(a, name) for a, name in zip(weights, names[1:])]
    graph = helper.make_graph([node], "gru", inputs, outputs, constants)
    opset = [helper.make_opsetid("", 14)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()
