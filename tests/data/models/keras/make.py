"""A model that Keras saved, and Keras' results for its layers.

    pip install keras torch numpy
    KERAS_BACKEND=torch python make.py    # made with keras 3.15.1, h5py 3.16.0, torch 2.9.0

Writes next to this file:
- gru.keras          the model: a zip archive with model.weights.h5
- gru.weights.h5     only its weights
- gru.npz            the input x [N, T, I] and the output of each layer
- half.weights.h5    a layer in float16, written by Keras, and half.npz, its arrays, written by NumPy
- shared.weights.h5  groups that have 2^40 paths
"""
import pathlib

import h5py
import keras
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

# 2^40 paths: every group contains the next one twice.
with h5py.File(HERE / "shared.weights.h5", "w", libver="latest") as file:
    group = file
    for _ in range(40):
        inner = group.create_group("a")
        group["b"] = inner
        group = inner
