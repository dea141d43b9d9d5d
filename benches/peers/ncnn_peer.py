"""ncnn's GRU layer as a peer, inference of one sequence. Runs after protocol.py.

    ncnn | ncnn-int8        # int8: weights with a scale for each row, as its tool ncnn2int8 makes them
"""
import tempfile

import ncnn

INT8 = sys.argv[1] == "ncnn-int8"


class Case:
    def __init__(self, problem, trains):
        n, t, i, h, layers, directions = problem.sizes
        if trains or problem.kind != DENSE or n != 1:
            raise NotImplementedError("inference of one sequence without starts and lengths only")
        inputs = ["x", *(f"h{layer}" for layer in range(layers))]
        lines = [f"Input {name} 0 1 {name}" for name in inputs]
        self.names = ["x"]
        weights = b""
        for layer in range(layers):
            at = slice(layer * directions, (layer + 1) * directions)
            w_ih, w_hh, b_ih, b_hh = map(np.stack, zip(*problem.weights[at]))
            # b_ih + b_hh of r and z, b_ih of n, b_hh of n
            bias = np.concatenate([b_ih[:, :2 * h] + b_hh[:, :2 * h], b_ih[:, 2 * h:], b_hh[:, 2 * h:]], 1)
            weights += self.matrix(w_ih) + self.floats(bias) + self.matrix(w_hh)
            if INT8:
                weights += self.scales(w_ih).tobytes() + self.scales(w_hh).tobytes()
            lines.append(f"GRU gru{layer} 2 2 {self.names[0]} h{layer} y{layer} state{layer} "
                         f"0={h} 1={w_ih.size} 2={2 if directions == 2 else 0} 8={2 if INT8 else 0}")
            self.names = [f"y{layer}", *self.names[1:], f"state{layer}"]
        param = "\n".join(["7767517", f"{len(lines)} {len(inputs) + 2 * layers}", *lines, ""])
        self.net = ncnn.Net()
        self.net.opt.num_threads = THREADS
        for option in ["use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic", "use_bf16_packed", "use_bf16_storage"]:
            setattr(self.net.opt, option, False)
        with tempfile.NamedTemporaryFile() as file:
            file.write(weights)
            file.flush()
            assert self.net.load_param_mem(param) == 0 and self.net.load_model(file.name) == 0
        arrays = [problem.x[0], *problem.h0.reshape(layers, directions, h)]
        self.inputs = [(name, ncnn.Mat(np.ascontiguousarray(array)).clone()) for name, array in zip(inputs, arrays)]

    @staticmethod
    def scales(matrix):
        return 127 / np.abs(matrix).max(-1)

    @staticmethod
    def floats(array):
        return bytes(4) + np.ascontiguousarray(array, "<f4").tobytes()

    def matrix(self, matrix):
        if not INT8:
            return self.floats(matrix)
        integers = np.rint(matrix * self.scales(matrix)[..., None]).astype(np.int8).tobytes()
        return (0x000D4B38).to_bytes(4, "little") + integers + bytes(-len(integers) % 4)

    def call(self):
        extractor = self.net.create_extractor()
        for name, value in self.inputs:
            extractor.input(name, value)
        return [extractor.extract(name)[1] for name in self.names]

    def outputs(self):
        y, *states = [np.array(value) for value in self.call()]
        return y, np.concatenate(states)


serve(ncnn.__version__, Case)
