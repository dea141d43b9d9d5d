"""Small files of every format that the importers read, as seeds of the fuzzer.

    python make.py      # requires only the standard library

Writes pytorch/* (formats of torch.save: current, before 1.6, and a plain pickle),
npz/* (valid and broken), and safetensors/* (arrays of one hidden unit with each system's names).
"""
import copy
import io
import json
import pathlib
import pickle
import struct
import sys
import types
import zipfile
from collections import OrderedDict

HERE = pathlib.Path(__file__).parent


# The classes and functions that a pickle of PyTorch refers to.
def module(name, **members):
    made = types.ModuleType(name)
    for key, value in members.items():
        value.__module__ = name
        setattr(made, key, value)
    sys.modules[name] = made
    return made


class FloatStorage:
    pass


def _rebuild_tensor_v2(*_):
    pass


torch = module("torch", FloatStorage=FloatStorage)
torch._utils = module("torch._utils", _rebuild_tensor_v2=_rebuild_tensor_v2)


class Storage:
    def __init__(self, key, count):
        self.key, self.count = key, count


class Tensor:
    def __init__(self, key, shape, expanded=False):
        count = 1
        for size in shape:
            count *= size
        self.storage, self.shape = Storage(key, 1 if expanded else count), shape
        self.expanded = expanded

    def __reduce__(self):
        stride, step = [], 1
        for size in reversed(self.shape):
            stride.insert(0, 0 if self.expanded else step)
            step *= size
        arguments = (self.storage, 0, tuple(self.shape), tuple(stride), False, OrderedDict())
        return _rebuild_tensor_v2, arguments


class Pickler(pickle.Pickler):
    # Before 1.6, the offset of a storage within a larger storage came last.
    def __init__(self, file, legacy):
        super().__init__(file, protocol=2)
        self.last = (None,) if legacy else ()

    def persistent_id(self, value):
        if isinstance(value, Storage):
            return ("storage", FloatStorage, value.key, "cpu", value.count) + self.last
        return None


def pickled(value, legacy=False):
    file = io.BytesIO()
    Pickler(file, legacy).dump(value)
    return file.getvalue()


def numbers(count):
    return struct.pack(f"<{count}f", *[0.5 - k / 8 for k in range(count)])


GRU = OrderedDict(
    (name, Tensor(str(k), shape))
    for k, (name, shape) in enumerate(
        {"weight_ih_l0": [3, 2], "weight_hh_l0": [3, 1], "bias_ih_l0": [3], "bias_hh_l0": [3]}.items()
    )
)


def zipped(value):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        entry = lambda name: zipfile.ZipInfo("m/" + name)  # with a fixed date
        archive.writestr(entry("data.pkl"), pickled(value))
        archive.writestr(entry("byteorder"), "little")
        for tensor in GRU.values():
            storage = tensor.storage
            archive.writestr(entry(f"data/{storage.key}"), numbers(storage.count))
        archive.writestr(entry("version"), "3\n")
    return file.getvalue()


def legacy(value):
    system = dict(protocol_version=1001, little_endian=True, type_sizes=dict(short=2, int=4, long=4))
    storages = [tensor.storage for tensor in GRU.values()]
    parts = [pickle.dumps(0x1950A86A20F9469CFC6C, 2), pickle.dumps(1001, 2), pickle.dumps(system, 2)]
    parts += [pickled(value, legacy=True), pickle.dumps([s.key for s in storages], 2)]
    parts += [struct.pack("<q", s.count) + numbers(s.count) for s in storages]
    return b"".join(parts)


def safetensors(shapes):
    header, at = {}, 0
    for name, shape in shapes.items():
        count = 1
        for size in shape:
            count *= size
        header[name] = dict(dtype="F32", shape=shape, data_offsets=[at, at + 4 * count])
        at += 4 * count
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + numbers(at // 4)


def npy(shape, dtype="<f4", fortran=False, descr=None, version=1, content=None):
    descr = descr or repr(dtype)
    header = f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}".encode()
    length = struct.pack("<H" if version == 1 else "<L", len(header) + 1)
    count = 1
    for size in shape:
        count *= size
    content = numbers(count) if content is None else content
    return b"\x93NUMPY" + bytes([version, 0]) + length + header + b"\n" + content


def npz(files, compression=zipfile.ZIP_STORED, copies=0):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name)
            entry.compress_type = compression
            archive.writestr(entry, content)
        # The same bytes under many names.
        for k in range(copies):
            entry = copy.copy(archive.filelist[0])
            entry.filename = f"{k}.npy"
            archive.filelist.append(entry)
    return file.getvalue()


