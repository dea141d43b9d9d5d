"""Compiles the GRUs of Opus 1.6.1, and records steps with their weights.

    python benches/models/opus.py DIR

Downloads the sources in the crate opusic-sys 0.7.7 (BSD-3-Clause) with Cargo, and writes DIR/opus/libopus_grus.so and
DIR/recorded/opus.safetensors. Requires numpy, onnx, safetensors and a C compiler.

The record contains for every GRU NAME, with gates in the order r, z, n:

  NAME:w_ih, w_hh, b_ih, b_hh   [I,3H], [H,3H], [3H], [3H]: the integers times their scales
  NAME:x                        [T,I]: random numbers from -1 to 1
  NAME:y, y.f64                 [T,H]: states of Opus' own function, and of numpy in float64
  NAME:bits                     8, or 32 if Opus computes with float weights
"""
import ctypes
import pathlib
import platform
import subprocess
import sys

import numpy as np
from safetensors.numpy import save_file

from cut import in_float64

VERSION = "0.7.7"
NETWORKS = ["bbwenet", "dred_rdovae_dec", "dred_rdovae_enc", "fargan", "lace", "nolace", "pitchdnn", "plc"]
FLAGS = ["-O3", "-fPIC", "-shared", "-w", "-DOPUS_BUILD", "-DHAVE_LRINTF", "-DHAVE_LRINT", "-DVAR_ARRAYS",
         "-DENABLE_DEEP_PLC", "-DENABLE_DRED", "-DENABLE_OSCE"]
X86 = ["-mavx2", "-mfma"] + [f"-DOPUS_X86_{kind}_{isa}" for kind in ["MAY_HAVE", "PRESUME"]
                             for isa in ["SSE", "SSE2", "SSE4_1", "AVX2"]]
STEPS = 200


def sources(folder):
    """The folder of Opus' sources."""
    opus = folder / "vendor/opusic-sys/opus"
    if not opus.is_dir():
        lines = ['package.name = "opus"', 'lib.path = "lib.rs"', f'dependencies.opusic-sys = "={VERSION}"']
        (folder / "Cargo.toml").write_text("\n".join(lines))
        (folder / "lib.rs").touch()
        subprocess.run(["cargo", "vendor", "--quiet"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return opus


def library(folder):
    """The compiled functions of opus.c."""
    opus, here = sources(folder), pathlib.Path(__file__).parent
    files = [here / "opus.c"] + [opus / f"dnn/{name}.c" for name in ["nnet", "parse_lpcnet_weights"]]
    files += [opus / f"dnn/{name}_data.c" for name in NETWORKS]
    flags = list(FLAGS)
    if platform.machine() in ["x86_64", "AMD64"]:
        flags += X86
        files.append(opus / "dnn/x86/nnet_avx2.c")
    else:
        files.append(opus / "dnn/nnet_default.c")
    flags += [f"-I{opus / name}" for name in ["include", "celt", "dnn", "silk", "."]]
    path = folder / "libopus_grus.so"
    subprocess.run(["cc", *flags, *files, "-lm", "-o", path], check=True)
    return ctypes.CDLL(str(path.resolve()))


def reordered(matrix):
    """Gates r, z, n from z, r, n."""
    z, r, n = np.split(matrix, 3, -1)
    return np.ascontiguousarray(np.concatenate([r, z, n], -1))


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[1])
    (root / "opus").mkdir(parents=True, exist_ok=True)
    (root / "recorded").mkdir(exist_ok=True)
    opus = library(root / "opus")
    opus.opus_name.restype = ctypes.c_char_p
    pointer = np.ctypeslib.ndpointer(np.float32, flags="C")
    opus.opus_weights.argtypes = [ctypes.c_int, pointer, pointer, pointer]
    opus.opus_step.argtypes = [ctypes.c_int, pointer, pointer]
    random, out = np.random.default_rng(1), {}
    for gru in range(opus.opus_grus()):
        name, i, h = opus.opus_name(gru).decode(), opus.opus_inputs(gru), opus.opus_units(gru)
        w_ih, w_hh, b = (np.empty(shape, np.float32) for shape in [(i, 3 * h), (h, 3 * h), (2, 3 * h)])
        bits = 8 if opus.opus_weights(gru, w_ih, w_hh, b) else 32
        x = random.uniform(-1, 1, (STEPS, i)).astype(np.float32)
        state, y = np.zeros(h, np.float32), np.empty((STEPS, h), np.float32)
        for t in range(STEPS):
            opus.opus_step(gru, state, x[t])
            y[t] = state
        # Opus' order of gates is that of ONNX.
        weights = [a[None] for a in (w_ih.T, w_hh.T, b.ravel())]
        y64 = in_float64(weights, x[:, None], np.zeros((1, 1, h)))[0].reshape(y.shape)
        rms = np.sqrt(np.mean((y - y64)**2))
        print(f"{name:18} I {i:4} H {h:4} {bits:2} bits, Opus differs by {rms:.2e} (rms) from float64")
        tensors = dict(zip(["w_ih", "w_hh", "b_ih", "b_hh"], map(reordered, [w_ih, w_hh, *b])))
        tensors |= {"x": x, "y": y, "y.f64": y64, "bits": np.array([bits])}
        out |= {f"{name}:{key}": value for key, value in tensors.items()}
    if not out:
        sys.exit("opus.c: Opus rejects its weights")
    save_file(out, root / "recorded/opus.safetensors")


if __name__ == "__main__":
    main()
