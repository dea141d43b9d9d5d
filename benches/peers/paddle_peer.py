"""PaddlePaddle's `paddle.nn.GRU` as a peer, time-major. Runs after protocol.py.

The wheel also has GRU kernels for uint8 and bfloat16, `fusion_gru` and `multi_gru`. Their reset gate acts before the
product, and `paddle.nn.GRU` does not use them.
"""
import paddle


class Case:
    def __init__(self, problem, trains):
        if problem.kind == STARTS:
            raise NotImplementedError("does not compute rows with starts")
        n, t, i, h, layers, directions = problem.sizes
        self.net = paddle.nn.GRU(i, h, layers, "bidirectional" if directions == 2 else "forward", time_major=True)
        suffixes = [f"_l{layer}{side}" for layer in range(layers) for side in ["", "_reverse"][:directions]]
        self.inputs = []
        for suffix, weights in zip(suffixes, problem.weights):
            for name, array in zip(["weight_ih", "weight_hh", "bias_ih", "bias_hh"], weights):
                self.inputs.append(getattr(self.net, name + suffix))
                self.inputs[-1].set_value(array)

        def tensor(array):
            return paddle.to_tensor(np.ascontiguousarray(array), stop_gradient=not trains)

        self.x, self.h0 = tensor(problem.x.transpose(1, 0, 2)), tensor(problem.h0)
        self.inputs[:0] = [self.x, self.h0]
        self.r = paddle.to_tensor(np.ascontiguousarray(problem.r.transpose(1, 0, 2))) if trains else None
        self.lengths = None if problem.kind == DENSE else paddle.to_tensor(problem.marks)

    def call(self):
        with paddle.set_grad_enabled(self.r is not None):
            y, state = self.net(self.x, self.h0, self.lengths)
            gradients = [] if self.r is None else paddle.grad((y * self.r).sum(), self.inputs)
        return y, state, *gradients

    def outputs(self):
        arrays = [tensor.numpy() for tensor in self.call()]
        for k in range(0, len(arrays), 2)[:2]:
            arrays[k] = arrays[k].transpose(1, 0, 2)
        return arrays


serve(paddle.__version__, Case)
