"""DeepFilterNet's own library, through its C interface."""
import ctypes

import numpy as np


class LibDf:
    """The network with its transforms, one frame of 10 ms at a time."""

    def __init__(self, folder):
        self.lib = ctypes.CDLL(str(folder / "libdeepfilter.so"))
        floats = ctypes.POINTER(ctypes.c_float)
        self.lib.df_create.restype = ctypes.c_void_p
        self.lib.df_create.argtypes = [ctypes.c_char_p, ctypes.c_float, ctypes.c_char_p]
        self.lib.df_get_frame_length.restype = ctypes.c_size_t
        self.lib.df_get_frame_length.argtypes = [ctypes.c_void_p]
        self.lib.df_process_frame.restype = ctypes.c_float
        self.lib.df_process_frame.argtypes = [ctypes.c_void_p, floats, floats]
        archive = str(folder / "DeepFilterNet3_onnx.tar.gz").encode()
        # 100 dB: no limit of the noise reduction.
        self.state = self.lib.df_create(archive, 100.0, None)
        self.hop = self.lib.df_get_frame_length(self.state)

    def lsnr(self, x):
        """The local SNR in dB that the network estimates for each frame."""
        out = np.empty(self.hop, np.float32)
        pointer = lambda a: a.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        hops = [np.ascontiguousarray(x[k:k + self.hop], np.float32)
                for k in range(0, len(x) - self.hop + 1, self.hop)]
        step = self.lib.df_process_frame
        return np.array([step(self.state, pointer(hop), pointer(out)) for hop in hops])
