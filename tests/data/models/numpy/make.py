"""Arrays written by NumPy, and the same values in another file format.

    pip install numpy safetensors
    python make.py    # made with numpy 2.4.6

Writes next to this file:
- arrays.npz             every number type that `StateDict::from_npz` reads, both byte orders, both
                         element orders, written by numpy.savez
- compressed.npz         the same arrays, written by numpy.savez_compressed
- arrays.safetensors     the same values as float64, in C order
"""
import pathlib

import numpy as np
from safetensors.numpy import save_file

HERE = pathlib.Path(__file__).parent
random = np.random.default_rng(20261122)
arrays = {}
for order in "<>":
    for kind in ["f2", "f4", "f8"]:
        arrays[f"{order}{kind}"] = random.normal(size=(2, 3)).astype(order + kind)
    for kind in ["i2", "i4", "i8", "u2", "u4", "u8"]:
        # The whole range of integers that float64 represents exactly.
        bits = min(8 * int(kind[1]), 53) - 1
        lowest = -(2**bits) + 1 if kind[0] == "i" else 0
        arrays[f"{order}{kind}"] = random.integers(lowest, 2**bits, (2, 3)).astype(order + kind)
arrays["i1"] = np.array([-128, 0, 127], np.int8)
arrays["u1"] = np.array([0, 128, 255], np.uint8)
arrays["b1"] = np.array([[True, False], [False, True]])
arrays["edges"] = np.array([0.0, -0.0, np.inf, 5e-324, 1.7976931348623157e308])
cube = random.normal(size=(2, 3, 4, 5)).astype(np.float32)
arrays["fortran"] = np.asfortranarray(cube)
arrays["fortran big-endian"] = np.asfortranarray(cube.astype(">f8"))
arrays["nested/name.weight"] = cube[0, :, :, 0].T
arrays["scalar"] = np.float32(1.5)
arrays["empty"] = np.zeros((0, 3), np.float32)
assert arrays["fortran"].flags.f_contiguous and not arrays["fortran"].flags.c_contiguous
np.savez(HERE / "arrays.npz", **arrays)
np.savez_compressed(HERE / "compressed.npz", **arrays)
exact = {name: np.ascontiguousarray(array, dtype="<f8") for name, array in arrays.items()}
# ascontiguousarray turns a scalar into a row.
exact = {name: array.reshape(arrays[name].shape) for name, array in exact.items()}
assert all((exact[name] == arrays[name]).all() for name in arrays)
save_file(exact, HERE / "arrays.safetensors")
