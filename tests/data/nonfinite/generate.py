"""PyTorch's results with NaN and infinities: a GRU with one non-finite value in one of its tensors.

    pip install torch safetensors
    python tests/data/nonfinite/generate.py

Writes torch.safetensors next to itself: for each case `CASE/in.NAME`, `CASE/out.NAME` and
`CASE/grad.NAME`, with PyTorch's own shapes and gate order (r, z, n as rows).
"""

import pathlib

import torch
from safetensors.torch import save_file

N, T, I, H = 3, 4, 2, 5
BAD = {"nan": float("nan"), "inf": float("inf"), "minus-inf": float("-inf")}


def run(tensor, bad):
    torch.manual_seed(5)
    gru = torch.nn.GRU(I, H, batch_first=True)
    names = ["w_ih", "w_hh", "b_ih", "b_hh"]
    weights = dict(zip(names, gru.parameters()))
    inputs = {
        "x": torch.randn(N, T, I, requires_grad=True),
        "h0": torch.randn(1, N, H, requires_grad=True),
        "d_y": torch.randn(N, T, H),
        **weights,
    }
    with torch.no_grad():
        flat = inputs[tensor].view(-1)
        flat[flat.numel() * 5 // 9] = bad
    y, h_t = gru(inputs["x"], inputs["h0"])
    y.backward(inputs["d_y"])
    out = {f"in.{name}": value.detach() for name, value in inputs.items()}
    out |= {"out.y": y.detach(), "out.h_t": h_t.detach()}
    out |= {f"grad.{name}": v.grad for name, v in inputs.items() if v.requires_grad}
    return out


cases = {
    f"{tensor}-{name}/{key}": value.contiguous()
    for tensor in ["x", "h0", "w_ih", "w_hh", "b_ih", "b_hh", "d_y"]
    for name, bad in BAD.items()
    for key, value in run(tensor, bad).items()
}
path = pathlib.Path(__file__).with_name("torch.safetensors")
save_file(cases, path, {"torch": torch.__version__})
print(path, path.stat().st_size, "bytes")
