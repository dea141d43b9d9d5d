"""ONNX files with GRUs, and ONNX Runtime's results for them.

    pip install torch onnx onnxscript onnxruntime numpy safetensors
    GRU_WRITE_ONNX=1 cargo test -p gru-tests --test gru -- onnx_file/written   # writes gru_op_*.onnx
    python make.py                                                          # made with the versions below

Writes next to this file:
- torch_*.onnx          modules that PyTorch exported, by its old exporter (`_script`) and by the default
                        exporter since 2.9 (`_dynamo`, with weights in a file next to it)
- expected.safetensors  for these files and gru_op_*.onnx: `FILE/in.NAME`, `FILE/out.NAME` in float64,
                        inputs and outputs of ONNX Runtime. ONNX Runtime does not run the float64
                        file, so ONNX' own reference evaluator ran it

Made with torch 2.9.0, onnx 1.23.2, onnxruntime 1.32.0.
"""
import pathlib

import numpy as np
import onnxruntime
import torch
from onnx.reference import ReferenceEvaluator
from safetensors.numpy import save_file

HERE = pathlib.Path(__file__).parent
N, T, I, H = 3, 4, 3, 5
MODULES = {
    "torch_layers": dict(num_layers=2, bidirectional=True),
    "torch_batch_first": dict(batch_first=True),
    "torch_no_bias": dict(bias=False),
}


class Module(torch.nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.gru = torch.nn.GRU(I, H, **options)

    def forward(self, x, state):
        return self.gru(x, state)


def export():
    torch.manual_seed(20261122)
    for name, options in MODULES.items():
        module = Module(**options).eval()
        entries = options.get("num_layers", 1) * (1 + options.get("bidirectional", False))
        shape = (N, T, I) if options.get("batch_first") else (T, N, I)
        arguments = (torch.randn(shape), torch.randn(entries, N, H))
        names = dict(input_names=["x", "state"], output_names=["y", "new_state"])
        torch.onnx.export(module, arguments, HERE / f"{name}_script.onnx", dynamo=False, **names)
        torch.onnx.export(module, arguments, HERE / f"{name}_dynamo.onnx", dynamo=True,
                          external_data=True, verbose=False, **names)


def run(path, draw):
    session = onnxruntime.InferenceSession(path)
    sizes = {"N": N, "T": T}
    inputs = {}
    for value in session.get_inputs():
        shape = [sizes.get(d, d) for d in value.shape]
        kind = {"tensor(float)": np.float32, "tensor(double)": np.float64}.get(value.type)
        if kind is None:
            inputs[value.name] = np.array([2, 4, 1], np.int32)[: shape[0]]
        else:
            inputs[value.name] = draw.standard_normal(shape).astype(kind)
    if "float64" in path.name:
        outputs = ReferenceEvaluator(str(path)).run(None, inputs)
    else:
        outputs = session.run(None, inputs)
    named = {f"{path.name}/in.{k}": v for k, v in inputs.items()}
    for value, array in zip(session.get_outputs(), outputs):
        named[f"{path.name}/out.{value.name}"] = array
    return {k: np.ascontiguousarray(v.astype(np.float64)) for k, v in named.items()}


if __name__ == "__main__":
    export()
    draw = np.random.default_rng(20261122)
    recorded = {}
    for path in sorted(HERE.glob("*.onnx")):
        recorded |= run(path, draw)
    save_file(recorded, HERE / "expected.safetensors")
    print(len(recorded), "arrays of", len(list(HERE.glob("*.onnx"))), "files")
