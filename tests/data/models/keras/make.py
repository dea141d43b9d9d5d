"""A model that Keras saved, and Keras' results for its layers.

    pip install keras torch numpy ml_dtypes
    KERAS_BACKEND=torch python make.py    # made with keras 3.15.1, h5py 3.16.0, torch 2.9.0

Writes next to this file:
- gru.keras          the model: a zip archive with model.weights.h5
- gru.weights.h5     only its weights
- gru.npz            the input x [N, T, I] and the output of each layer
- half.weights.h5    a layer in float16, written by Keras, and half.npz, its arrays, written by NumPy
- bfloat16.weights.h5  three arrays in bfloat16, as Keras' H5IOStore writes them, and bfloat16.npz, the same in float32
- shared.weights.h5  groups that have 2^40 paths
- deep.weights.h5    an index of names whose only node is its own child, 65,535 levels deep
"""
import pathlib
import struct

import h5py
import keras
import ml_dtypes
import numpy as np

HERE = pathlib.Path(__file__).parent
N, T, I = 2, 7, 5
keras.utils.set_random_seed(20261122)
layers = keras.layers
after = layers.GRU(4, return_sequences=True, reset_after=True, name="after")
before = layers.GRU(3, return_sequences=True, reset_after=False, name="before")
plain = layers.GRU(3, return_sequences=True, use_bias=False, name="plain")
both = layers.Bidirectional(layers.GRU(2, return_sequences=True), name="both")
x = keras.Input((T, I))
outputs = [after(x)]
for layer in [before, plain, both]:
    outputs.append(layer(outputs[-1]))
model = keras.Model(x, outputs)
# Biases that differ from the initial zeros.
random = np.random.default_rng(20261122)
model.set_weights([random.normal(size=w.shape).astype(w.dtype) for w in model.get_weights()])
numbers = random.normal(size=(N, T, I)).astype(np.float32)
made = model.predict(numbers, verbose=0)
model.save(HERE / "gru.keras")
model.save_weights(HERE / "gru.weights.h5")
names = ["after", "before", "plain", "both"]
np.savez(HERE / "gru.npz", x=numbers, **dict(zip(names, made)))

keras.config.set_dtype_policy("float16")
half = keras.Sequential([keras.Input((None, 2)), layers.GRU(2, recurrent_initializer="uniform")])
half.save_weights(HERE / "half.weights.h5")
kinds = [weight.numpy() for weight in half.weights]
assert len(kinds) == 3 and all(array.dtype == np.float16 for array in kinds)
np.savez(HERE / "half.npz", **{f"layers/gru/cell/vars/{k}": array for k, array in enumerate(kinds)})

brain = [random.normal(size=shape).astype(ml_dtypes.bfloat16) for shape in [(2, 6), (2, 6), (2, 6)]]
with h5py.File(HERE / "bfloat16.weights.h5", "w") as file:
    for k, array in enumerate(brain):
        dataset = file.create_dataset(f"layers/gru/cell/vars/{k}", data=array)
        dataset.attrs["dtype"] = "bfloat16"
wide = {f"layers/gru/cell/vars/{k}": array.astype(np.float32) for k, array in enumerate(brain)}
np.savez(HERE / "bfloat16.npz", **wide)

# 2^40 paths: every group contains the next one twice.
with h5py.File(HERE / "shared.weights.h5", "w", libver="latest") as file:
    group = file
    for _ in range(40):
        inner = group.create_group("a")
        group["b"] = inner
        group = inner


def lookup3(data):
    """HDF5's checksum (Jenkins 2006). The header of an index has one, and its nodes have none."""
    mask = 0xFFFFFFFF

    def rotated(x, by):
        return (x << by | x >> 32 - by) & mask

    a = b = c = 0xDEADBEEF + len(data) & mask
    while len(data) > 12:
        x, y, z = struct.unpack_from("<III", data)
        a, b, c, data = a + x & mask, b + y & mask, c + z & mask, data[12:]
        for by in [4, 6, 8, 16, 19, 4]:
            a = (a - c & mask) ^ rotated(c, by)
            a, b, c = b, c + b & mask, a
    x, y, z = struct.unpack("<III", data.ljust(12, b"\0"))
    a, b, c = a + x & mask, b + y & mask, c + z & mask
    for by in [14, 11, 25, 16, 4, 14, 24]:
        c = (c ^ b) - rotated(b, by) & mask
        a, b, c = b, c, a
    return b


# The root of an index of names becomes an inner node with three children: itself.
with h5py.File(HERE / "deep.weights.h5", "w", libver="latest") as file:
    for k in range(20):
        file.create_group(f"g{k}")
deep = bytearray((HERE / "deep.weights.h5").read_bytes())
NAMES, HEADER = 5, 34
at = deep.index(b"BTHD")
while deep[at + 5] != NAMES:
    at = deep.index(b"BTHD", at + 1)
size, (root,) = struct.unpack_from("<I", deep, at + 6)[0], struct.unpack_from("<Q", deep, at + 16)
struct.pack_into("<H", deep, at + 12, 65535)
struct.pack_into("<QHQ", deep, at + 16, root, 1, 1)
struct.pack_into("<I", deep, at + HEADER, lookup3(bytes(deep[at : at + HEADER])))
node = bytearray(size)
node[:6] = b"BTIN\0" + bytes([NAMES])
for place in [6, 17, 34]:
    struct.pack_into("<Q", node, place, root)
deep[root : root + size] = node
(HERE / "deep.weights.h5").write_bytes(deep)
