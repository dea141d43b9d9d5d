"""Synthetic noisy speech: syllables with formants, fricatives, pauses, pink noise."""
import numpy as np

# Formants in Hz of five vowels, by Peterson and Barney 1952.
VOWELS = [(730, 1090, 2440), (270, 2290, 3010), (300, 870, 2240), (530, 1840, 2480),
          (570, 840, 2410)]
SNR_DB = 5.0


def noisy_speech(rate, seconds, seed=7):
    """`[samples]`, float64 below 1. The first half second is only noise."""
    return noisy_and_clean(rate, seconds, seed)[0]


def noisy_and_clean(rate, seconds, seed=7):
    """The same, and its speech without the noise."""
    rng = np.random.Generator(np.random.PCG64(seed))
    speech = np.zeros(int(rate * seconds))
    start = 0.5
    while start + 0.4 < seconds:
        voiced = rng.uniform(0.12, 0.3)
        syllable(speech, rate, start, voiced, rng)
        start += voiced
        if rng.random() < 0.5:
            length = rng.uniform(0.05, 0.12)
            fricative(speech, rate, start, length, rng)
            start += length
        start += rng.uniform(0.02, 0.08) if rng.random() < 0.8 else rng.uniform(0.2, 0.4)
    noise = pink(len(speech), rate, rng)
    active = np.sqrt(np.mean(speech**2))
    noise *= active / np.sqrt(np.mean(noise**2)) * 10 ** (-SNR_DB / 20)
    mixed = speech + noise
    scale = 0.3 / np.abs(mixed).max()
    return scale * mixed, scale * speech


def window(length, rate):
    """Rises and falls within 20 ms."""
    edge = min(int(0.02 * rate), length // 2)
    shape = np.ones(length)
    shape[:edge] = 0.5 - 0.5 * np.cos(np.pi * np.arange(edge) / edge)
    shape[length - edge:] = shape[:edge][::-1]
    return shape


def syllable(out, rate, start, seconds, rng):
    """Harmonics of a gliding pitch, with the formants of one vowel that changes into another."""
    length = int(seconds * rate)
    t = np.arange(length) / rate
    pitch = rng.uniform(95, 210) * (1 + rng.uniform(-0.2, 0.2) * t / seconds)
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    one, two = VOWELS[rng.integers(5)], VOWELS[rng.integers(5)]
    mix = (t / seconds)[:, None]
    formants = np.array(one) * (1 - mix) + np.array(two) * mix
    voice = np.zeros(length)
    for k in range(1, int(min(8000, rate / 2.2) / pitch.max())):
        f = k * pitch[:, None]
        gain = (1 / (1 + ((f - formants) / (60 + 0.06 * formants)) ** 2)).sum(1)
        voice += (0.02 + gain) / k**0.6 * np.sin(k * phase)
    at = int(start * rate)
    out[at:at + length] += rng.uniform(0.5, 1.0) * voice * window(length, rate)


def fricative(out, rate, start, seconds, rng):
    """Noise above 3 kHz."""
    length = int(seconds * rate)
    spectrum = np.fft.rfft(rng.standard_normal(length))
    f = np.fft.rfftfreq(length, 1 / rate)
    spectrum *= 1 / (1 + np.exp(-(f - 3500) / 500))
    at = int(start * rate)
    out[at:at + length] += 0.6 * np.fft.irfft(spectrum, length) * window(length, rate)


def pink(length, rate, rng):
    """Noise whose power falls with frequency, as in a room."""
    spectrum = np.fft.rfft(rng.standard_normal(length))
    f = np.fft.rfftfreq(length, 1 / rate)
    return np.fft.irfft(spectrum / np.sqrt(np.maximum(f, 40)), length)
