#!/usr/bin/env python3
"""Records outputs of ONNX Runtime for the published models, in recorded/*.safetensors.

    pip install onnxruntime numpy
    python benches/models/fetch.py DIR
    python tests/onnx/record.py DIR            # rewrites recorded/, and the record of examples/enhance
    python tests/onnx/record.py DIR --noise    # how much ONNX Runtime differs from itself
    python tests/onnx/record.py DIR --speed    # times of ONNX Runtime, one thread
"""
import json
import os
import struct
import sys
import time

import numpy as np
import onnxruntime as ort

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, f"{HERE}/../../benches/models")
from speech import noisy_speech  # noqa: E402

EXAMPLE = f"{HERE}/../../examples/enhance/tests"
FRAMES = {"gtcrn": 63, "nsnet2": 20, "df": 6}
FILES = {"gtcrn": "gtcrn/gtcrn_simple.onnx", "nsnet2": "nsnet2/nsnet2-20ms-48k-baseline.onnx",
         "df_enc": "deepfilternet3/enc.onnx", "df_erb_dec": "deepfilternet3/erb_dec.onnx",
         "df_dec": "deepfilternet3/df_dec.onnx"}


def session(model, optimize=True):
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    level = ort.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimize else level.ORT_DISABLE_ALL
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def run(model, inputs):
    return dict(zip([o.name for o in model.get_outputs()], model.run(None, inputs)))


def sound(rate, seconds):
    return noisy_speech(rate, seconds).astype(np.float32)


def spectrum(samples, size, hop, frames):
    window = np.sqrt(0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size))
    starts = [k * hop for k in range(frames)]
    return np.stack([np.fft.rfft(samples[s:s + size] * window) for s in starts])


def run_gtcrn(model, mix):
    """Frame by frame, with carried state."""
    caches = {"conv_cache": np.zeros((2, 1, 16, 16, 33), np.float32),
              "tra_cache": np.zeros((2, 3, 1, 1, 16), np.float32),
              "inter_cache": np.zeros((2, 1, 33, 16), np.float32)}
    enh = []
    for frame in mix:
        out = run(model, {"mix": frame[None, :, None], **caches})
        enh.append(out["enh"][0, :, 0])
        caches = {name: out[name + "_out"] for name in caches}
    return np.stack(enh), caches


def gtcrn(model, frames):
    spec = spectrum(sound(16000, 2), 512, 256, frames)
    mix = np.stack([spec.real, spec.imag], -1).astype(np.float32)
    enh, caches = run_gtcrn(model, mix)
    return {"in.mix": mix, "out.enh": enh, "out.tra_cache": caches["tra_cache"],
            "out.inter_cache": caches["inter_cache"]}


