"""Compares exported models in a folder with recorded outputs, and with original files, in ONNX Runtime.

    python runtime.py FOLDER    # NAME.onnx, with NAME.SIZES.safetensors or NAME.original

Fails if a model differs. Requires numpy, onnx, onnxruntime and safetensors.
"""

import pathlib
import sys

import numpy as np
import onnx
import onnxruntime
from safetensors.numpy import load_file

# Relative to max(1, largest value). Sums in float32 have another order in each engine.
TOLERANCE = 2e-5


def session(path):
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def recorded(path):
    tensors = load_file(path)
    part = lambda kind: {k[len(kind) :]: v for k, v in tensors.items() if k.startswith(kind)}
    return part("in."), part("out.").values()


def original(path, exported):
    """Random inputs, and the outputs of the original. Its names may differ."""
    original, random = session(path), np.random.default_rng(0)
    shapes = [[d if isinstance(d, int) else 23 for d in i.shape] for i in exported.get_inputs()]
    inputs = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
    names = lambda s: [i.name for i in s.get_inputs()]
    outputs = original.run(None, dict(zip(names(original), inputs)))
    return dict(zip(names(exported), inputs)), outputs


worst, failed, compared = (0.0, ""), [], 0
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.onnx")):
    try:
        model = onnx.load(path)
        onnx.checker.check_model(model, full_check=True)
        onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        exported = session(path)
        cases = [recorded(case) for case in sorted(path.parent.glob(f"{path.stem}.*.safetensors"))]
        if path.with_suffix(".original").exists():
            cases.append(original(path.with_suffix(".original"), exported))
        assert cases, "expected a recorded case"
        for inputs, outputs in cases:
            results = exported.run(None, inputs)
            assert len(results) == len(outputs), f"expected {len(outputs)} outputs, got {len(results)}"
            for y, expected in zip(results, outputs):
                assert y.shape == expected.shape, f"expected shape {expected.shape}, got {y.shape}"
                error = float(np.max(np.abs(y - expected)) / max(1.0, np.max(np.abs(expected))))
                assert error <= TOLERANCE, f"expected a difference of at most {TOLERANCE}, got {error}"
                worst = max(worst, (error, path.stem))
            compared += 1
    except Exception as error:
        failed.append(f"{path.stem}: {str(error).strip()[:400]}")
print(f"compared {compared} cases, largest difference {worst}")
sys.exit("\n".join(failed) if failed else 0 if compared else "expected models, got none")
