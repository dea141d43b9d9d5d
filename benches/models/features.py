"""The input features of the networks, computed as in their packages.

NSNet2: Braun and Tashev 2020, <https://arxiv.org/abs/2008.06412>. DeepFilterNet 3: Schröter et al.
2023, <https://arxiv.org/abs/2305.08227>, with the constants of its library and of `config.ini`.
"""
import numpy as np


def frames(x, size, hop):
    """Frames as rows of `[T, size]`. Drops the samples of an incomplete last frame."""
    count = 1 + (len(x) - size) // hop
    return x[np.arange(count)[:, None] * hop + np.arange(size)]


def nsnet2(x, rate):
    """log10 of the power of 20 ms frames, `[1,T,bins]`: 161 at 16 kHz, 513 at 48 kHz."""
    power = np.abs(nsnet2_spectrum(x, rate)[0]) ** 2
    return np.log10(np.maximum(power, 1e-12)).astype(np.float32)[None]


def nsnet2_spectrum(x, rate):
    """The spectra `[T,bins]` of 20 ms frames, their window, and the samples from one frame to the next."""
    size = rate // 50
    fft, hop = (320, 160) if rate == 16000 else (1024, 512)
    # The package uses a symmetric window at 16 kHz and a periodic window at 48 kHz.
    period = size - 1 if rate == 16000 else size
    window = np.sqrt(0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / period))
    return np.fft.rfft(frames(x, size, hop) * window, fft), window, hop


class DeepFilterNet3:
    """Features at 48 kHz: frames of 960 samples, one frame every 480 samples."""

    RATE, FFT, HOP, ERB, DF, LEAST, LOOKAHEAD = 48000, 960, 480, 32, 96, 2, 2
    # exp(-hop/rate/τ) with τ = 1 s, rounded to three digits as in the library.
    DECAY = 0.99

    def features(self, x):
        """`feat_erb [1,1,T,32]` and `feat_spec [1,2,T,96]`, two frames ahead as the model requires."""
        k = np.arange(self.FFT)
        vorbis = np.sin(np.pi / 2 * np.sin(np.pi * (k + 0.5) / self.FFT) ** 2)
        # Frames start with the first hop, so half of the first window is silence.
        padded = np.concatenate([np.zeros(self.FFT - self.HOP), x])
        spectrum = np.fft.rfft(frames(padded, self.FFT, self.HOP) * vorbis)
        spectrum *= 2 * self.HOP / self.FFT**2
        erb, df = self.erb(spectrum), self.complex(spectrum[:, :self.DF])
        ahead = lambda a: np.concatenate([a[self.LOOKAHEAD:], np.zeros_like(a[:self.LOOKAHEAD])])
        both = np.stack([ahead(df).real, ahead(df).imag])
        return ahead(erb).astype(np.float32)[None, None], both.astype(np.float32)[None]

    def erb(self, spectrum):
        """dB in each band, less a running mean, divided by 40."""
        edges = np.concatenate([[0], np.cumsum(self.widths())])
        power = np.abs(spectrum) ** 2
        bands = [power[:, a:b].mean(1) for a, b in zip(edges, edges[1:])]
        db = 10 * np.log10(np.stack(bands, 1) + 1e-10)
        mean, out = np.linspace(-60, -90, self.ERB), np.empty_like(db)
        for t, row in enumerate(db):
            mean = row * (1 - self.DECAY) + mean * self.DECAY
            out[t] = (row - mean) / 40
        return out

    def complex(self, spectrum):
        """The lowest bins, divided by the square root of a running mean of their magnitude."""
        mean, out = np.linspace(1e-3, 1e-4, self.DF), np.empty_like(spectrum)
        for t, row in enumerate(spectrum):
            mean = np.abs(row) * (1 - self.DECAY) + mean * self.DECAY
            out[t] = row / np.sqrt(mean)
        return out

    def widths(self):
        """The number of bins per band: equal steps on the scale of equivalent rectangular bandwidths."""
        erb = lambda f: 9.265 * np.log(1 + f / (24.7 * 9.265))
        hertz = lambda e: 24.7 * 9.265 * (np.exp(e / 9.265) - 1)
        bin_width, highest = self.RATE / self.FFT, erb(self.RATE / 2)
        widths, last, owed = [], 0, 0
        for k in range(1, self.ERB + 1):
            edge = round(hertz(highest * k / self.ERB) / bin_width)
            width = edge - last - owed
            # Low bands would have no bins, so they borrow bins from the next band.
            owed = max(0, self.LEAST - width)
            widths.append(max(self.LEAST, width))
            last = edge
        widths[-1] += self.FFT // 2 + 1 - sum(widths)
        return widths