def write(path, content):
    path = HERE / path
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)


write("pytorch/zip", zipped(GRU))
# The third module of an nn.Sequential. The first has no parameters.
write("pytorch/zip-sequential", zipped(OrderedDict((f"2.{key}", of) for key, of in GRU.items())))
# One value that is expanded to 4 GiB.
write("pytorch/zip-expanded", zipped(OrderedDict(weight_ih_l0=Tensor("0", [1 << 15] * 2, True))))
write("pytorch/zip-nested", zipped(OrderedDict(model=GRU, epoch=3)))
write("pytorch/legacy", legacy(GRU))
write("pytorch/pickle", pickle.dumps(dict(lr=0.1, sizes=[1, 2]), 2))
ARRAYS = {f"{name}.npy": npy(tuple(tensor.shape)) for name, tensor in GRU.items()}
write("npz/stored", npz(ARRAYS))
write("npz/deflated", npz(ARRAYS, zipfile.ZIP_DEFLATED))
write("npz/version-3", npz({"a.npy": npy((2, 3), fortran=True, version=3)}))
write("npz/big-endian", npz({"a.npy": npy((3,), ">f4")}))
# A header that claims 4 EiB, and a header whose size overflows 64 bits.
write("npz/claims", npz({"a.npy": npy((1 << 30, 1 << 30), content=b"")}))
write("npz/overflow", npz({"a.npy": npy((1 << 40, 1 << 40), content=b"")}))
write("npz/short", npz({"a.npy": npy((3,), content=numbers(2))}))
write("npz/long-header", npz({"a.npy": b"\x93NUMPY\2\0\xff\xff\xff\xff{"}))
write("npz/nested", npz({"a.npy": npy((1,), descr="(" * 9000 + ")" * 900)}))
write("npz/objects", npz({"a.npy": npy((1,), "|O")}))
write("npz/record", npz({"a.npy": npy((1,), descr="[('x', '<f4'), ('y', '<f4')]")}))
write("npz/truth", npz({"a.npy": npy((2,), "|b1", content=b"\1\2")}))
write("npz/text", npz({"README.txt": b"not an array"}))
zeros = npy((1 << 18,), content=bytes(1 << 20))
write("npz/bomb", npz({"a.npy": zeros}, zipfile.ZIP_DEFLATED, copies=100))
# The archive claims 4 GiB for an array of a kilobyte.
written = npz({"a.npy": npy((256,), content=bytes(1024))}, zipfile.ZIP_DEFLATED)
size = struct.pack("<L", len(npy((256,), content=bytes(1024))))
write("npz/claimed-by-zip", written.replace(size, b"\xfe\xff\xff\xff"))
# The last value is changed, so the checksum of the archive does not match.
broken = npz({"a.npy": npy((3,))})
write("npz/changed", broken.replace(numbers(3), numbers(2) + bytes(4)))
SYSTEMS = {
    "pytorch": {"a.weight_ih_l0": [3, 2], "a.weight_hh_l0": [3, 1], "a.bias_ih_l0": [3], "a.bias_hh_l0": [3]},
    "both-ways": {
        f"{kind}_{which}_l0{way}": [3, 1] if kind == "weight" else [3]
        for kind in ["weight", "bias"]
        for which in ["ih", "hh"]
        for way in ["", "_reverse"]
    },
    "cell": {"weight_ih": [3, 2], "weight_hh": [3, 1], "bias_ih": [3], "bias_hh": [3]},
    "keras": {"k/kernel": [2, 3], "k/recurrent_kernel": [1, 3], "k/bias": [2, 3]},
    "mps_graph": {"recurrentWeight": [3, 1], "inputWeight": [3, 2], "bias": [3], "secondaryBias": [1]},
    "onnx": {"W": [1, 3, 2], "R": [1, 3, 1], "B": [1, 6]},
    "tensorflow": {"w_ru": [3, 2], "w_c": [3, 1], "b_ru": [2], "b_c": [1]},
    "onednn": {"weights_layer": [1, 1, 2, 3, 1], "weights_iter": [1, 1, 1, 3, 1], "bias": [1, 1, 4, 1]},
    "cudnn": {f"{kind}{k}": [1, 1] if kind == "w" else [1] for kind in "wb" for k in range(6)},
}
for system, shapes in SYSTEMS.items():
    write(f"safetensors/{system}", safetensors(shapes))
