"""char-gru's training loop in PyTorch, with the same parameters, windows and learning rates, and so the
same losses. Compares the speed.

    train="cargo run --release -p char-gru -- train --text TEXT --embed 128 --hidden 512 --layers 2 --batch 64 \\
        --seq 128 --dropout 0 --lr 2e-3"
    $train --out init --max-steps 0
    $train --out ours --max-steps 60
    python benches/peers/char_gru.py --text TEXT --init init/model.safetensors --log ours/log.jsonl --threads 2

Requires torch, numpy and safetensors. Follows the log step by step. Prints the largest difference of
the losses, and the median characters per second of both programs: char-gru's from the log, PyTorch's
measured by this script. Leaves out the first steps of both. A step includes embedding, GRU, head,
cross-entropy, clipping and Adam.
"""
import argparse
import json
import statistics
import time

import torch
from safetensors.torch import load_file


class CharGru(torch.nn.Module):
    def __init__(self, v, e, h, layers):
        super().__init__()
        self.embedding = torch.nn.Embedding(v, e)
        self.gru = torch.nn.GRU(e, h, layers, batch_first=True)
        self.head = torch.nn.Linear(h, v)

    def forward(self, tokens, state):
        y, state = self.gru(self.embedding(tokens), state)
        return self.head(y).flatten(0, 1), state


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--text", required=True)
    ap.add_argument("--init", required=True)
    ap.add_argument("--log", required=True)
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--seq", type=int, default=128)
    ap.add_argument("--clip", type=float, default=1.0)
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--warm-up", type=int, default=5)
    a = ap.parse_args()
    torch.set_num_threads(a.threads)

    parameters = load_file(a.init)
    characters = [chr(int(c)) for c in parameters.pop("characters")]
    rank = {c: i for i, c in enumerate(characters)}
    text = open(a.text, encoding="utf-8", newline="").read()
    ids = torch.tensor([rank[c] for c in text])
    train = ids[: len(ids) * 9 // 10]
    length = (len(train) - 1) // a.batch
    inputs = train[: length * a.batch].view(a.batch, length)
    targets = train[1 : length * a.batch + 1].view(a.batch, length)

    v, e = parameters["embedding.weight"].shape
    h = parameters["head.weight"].shape[1]
    layers = sum(k.startswith("gru.weight_hh") for k in parameters)
    model = CharGru(v, e, h, layers)
    model.load_state_dict(parameters)
    adam = torch.optim.Adam(model.parameters(), lr=1.0)

    steps = [json.loads(line) for line in open(a.log)]
    state, epoch, seconds, worst = None, 0, [], 0.0
    for step in steps:
        if step["epoch"] != epoch:
            state, epoch = None, step["epoch"]
        start = time.perf_counter()
        at = slice(step["offset"], step["offset"] + a.seq)
        for group in adam.param_groups:
            group["lr"] = step["learning_rate"]
        adam.zero_grad()
        logits, state = model(inputs[:, at], state)
        loss = torch.nn.functional.cross_entropy(logits, targets[:, at].reshape(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), a.clip)
        adam.step()
        state = state.detach()
        value = loss.item()
        seconds.append(time.perf_counter() - start)
        worst = max(worst, abs(value - step["loss"]) / value)

    windows = a.batch * a.seq
    theirs = windows / statistics.median(seconds[a.warm_up :])
    print(f"{len(steps)} steps, {layers} layers, E {e}, H {h}, N {a.batch}, T {a.seq}, "
          f"{a.threads} threads, torch {torch.__version__}")
    print(f"largest relative difference of losses {worst:.1e}; last loss {value:.4f} in PyTorch, "
          f"{steps[-1]['loss']:.4f} in char-gru")
    ours = [s["seconds"] for s in steps][a.warm_up :]
    ours = windows / statistics.median(ours)
    print(f"PyTorch {theirs / 1e3:.1f}k characters/s, char-gru {ours / 1e3:.1f}k characters/s: "
          f"char-gru is {ours / theirs:.2f} times as fast")


if __name__ == "__main__":
    main()