def enhanced_sound(model):
    """The input and the output of examples/enhance: frames of 512 samples, a hop of 256, no delay."""
    samples = sound(16000, 1)
    padded = np.concatenate([np.zeros(256), samples, np.zeros(768)]).astype(np.float32)
    frames = -(-len(samples) // 256) + 1
    spec = spectrum(padded, 512, 256, frames)
    mix = np.stack([spec.real, spec.imag], -1).astype(np.float32)
    enh = run_gtcrn(model, mix)[0]
    window = np.sqrt(0.5 - 0.5 * np.cos(2 * np.pi * np.arange(512) / 512))
    out = np.zeros(256 * (frames + 1))
    for k, frame in enumerate(np.fft.irfft(enh[..., 0] + 1j * enh[..., 1]) * window):
        out[256 * k:256 * k + 512] += frame
    return {"in.samples": samples, "out.samples": out[256:256 + len(samples)].astype(np.float32)}


def nsnet2(model, frames):
    spec = spectrum(sound(48000, 1), 1024, 512, frames)
    x = np.log10(np.maximum(np.abs(spec) ** 2, 1e-12)).astype(np.float32)[None]
    return {"in.input": x, "out.output": run(model, {"input": x})["output"]}


def deep_filter(enc, erb_dec, df_dec, frames):
    rng = np.random.Generator(np.random.PCG64(11))
    inputs = {"feat_erb": rng.standard_normal((1, 1, frames, 32)).astype(np.float32),
              "feat_spec": rng.standard_normal((1, 2, frames, 96)).astype(np.float32)}
    e = run(enc, inputs)
    m = run(erb_dec, {name: e[name] for name in ("emb", "e3", "e2", "e1", "e0")})
    coefs = run(df_dec, {"emb": e["emb"], "c0": e["c0"]})
    return {**{f"in.{k}": v for k, v in inputs.items()}, **{f"out.{k}": v for k, v in e.items()},
            "out.m": m["m"], "out.coefs": coefs["coefs"], "out.alpha": coefs["235"]}


def record_all(models, optimize=True):
    s = {name: session(model, optimize) for name, model in models.items()}
    return {"enhance": enhanced_sound(s["gtcrn"]),
            "gtcrn": gtcrn(s["gtcrn"], FRAMES["gtcrn"]), "nsnet2": nsnet2(s["nsnet2"], FRAMES["nsnet2"]),
            "deep_filter_net": deep_filter(s["df_enc"], s["df_erb_dec"], s["df_dec"], FRAMES["df"])}


def save(path, tensors):
    header, blobs, at = {}, [], 0
    for name, a in sorted(tensors.items()):
        blob = np.ascontiguousarray(a, np.float32).tobytes()
        header[name] = {"dtype": "F32", "shape": list(a.shape), "data_offsets": [at, at + len(blob)]}
        blobs.append(blob)
        at += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def noise(models):
    """Largest difference of optimized and unoptimized runs, relative to max(1, largest value)."""
    a, b = record_all(models), record_all(models, optimize=False)
    for name in a:
        for key in a[name]:
            if key.startswith("out."):
                scale = max(1.0, np.abs(a[name][key]).max())
                print(name, key, f"{np.abs(a[name][key] - b[name][key]).max() / scale:.2e}", f"scale {scale:.3g}")


def median(call, samples):
    times = []
    for _ in range(samples):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e3 * sorted(times)[len(times) // 2]


def speed(models):
    s = {name: session(model) for name, model in models.items()}
    r = record_all(models)
    mix = r["gtcrn"]["in.mix"][0][None, :, None]
    caches = {"conv_cache": np.zeros((2, 1, 16, 16, 33), np.float32),
              "tra_cache": np.zeros((2, 3, 1, 1, 16), np.float32),
              "inter_cache": np.zeros((2, 1, 33, 16), np.float32)}
    df = r["deep_filter_net"]
    calls = {"gtcrn": {"mix": mix, **caches}, "nsnet2": {"input": r["nsnet2"]["in.input"]},
             "df_enc": {k: df[f"in.{k}"] for k in ("feat_erb", "feat_spec")},
             "df_erb_dec": {k: df[f"out.{k}"] for k in ("emb", "e3", "e2", "e1", "e0")},
             "df_dec": {k: df[f"out.{k}"] for k in ("emb", "c0")}}
    for name, inputs in calls.items():
        for _ in range(20):
            s[name].run(None, inputs)
        print(name, f"{median(lambda: s[name].run(None, inputs), 200):.3f} ms")


if __name__ == "__main__":
    models = {name: os.path.join(sys.argv[1], path) for name, path in FILES.items()}
    if "--noise" in sys.argv:
        noise(models)
    elif "--speed" in sys.argv:
        speed(models)
    else:
        for folder in (f"{HERE}/recorded", EXAMPLE):
            os.makedirs(folder, exist_ok=True)
        for name, tensors in record_all(models).items():
            folder = EXAMPLE if name == "enhance" else f"{HERE}/recorded"
            save(f"{folder}/{name}.safetensors", tensors)
