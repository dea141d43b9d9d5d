"""Compares exported models in the current folder with recorded outputs, and with original files, in an engine.

    python runtime.py             # ONNX Runtime
    python runtime.py openvino    # also tract, or a program for another engine

The models are NAME.onnx with NAME.SIZES.safetensors, NAME.original or NAME.text. Fails if a model differs. Another engine
must fail for the models in `KNOWN`, and for no others. A program is called with a model, a file of inputs, and a file
for outputs. Requires numpy, onnx, onnxruntime, safetensors and the engine.
"""

import pathlib
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
from safetensors.numpy import load_file, save_file

# Relative to max(1, largest value). Sums in float32 have another order in each engine.
TOLERANCE = 2e-5

# OpenVINO lacks Softsign, and ignores lengths if a size is symbolic. tract ignores activations, and lacks lengths,
# slices with a negative step, and windows over a symbolic axis. rten lacks reset gates before the product and other
# activations, and ignores lengths.
KNOWN = {
    "openvino": ["gru_ends", "gru_mask", "gru_time_major"],
    "rust-peers": ["gru_ends", "gru_layers", "gru_mask", "gru_step", "gru_time_major", "text"],
    "tract": ["equality", "gru_ends", "gru_mask", "gru_time_major", "joined", "pooling"],
}


def runtime(path):
    """A function from the inputs by name to the outputs."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda inputs: session.run(None, inputs)


def openvino(path):
    import openvino

    # By default a device may compute with half precision.
    model = openvino.compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return lambda inputs: [np.array(y) for y in model(inputs).values()]


def tract(path):
    import tract

    model = tract.onnx().load(path).into_model().into_runnable()
    return lambda inputs: [y.to_numpy() for y in model.run(list(inputs.values()))]


def program(path):
    def run(inputs):
        save_file(inputs, "inputs")
        subprocess.run([engine, path, "inputs", "outputs"], check=True, capture_output=True, text=True)
        return [y for _, y in sorted(load_file("outputs").items())]

    return run


def recorded(path):
    tensors = load_file(path)
    part = lambda kind: {k[len(kind) :]: v for k, v in tensors.items() if k.startswith(kind)}
    return part("in."), list(part("out.").values())


def original(path, inputs):
    """Random inputs, and the outputs of the original. Its names may differ."""
    random, sizes = np.random.default_rng(0), lambda i: [d.dim_value or 23 for d in i.type.tensor_type.shape.dim]
    arrays = [random.standard_normal(sizes(i)).astype(np.float32) for i in inputs]
    names = [i.name for i in onnx.load(path).graph.input]
    outputs = runtime(str(path))(dict(zip(names, arrays)))
    return {i.name: array for i, array in zip(inputs, arrays)}, outputs


def text(path, run):
    """Greedy text from the first characters, and the recorded text."""
    expected = load_file(path)["text"].astype(np.int32)
    tokens, state = expected[:, :1], np.zeros((2, len(expected), 8), np.float32)
    generated = [tokens]
    while len(generated) < expected.shape[1]:
        scores, state = run({"tokens": tokens, "state": state})
        tokens = scores.argmax(2).astype(np.int32)
        generated.append(tokens)
    return [np.concatenate(generated, 1)], [expected]


def compare(results, outputs):
    assert len(results) == len(outputs), f"expected {len(outputs)} outputs, got {len(results)}"
    for y, expected in zip(results, outputs):
        assert y.shape == expected.shape, f"expected shape {expected.shape}, got {y.shape}"
        error = float(np.max(np.abs(y - expected)) / max(1.0, np.max(np.abs(expected))))
        assert error <= TOLERANCE, f"expected a difference of at most {TOLERANCE}, got {error}"
        yield error


engine = sys.argv[1] if len(sys.argv) > 1 else "runtime"
load = {"runtime": runtime, "openvino": openvino, "tract": tract}.get(engine, program)
worst, failed, compared = (0.0, ""), {}, 0
for path in sorted(pathlib.Path().glob("*.onnx")):
    if load is not runtime and path.stem.startswith("chain"):
        continue
    try:
        model = onnx.load(path)
        onnx.checker.check_model(model, full_check=True)
        onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        run = load(str(path))
        cases = [recorded(case) for case in sorted(pathlib.Path().glob(f"{path.stem}.*.safetensors"))]
        if path.with_suffix(".original").exists():
            cases.append(original(path.with_suffix(".original"), model.graph.input))
        pairs = [(run(inputs), outputs) for inputs, outputs in cases]
        if path.with_suffix(".text").exists():
            pairs.append(text(path.with_suffix(".text"), run))
        assert pairs, "expected a recorded case"
        for results, outputs in pairs:
            worst = max(worst, *((error, path.stem) for error in compare(results, outputs)))
            compared += 1
    except Exception as error:
        error = getattr(error, "stderr", None) or error
        failed[path.stem] = f"{path.stem}: {str(error).strip()[-400:]}"
print(f"compared {compared} cases, largest difference {worst}")
print("\n".join(failed.values()))
known = KNOWN.get(pathlib.Path(engine).name, [])
if set(failed) != set(known) or not compared:
    sys.exit(f"expected failures: {sorted(known)}, got {sorted(failed)}")
