"""Results of RNNoise 0.2 as in the package pyrnnoise: features, gains and sound of each stage, and its speed.

    pip download --no-deps --platform manylinux1_x86_64 --only-binary=:all: pyrnnoise==0.4.5
    pip install numpy
    cargo run --release -p denoise -- demo DIR
    python reference.py WHEEL DIR/noisy.wav            # writes tests/v2/recorded.bin
    python rnnoise_weights.py WHEEL BLOB
    python reference.py WHEEL DIR/noisy.wav --speed PROGRAM BLOB   # time of the library and of `denoise compare`

Requires x86-64 Linux. The wheel's library is called by ctypes; nothing is installed. `recorded.bin` holds,
little-endian, for each frame of the sound: 480 samples (i16), then for each frame 65 features, 32 gains and the
probability of a voice (f32), then the output of the frames from OUTPUT on (f32). A silent frame has NaN gains.

Made with numpy 2.3 on an Intel Xeon with AVX-512: RNNoise approximates reciprocals with `rcpps`, which differs
between processors.
"""
import argparse
import ctypes
import pathlib
import statistics
import subprocess
import tempfile
import time
import wave
import zipfile

import numpy as np

HERE = pathlib.Path(__file__).parent / "tests" / "v2"
FRAME, BANDS, FEATURES = 480, 32, 65
START, FRAMES, OUTPUT = 50, 80, 40
# Digital silence within the sound. The high-pass filter decays in the first frames.
SILENCE = slice(52, 64)
# Floats of the states of both convolutions and three GRUs.
STATES = 2 * 65 + 2 * 128 + 3 * 384


def load(wheel):
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        name = next(name for name in archive.namelist() if name.endswith("/librnnoise.so"))
        library = ctypes.CDLL(archive.extract(name, folder))
    library.rnnoise_create.restype = ctypes.c_void_p
    library.rnnoise_process_frame.restype = ctypes.c_float
    return library


def array(*shape):
    return np.zeros(shape, np.float32)


def at(values):
    return ctypes.c_void_p(values.ctypes.data)


class Stages:
    """One channel, with each stage called on its own."""

    def __init__(self, library):
        self.library = library
        # The network is the first member of the state.
        self.state = ctypes.c_void_p(library.rnnoise_create(None))
        self.whole = ctypes.c_void_p(library.rnnoise_create(None))
        self.memory, self.network = array(2), array(STATES)

    def frame(self, sound):
        filtered, features, gains, voice = array(FRAME), array(FEATURES), array(BANDS), array(1)
        x, p, ex, ep, exp = array(2, 481), array(2, 481), array(BANDS), array(BANDS), array(BANDS)
        b, a = np.array([-2, 1], np.float32), np.array([-1.99599, 0.99600], np.float32)
        self.library.rnn_biquad(at(filtered), at(self.memory), at(sound), at(b), at(a), FRAME)
        silent = self.library.rnn_compute_frame_features(
            self.state, at(x), at(p), at(ex), at(ep), at(exp), at(features), at(filtered))
        gains[:] = np.nan
        if not silent:
            self.library.compute_rnn(self.state, at(self.network), at(gains), at(voice), at(features), 0)
        output = array(FRAME)
        whole = self.library.rnnoise_process_frame(self.whole, at(output), at(sound))
        assert whole == voice[0], "the stages are those of the whole"
        return np.concatenate([features, gains, voice]), output


def frames(path):
    with wave.open(str(path)) as file:
        assert file.getframerate() == 48000 and file.getnchannels() == 1 and file.getsampwidth() == 2
        sound = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    return sound[: len(sound) // FRAME * FRAME].reshape(-1, FRAME)


def record(library, path):
    sound = frames(path)[START:START + FRAMES].copy()
    sound[SILENCE] = 0
    stages = Stages(library)
    results, outputs = zip(*(stages.frame(frame.astype(np.float32)) for frame in sound))
    results = np.stack(results)
    silent = np.isnan(results[:, FEATURES])
    gains = results[~silent, FEATURES:-1]
    print(f"{silent.sum()} of {FRAMES} frames are silent, gains from {gains.min():.3f} to {gains.max():.3f}, "
          f"probability of a voice up to {results[:, -1].max():.3f}")
    parts = [sound.astype("<i2"), results.astype("<f4"), np.stack(outputs)[OUTPUT:].astype("<f4")]
    (HERE / "recorded.bin").write_bytes(b"".join(part.tobytes() for part in parts))


def speed(library, path, program, blob):
    """Five runs of the library and of the program, alternating."""
    sound = [frame.astype(np.float32) for frame in frames(path)]
    state, output, rounds, last = ctypes.c_void_p(library.rnnoise_create(None)), array(FRAME), [], ""
    process, to = library.rnnoise_process_frame, at(output)
    pointers = [at(frame) for frame in sound]
    for _ in range(5):
        samples = []
        for k in range(0, len(pointers) - 7, 8):
            start = time.perf_counter()
            for pointer in pointers[k:k + 8]:
                process(state, to, pointer)
            samples.append((time.perf_counter() - start) / 8)
        rounds.append(1e6 * statistics.median(samples))
        last = subprocess.run([program, "compare", path, "--model", blob], check=True, text=True,
                              capture_output=True).stdout
        print(f"librnnoise: {rounds[-1]:.1f} µs a frame\n{last}")
    print(f"librnnoise, median of the runs: {statistics.median(rounds):.1f} µs")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("wheel")
    arguments.add_argument("sound", help="WAV with 48 kHz, 16 bits, one channel")
    arguments.add_argument("--speed", metavar=("PROGRAM", "BLOB"), nargs=2, help="only measure the speed of the library and of denoise")
    arguments = arguments.parse_args()
    made = load(arguments.wheel)
    if arguments.speed:
        speed(made, arguments.sound, *arguments.speed)
    else:
        record(made, arguments.sound)
