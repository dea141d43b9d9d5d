"""A sequence model in PyTorch, and PyTorch's results for it.

    pip install torch numpy safetensors
    python make.py        # made with torch 2.15.0, CPU

Writes next to this file:
- tagger.pt           state dict, written by torch.save
- checkpoint.pt       the same under "model_state_dict" of a training checkpoint, written by torch.save
- tagger.safetensors  the same, written by safetensors
- expected.safetensors  inputs `in.*`, upstream gradients `up.*`, outputs `out.*`, gradients
                        `grad.*` under the model's own key names
"""
import pathlib

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

HERE = pathlib.Path(__file__).parent
N, T, VOCABULARY, I, H, TAGS = 5, 9, 11, 6, 10, 4
LENGTHS = torch.tensor([7, 9, 1, 4, 4])


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, I)
        self.encoder = nn.GRU(I, H, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(2 * H, TAGS)

    def forward(self, tokens, lengths, h0):
        x = self.embedding(tokens)
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        y, h_n = self.encoder(packed, h0)
        y, _ = pad_packed_sequence(y, batch_first=True, total_length=T)
        return self.head(y), y, h_n


torch.manual_seed(20261120)
torch.set_num_threads(1)
model = Tagger()
with torch.no_grad():
    # Larger than PyTorch's own initial weights, so that the gates leave their linear range.
    for parameter in model.parameters():
        parameter.mul_(2.0)
tokens = torch.randint(0, VOCABULARY, (N, T))
h0 = torch.randn(4, N, H, requires_grad=True)
logits, y, h_n = model(tokens, LENGTHS, h0)
up_logits, up_h_n = torch.randn_like(logits), torch.randn_like(h_n)
((logits * up_logits).sum() + (h_n * up_h_n).sum()).backward()

state = {k: v.contiguous() for k, v in model.state_dict().items()}
torch.save(state, HERE / "tagger.pt")
torch.save({"epoch": 3, "model_state_dict": state}, HERE / "checkpoint.pt")
save_file(state, HERE / "tagger.safetensors")
expected = {
    "in.tokens": tokens.to(torch.int32),
    "in.lengths": LENGTHS.to(torch.int32),
    "in.h0": h0,
    "up.logits": up_logits,
    "up.h_n": up_h_n,
    "out.logits": logits,
    "out.encoder": y,
    "out.h_n": h_n,
    "grad.h0": h0.grad,
}
expected |= {f"grad.{k}": p.grad for k, p in model.named_parameters()}
save_file({k: v.detach().contiguous() for k, v in expected.items()}, HERE / "expected.safetensors")
