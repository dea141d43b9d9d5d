"""Compiles CUDA C++ from standard input for one architecture. Prints the registers of a thread and its bytes of
stack, to which the compiler spills registers.

    pip install nvidia-cuda-nvrtc-cu12 nvidia-cuda-runtime-cu12 nvidia-cuda-nvcc-cu12
    python3 nvrtc.py sm_90 [UNITS]

NVRTC compiles to PTX with the options of CubeCL, and ptxas to machine code, as the driver would. No GPU is
needed. With UNITS, that many threads must fit into the 65 536 registers of a multiprocessor.
"""

import ctypes
import pathlib
import re
import subprocess
import sys
import tempfile

import nvidia

ROOTS = [pathlib.Path(path) for path in nvidia.__path__]


def find(pattern):
    return next(path for root in ROOTS for path in root.glob(pattern))


def to_ptx(source, arch):
    nvrtc = ctypes.CDLL(str(find("cuda_nvrtc/lib/libnvrtc.so.*")))
    program = ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"kernel.cu", 0, None, None)
    options = [
        f"--gpu-architecture={arch}",
        f"--include-path={find('cuda_runtime/include')}",
        f"--include-path={find('cuda_nvcc/include')}",
        "-lineinfo",
    ]
    options = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
    failed = nvrtc.nvrtcCompileProgram(program, len(options), options)
    what = "ProgramLog" if failed else "PTX"
    size = ctypes.c_size_t()
    getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    getattr(nvrtc, f"nvrtcGet{what}")(program, text)
    if failed:
        sys.exit(text.value.decode())
    return text.value


def assemble(ptx, arch):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "kernel.ptx"
        path.write_bytes(ptx)
        command = [find("cuda_nvcc/bin/ptxas"), f"-arch={arch}", "-v", path, "-o", "/dev/null"]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return done.stderr


def main():
    arch = sys.argv[1]
    report = assemble(to_ptx(sys.stdin.buffer.read(), arch), arch)
    number = lambda pattern: int(re.search(pattern, report)[1])
    registers = number(r"Used (\d+) registers")
    stack = number(r"(\d+) bytes stack frame")
    print(f"{arch}: {registers} registers, {stack} bytes of stack")
    if len(sys.argv) > 2 and int(sys.argv[2]) * registers > 65536:
        sys.exit(f"{sys.argv[2]} units of {registers} registers are more than a multiprocessor has")


main()
