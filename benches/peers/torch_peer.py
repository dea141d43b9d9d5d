"""PyTorch as a peer. Runs after protocol.py.

    VARIANT DEVICE

DEVICE is cpu, cuda, cuda-tf32, which rounds the factors of float32 products to TF32 (PyTorch's default for cuDNN), or
cuda-float16 or cuda-bfloat16, where all numbers have that type.

torch        nn.GRU, time-major; batches with lengths are packed before the call, except where padding is faster
torch-cell   starts: a loop of GRUCell, the state is masked before each step
torch-split  starts: sequences are split, padded, packed and put together again within the call
torchrl      starts: torchrl.modules.GRUModule with its default backend
"""
import torch
from torch.nn.utils import rnn


class Case:
    def __init__(self, problem, trains):
        variant, kind = VARIANT, problem.kind
        n, t, i, h, layers, directions = problem.sizes
        if (kind == STARTS) == (variant == "torch"):
            raise NotImplementedError("does not compute rows with starts" if kind == STARTS
                                      else "measured for rows with starts only")
        self.n, self.t, self.h, self.trains = n, t, h, trains
        marks = torch.tensor(problem.marks, dtype=torch.int64)
        x, h0, r = (torch.tensor(array, device=DEVICE).to(DTYPE) for array in (problem.x, problem.h0, problem.r))
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
        self.net.to(DEVICE, DTYPE)
        self.parameters = list(self.net.parameters())
        with torch.no_grad():
            for parameter, array in zip(self.parameters, sum(problem.weights, []), strict=True):
                parameter.copy_(torch.tensor(array))
        # Training on packed rows adds a gradient of the size of the batch in each step, so many steps are faster with
        # their padding. The gradients are the same, because the gradient of the padding is zero.
        self.lengths = marks.to(DEVICE) if kind == LENGTHS and trains and layers * directions == 1 else None
        self.is_time_major = kind == DENSE or self.lengths is not None or variant == "torch-cell"
        self.packed = None
        if self.is_time_major:
            x, r = x.transpose(0, 1).contiguous(), r.transpose(0, 1).contiguous()
        elif kind >= LENGTHS:
            self.packed, r = (rnn.pack_padded_sequence(rows, marks, True, enforce_sorted=False) for rows in (x, r))
            x, r = self.packed.data, r.data
        if kind == STARTS:
            starts = marks.reshape(n, t).bool().to(DEVICE)
            self.starts = starts.T[..., None].contiguous() if variant == "torch-cell" else starts
        self.x, self.h0, self.r = x.requires_grad_(trains), h0.requires_grad_(trains), r if trains else None
        self.note = "" if self.lengths is None else "dense and padded"
        self.variant = variant.replace("-", "_")

    def torch(self):
        if self.packed is None:
            return self.net(self.x, self.h0)
        y, state = self.net(self.packed, self.h0)
        return y.data, state

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
        if not self.trains:
            with torch.inference_mode():
                return (*getattr(self, self.variant)(), [])
        y, state = getattr(self, self.variant)()
        inputs = [self.x, self.h0, *self.parameters]
        return y, state, torch.autograd.grad((y * self.r).sum(), inputs, allow_unused=True)

    def outputs(self):
        y, state, gradients = self.call()
        if self.lengths is not None:
            state = y[self.lengths - 1, torch.arange(self.n)][None]
        if gradients:
            inputs = [self.x, self.h0, *self.parameters]
            gradients = [torch.zeros_like(i) if g is None else g for i, g in zip(inputs, gradients)]

        def padded(x):
            if self.is_time_major:
                return x.transpose(0, 1)
            if self.packed is not None:
                rows = rnn.PackedSequence(x, *self.packed[1:])
                return rnn.pad_packed_sequence(rows, batch_first=True, total_length=self.t)[0]
            return x

        tensors = [padded(y), state]
        if gradients:
            tensors += [padded(gradients[0]), *gradients[1:]]
        return [tensor.detach().float().cpu().numpy() for tensor in tensors]


VARIANT, DEVICE = sys.argv[1:]
DEVICE, _, precision = DEVICE.partition("-")
DTYPE = getattr(torch, precision) if "float" in precision else torch.float32
torch.set_num_threads(THREADS)
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
version = torch.__version__
if VARIANT == "torchrl":
    import torchrl
    version = f"{torchrl.__version__} with PyTorch {version}"
serve(version, Case, torch.cuda.synchronize if DEVICE == "cuda" else lambda: None)
