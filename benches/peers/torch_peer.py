"""PyTorch as a peer of the benchmark. benches/support/peer.rs describes the protocol.

    python torch_peer.py VARIANT [DEVICE]

DEVICE is cpu, cuda, or cuda-tf32, which rounds the factors of float32 products to TF32 (PyTorch's default for cuDNN).

torch        nn.GRU, time-major; batches with lengths are packed within the call
torch-cell   starts: a loop of GRUCell, the state is masked before each step
torch-split  starts: sequences are split, padded, packed and put together again within the call
torchrl      starts: torchrl.modules.GRUModule with its default backend
"""
import os
import sys
import time

import numpy as np
import torch
from torch.nn.utils import rnn

DENSE, STARTS, LENGTHS, PACKED = range(4)


class Case:
    def __init__(self, variant, path, mode, device):
        raw = np.fromfile(path, dtype="<i4")
        n, t, i, h, layers, directions, kind, marks = raw[:8].tolist()
        if (kind == STARTS) == (variant == "torch"):
            raise NotImplementedError("does not compute rows with starts" if kind == STARTS
                                      else "measured for rows with starts only")
        self.n, self.t, self.h, self.kind, self.mode = n, t, h, kind, mode
        self.marks = torch.from_numpy(raw[8:8 + marks].astype(np.int64))
        floats = torch.from_numpy(raw[8 + marks:].view("<f4").copy()).to(device)

        def take(*shape):
            nonlocal floats
            size = int(np.prod(shape))
            part, floats = floats[:size], floats[size:]
            return part.reshape(shape).contiguous()

        x, h0, r = take(n, t, i), take(layers * directions, n, h), take(n, t, directions * h)
        if variant == "torch":
            self.net = torch.nn.GRU(i, h, num_layers=layers, bidirectional=directions == 2)
        elif variant == "torch-cell":
            self.net = torch.nn.GRUCell(i, h)
        elif variant == "torch-split":
            self.net = torch.nn.GRU(i, h)
        else:
            from torchrl.modules import GRUModule
            self.module = GRUModule(i, h, in_keys=["x", "state", "is_init"], out_keys=["y", ("next", "state")],
                                    default_recurrent_mode=True)
            self.net = self.module.gru
        self.net.to(device)
        self.parameters = list(self.net.parameters())
        with torch.no_grad():
            for parameter in self.parameters:
                parameter.copy_(take(*parameter.shape))
        assert floats.numel() == 0, "the problem file is too long"
        self.is_time_major = kind == DENSE or variant == "torch-cell"
        if self.is_time_major:
            x, r = x.transpose(0, 1).contiguous(), r.transpose(0, 1).contiguous()
        self.valid = torch.arange(t)[None] < self.marks[:, None] if kind >= LENGTHS else None
        if kind == PACKED:
            x, r = x[self.valid], r[self.valid]
        if kind == STARTS:
            starts = self.marks.reshape(n, t).bool().to(device)
            self.starts = starts.T[..., None].contiguous() if variant == "torch-cell" else starts
        if mode == "fwd_bwd":
            x, h0 = x.requires_grad_(), h0.requires_grad_()
        self.x, self.h0, self.r, self.forward = x, h0, r, getattr(self, variant.replace("-", "_"))

    def torch(self):
        if self.kind == DENSE:
            return self.net(self.x, self.h0)
        if self.kind == PACKED:
            rows = self.x.split(self.marks.tolist())
            y, state = self.net(rnn.pack_sequence(rows, enforce_sorted=False), self.h0)
            return torch.cat(rnn.unpack_sequence(y)), state
        rows = rnn.pack_padded_sequence(self.x, self.marks, batch_first=True, enforce_sorted=False)
        y, state = self.net(rows, self.h0)
        return rnn.pad_packed_sequence(y, batch_first=True, total_length=self.t)[0], state

    def torch_cell(self):
        state, states = self.h0[0], []
        for x, start in zip(self.x, self.starts):
            state = self.net(x, state.masked_fill(start, 0))
            states.append(state)
        return torch.stack(states), state[None]

    def torch_split(self):
        begins = self.starts.clone()
        begins[:, 0] = True
        begins = begins.flatten().nonzero()[:, 0]
        lengths = begins.diff(append=torch.tensor([self.n * self.t])).tolist()
        rows = rnn.pack_sequence(self.x.flatten(0, 1).split(lengths), enforce_sorted=False)
        keeps = (begins % self.t == 0) & ~self.starts.flatten()[begins]
        h0 = torch.where(keeps[:, None], self.h0[0][begins // self.t], 0)
        y = torch.cat(rnn.unpack_sequence(self.net(rows, h0[None])[0])).reshape(self.n, self.t, self.h)
        return y, y[None, :, -1]

    def torchrl(self):
        from tensordict import TensorDict
        states = torch.cat([self.h0[0][:, None, None],
                            self.h0.new_zeros(self.n, self.t - 1, 1, self.h)], 1)
        states = states.masked_fill(self.starts[:, :, None, None], 0)
        rows = TensorDict({"x": self.x, "state": states, "is_init": self.starts[..., None]}, [self.n, self.t])
        y = self.module(rows)["y"]
        return y, y[None, :, -1]

    def call(self):
        if self.mode == "infer":
            with torch.inference_mode():
                return (*self.forward(), [])
        y, state = self.forward()
        inputs = [self.x, self.h0, *self.parameters]
        return y, state, torch.autograd.grad((y * self.r).sum(), inputs, allow_unused=True)

    def outputs(self):
        y, state, gradients = self.call()
        if gradients:
            inputs = [self.x, self.h0, *self.parameters]
            gradients = [torch.zeros_like(i) if g is None else g for i, g in zip(inputs, gradients)]

        def padded(x):
            if self.is_time_major:
                return x.transpose(0, 1)
            if self.kind == PACKED:
                return x.new_zeros(*self.valid.shape, x.shape[1]).masked_scatter(self.valid[..., None], x)
            return x

        names = ["y", "h_n", "d_x", "d_h0"]
        kinds = ["d_w_ih", "d_w_hh", "d_b_ih", "d_b_hh"]
        names += [f"{kinds[k % 4]}.{k // 4}" for k in range(len(self.parameters))]
        tensors = [padded(y), state]
        if gradients:
            tensors += [padded(gradients[0]), *gradients[1:]]
        arrays = [tensor.detach().cpu().contiguous().numpy().ravel() for tensor in tensors]
        return names[:len(tensors)], np.concatenate(arrays).astype("<f4")


def main():
    variant, device = sys.argv[1], (sys.argv[2:] or ["cpu"])[0]
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    device, _, precision = device.partition("-")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    version, case = torch.__version__, None
    if variant == "torchrl":
        import torchrl
        version = f"{torchrl.__version__} with PyTorch {version}"
    print("ready", version, sep="\t", flush=True)
    for line in sys.stdin:
        request, *words = line.rstrip("\n").split("\t")
        if request == "prepare":
            problem, mode, out = words
            try:
                case = Case(variant, problem, mode, device)
            except NotImplementedError as reason:
                print("no", reason, sep="\t", flush=True)
                continue
            names, floats = case.outputs()
            floats.tofile(out)
            print("ok", " ".join(names), "", sep="\t", flush=True)
        else:
            warm_up, calls = map(int, words)
            for _ in range(warm_up):
                case.call()
            wait()
            begin = time.perf_counter_ns()
            for _ in range(calls):
                case.call()
            wait()
            print("ok", time.perf_counter_ns() - begin, sep="\t", flush=True)


if __name__ == "__main__":
    main()
