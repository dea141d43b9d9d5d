"""Records ONNX Runtime's results for the GRUs of published models, with the inputs of the real networks.

    python benches/models/reference.py DIR             records DIR/recorded/MODEL.safetensors
    python benches/models/reference.py DIR --check     compares DeepFilterNet's features with its library

`fetch.py` fills DIR. Requires numpy, onnx, onnxruntime, safetensors, h5py.

Each network runs completely on four seconds of synthetic noisy speech, with the features of its
package. The script extracts every input and output tensor of a GRU. Then the GRUs run by themselves.
A file contains NODE:CASE:TENSOR for every GRU node:

  file   one row: the whole file from the network's own initial state, zeros
  rows   two rows: the halves of the file. The second row is seven steps shorter (`sequence_lens`) and
         starts from the final state of the first half

stack:file:TENSOR where two nodes follow each other directly. TENSOR is X, initial_h,
sequence_lens, Y or Y_h in the layouts of ONNX, in float32 from ONNX Runtime. Y.f64 and Y_h.f64 are
computed by numpy in float64 from the same float32 inputs and weights.

The records of NSNet2 also contain sound:TENSOR, what a program needs to enhance the file from the output
of the GRUs:

  weight.K, bias.K    the three layers after the GRUs
  gains       [T,B]   the output of the network, from ONNX Runtime
  spectrum    [T,2B]  the noisy sound, real and imaginary parts
  synthesis   [2B,S]  from a spectrum to the samples of a frame, which are added `hop` samples apart
  clean               the samples without noise
  hop                 one number

The record of crema contains LAYER/DIRECTION:TENSOR for its two bidirectional layers, with inputs of
crema.py. Both directions are in the order of the input.
"""
import argparse
import pathlib
import sys

import numpy as np
import onnxruntime
from onnx.numpy_helper import to_array
from safetensors.numpy import save_file

import crema
from cut import Network, in_float64
from features import DeepFilterNet3, nsnet2, nsnet2_spectrum
from speech import noisy_and_clean, noisy_speech

SECONDS = 4.0
MODELS = {
    "nsnet2-20ms-baseline": "nsnet2/nsnet2-20ms-baseline.onnx",
    "nsnet2-20ms-48k-baseline": "nsnet2/nsnet2-20ms-48k-baseline.onnx",
    "enc": "deepfilternet3/enc.onnx",
    "erb_dec": "deepfilternet3/erb_dec.onnx",
    "df_dec": "deepfilternet3/df_dec.onnx",
}
# Samples per second.
NSNET2 = {"nsnet2-20ms-baseline": 16000, "nsnet2-20ms-48k-baseline": 48000}
# The second row of the case `rows` is this many steps shorter.
SHORTER = 7


def session(model):
    return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])


def run_whole(network, feeds):
    """All outputs of the network by name, including the inputs and outputs of the GRUs."""
    whole = session(network.with_inner_outputs())
    names = [out.name for out in whole.get_outputs()]
    wanted = {i.name for i in whole.get_inputs()}
    return dict(zip(names, whole.run(names, {k: v for k, v in feeds.items() if k in wanted})))


def networks(root):
    """Every model with all its tensors and the inputs of real use."""
    load = {name: Network(root / path) for name, path in MODELS.items()}
    for name, rate in NSNET2.items():
        feeds = {"input": nsnet2(noisy_speech(rate, SECONDS), rate)}
        yield name, load[name], run_whole(load[name], feeds)
    erb, spectrum = DeepFilterNet3().features(noisy_speech(48000, SECONDS))
    tensors = run_whole(load["enc"], {"feat_erb": erb, "feat_spec": spectrum})
    yield "enc", load["enc"], tensors
    for name in ["erb_dec", "df_dec"]:
        yield name, load[name], run_whole(load[name], tensors)


def add(out, name, key, cut, x, initial, expected, lengths=None):
    """Runs nodes, adds their tensors to `out`, and prints a line."""
    feeds = {"X": x, **{f"initial_h.{k}": h for k, h in enumerate(initial)}}
    if lengths is not None:
        feeds["sequence_lens"] = lengths
        out[f"{key}:sequence_lens"] = lengths
    y, *y_h = session(cut).run(None, feeds)
    y64, y_h64 = expected
    y_h = np.concatenate(y_h)
    tensors = {"X": x, "initial_h": np.concatenate(initial), "Y": y, "Y_h": y_h, "Y.f64": y64, "Y_h.f64": y_h64}
    out.update({f"{key}:{tensor}": np.ascontiguousarray(value) for tensor, value in tensors.items()})
    error = max(np.abs(y - y64).max(), np.abs(y_h - y_h64).max())
    print(f"{name:26} {key:26} X {str(list(x.shape)):16} within {np.abs(x).max():6.2f} "
          f"largest Y {np.abs(y).max():.3f}, ONNX Runtime differs by {error:.2e} from float64")
    return y


