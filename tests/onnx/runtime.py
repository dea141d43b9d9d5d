"""Compares exported models in a folder with their recorded outputs, in ONNX Runtime. Fails if one differs.

    python runtime.py FOLDER    # NAME.onnx, and NAME.SIZES.safetensors with x and y

Requires numpy, onnx, onnxruntime and safetensors.
"""

import pathlib
import sys

import numpy as np
import onnx
import onnxruntime
from safetensors.numpy import load_file

# Relative to max(1, largest value). Sums in float32 have another order in each engine.
TOLERANCE = 2e-5

worst, failed, compared = (0.0, ""), [], 0
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.onnx")):
    try:
        model = onnx.load(path)
        onnx.checker.check_model(model, full_check=True)
        onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        cases = sorted(path.parent.glob(f"{path.stem}.*.safetensors"))
        assert cases, "expected a recorded case"
        for case in cases:
            tensors = load_file(case)
            (y,) = session.run(None, {"x": tensors["x"]})
            expected = tensors["y"]
            assert y.shape == expected.shape, f"{case.name}: expected shape {expected.shape}, got {y.shape}"
            error = float(np.max(np.abs(y - expected) / max(1.0, np.max(np.abs(expected)))))
            assert error <= TOLERANCE, f"{case.name}: expected a difference of at most {TOLERANCE}, got {error}"
            worst, compared = max(worst, (error, case.name)), compared + 1
    except Exception as error:
        failed.append(f"{path.stem}: {str(error).strip()[:400]}")
print(f"compared {compared} cases, largest difference {worst}")
sys.exit("\n".join(failed) if failed else 0 if compared else "expected models, got none")