def record(name, network, tensors):
    """The tensors of one file. Prints a line about each node."""
    out = {}
    for node in network.grus:
        x, h0 = tensors[node.input[0]], tensors[node.input[5]]
        weights, alone = network.weights(node), network.cut([node])
        y = add(out, name, f"{node.name}:file", alone, x, [h0], in_float64(weights, x, h0))
        if not np.allclose(y, tensors[node.output[0]], rtol=0, atol=1e-6):
            sys.exit(f"{name}: {node.name} by itself differs from {node.name} in its network")
        half = len(x) // 2
        rows = np.concatenate([x[:half], x[half:2 * half]], 1)
        lengths = np.array([half, half - SHORTER], np.int32)
        h0 = np.concatenate([h0, y[half - 1]], 1)
        expected = in_float64(weights, rows, h0, lengths)
        cut = network.cut([node], lengths=True)
        add(out, name, f"{node.name}:rows", cut, rows, [h0], expected, lengths)
    if len(network.grus) > 1:
        x = tensors[network.grus[0].input[0]]
        initial = [tensors[node.input[5]] for node in network.grus]
        y64, finals = x[:, None], []
        for node, h0 in zip(network.grus, initial):
            y64, last = in_float64(network.weights(node), y64[:, 0], h0)
            finals.append(last)
        cut = network.cut(network.grus)
        add(out, name, "stack:file", cut, x, initial, (y64, np.concatenate(finals)))
    return out


def sound(network, tensors, rate):
    """The tensors sound:TENSOR of NSNet2."""
    noisy, clean = noisy_and_clean(rate, SECONDS)
    spectrum, window, hop = nsnet2_spectrum(noisy, rate)
    bins = spectrum.shape[1]
    inverse = np.fft.irfft(np.concatenate([np.eye(bins), 1j * np.eye(bins)]))[:, :len(window)]
    # Frames overlap, so each sample is a sum of squared windows.
    squares = np.zeros(-(-len(window) // hop) * hop)
    squares[:len(window)] = window**2
    total = np.resize(squares.reshape(-1, hop).sum(0), len(window))
    out = {"clean": clean, "spectrum": np.concatenate([spectrum.real, spectrum.imag], 1),
           "synthesis": inverse * window / total, "gains": tensors["output"][0],
           "hop": np.array([hop])}
    after = [node for node in network.model.graph.node if node.op_type == "MatMul"][1:]
    for k, node in enumerate(after):
        out[f"weight.{k}"] = to_array(network.constant(node.input[1]))
        out[f"bias.{k}"] = to_array(network.constant(f"fc_out.{2 * k}.bias"))
    return {f"sound:{key}": value.astype(np.float32) for key, value in out.items()}


def check_features(root):
    """Compares the local SNR that the encoder estimates from our features with the library's value
    for the same sound. Different features would give a different SNR."""
    from libdf import LibDf

    x = noisy_speech(48000, SECONDS).astype(np.float32)
    network = Network(root / MODELS["enc"])
    erb, spectrum = DeepFilterNet3().features(x)
    ours = run_whole(network, {"feat_erb": erb, "feat_spec": spectrum})["lsnr"].ravel()
    theirs = LibDf(root / "deepfilternet3").lsnr(x)
    # The library returns the result of a frame after its look-ahead.
    ahead = DeepFilterNet3.LOOKAHEAD
    ours, theirs = ours[:len(theirs) - ahead], theirs[ahead:][:len(ours)]
    length = min(len(ours), len(theirs))
    distance = np.abs(ours[:length] - theirs[:length])
    print(f"local SNR of {length} frames, {theirs.min():.1f} to {theirs.max():.1f} dB: median "
          f"distance {np.median(distance):.4f} dB, largest {distance.max():.4f} dB")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--check", action="store_true", help="compare the features with DeepFilterNet's library")
    arguments = parser.parse_args()
    root = arguments.dir
    missing = [path for path in [*MODELS.values(), crema.FILE] if not (root / path).is_file()]
    if missing:
        sys.exit(f"{root}: expected {missing[0]}, which fetch.py writes")
    if arguments.check:
        return check_features(root)
    (root / "recorded").mkdir(exist_ok=True)
    print(f"onnxruntime {onnxruntime.__version__}, numpy {np.__version__}")

    def save(name, recorded):
        path = root / "recorded" / f"{name}.safetensors"
        save_file(recorded, path, {"onnxruntime": onnxruntime.__version__})

    for name, network, tensors in networks(root):
        recorded = record(name, network, tensors)
        if name in NSNET2:
            recorded |= sound(network, tensors, NSNET2[name])
        save(name, recorded)
    recorded = {}
    for key, gru, x, h0, expected in crema.directions(root / crema.FILE):
        add(recorded, "crema", key, gru, x, [h0], expected)
    save("crema", recorded)


if __name__ == "__main__":
    main()
