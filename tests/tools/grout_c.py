"""The C interfaces (gemm/gemm_c.h, attention/attention_c.h, copy/copy_c.h) for Python, with ctypes: no package is needed.

    library = grout_c.Gemm("build/gemm/libgrout_gemm.so")
    g = library.arguments(m=65, n=97, k=73, a=address, b=address, d=address, lda=73, ldb=97, ldc=97)
    code, message, choice = library.gemm(g, stream)

Addresses and streams are integers: device pointers, or for a library of the simulated device those of ordinary memory."""
import ctypes
from ctypes import c_char, c_char_p, c_float, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

VERSION = 1
OK, INVALID, UNSUPPORTED, DEVICE_ERROR = 0, 2, 3, 4
BF16, F16, F32 = 0, 1, 2
BOUNDS_AUTO, BOUNDS_CHECKED, BOUNDS_NONE = 0, 1, 2
ATTENTION_KERNELS = ("auto", "mma")  # by number
CROP_KERNELS = ("bounded", "stream", "load", "ring", "store", "cluster", "swizzle")  # by number
CROP_PATHS = ("bounded", "tensor", "stream")


class GemmArguments(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("type", c_int32), ("out", c_int32), ("bounds", c_int32), ("trans_a", c_int32),
                ("trans_b", c_int32), ("alpha", c_float), ("beta", c_float), ("m", c_int64), ("n", c_int64), ("k", c_int64),
                ("a", c_void_p), ("b", c_void_p), ("c", c_void_p), ("d", c_void_p), ("lda", c_int64), ("ldb", c_int64),
                ("ldc", c_int64), ("batch", c_int64), ("batch_a", c_int64), ("batch_b", c_int64), ("batch_c", c_int64),
                ("batch_d", c_int64), ("workspace", c_void_p), ("workspace_bytes", c_uint64)]


class GemmChoice(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("tile_m", c_int32), ("tile_n", c_int32), ("tile_k", c_int32), ("threads", c_int32),
                ("shared_bytes", c_uint32), ("tiles", c_int64), ("kernel", c_char * 16), ("path", c_char * 16),
                ("reason", c_char * 128)]

    def as_text(self):
        """What was launched, by name: the `realised` of a comparison."""
        return {"kernel": self.kernel.decode(), "path": self.path.decode(),
                "tile": f"{self.tile_m}x{self.tile_n}x{self.tile_k}", "reason": self.reason.decode()}


class AttentionArguments(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("type", c_int32), ("causal", c_int32), ("kernel", c_int32), ("splits", c_int32),
                ("scale", c_float), *((name, c_int64) for name in ("batch", "heads", "kv_heads", "q_length", "kv_length", "dim")),
                *((name, c_void_p) for name in ("q", "k", "v", "o", "lse")),
                *((f"{operand}_{axis}", c_int64) for operand in "qkvo" for axis in ("batch", "row", "head")),
                ("q_offsets", c_void_p), ("kv_offsets", c_void_p), ("q_rows", c_int64), ("workspace", c_void_p),
                ("workspace_bytes", c_uint64)]


class AttentionChoice(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("tile_q", c_int32), ("tile_k", c_int32), ("tile_dim", c_int32), ("threads", c_int32),
                ("splits", c_int32), ("shared_bytes", c_uint64), ("blocks", c_int64), ("kernel", c_char * 16), ("path", c_char * 16),
                ("reason", c_char * 128)]

    def as_text(self):
        """What was launched, by name: the `realised` of a comparison."""
        return {"kernel": self.kernel.decode(), "path": self.path.decode(), "tile": f"{self.tile_q}x{self.tile_k}x{self.tile_dim}",
                "splits": str(self.splits), "reason": self.reason.decode()}


class CropArguments(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("kernel", c_int32), ("type", c_int32), ("reserved", c_int32), ("source", c_void_p),
                ("source_rows", c_int64), ("source_cols", c_int64), ("row_stride", c_int64), ("col_stride", c_int64),
                ("origin_row", c_int64), ("origin_col", c_int64), ("destination", c_void_p), ("rows", c_int64),
                ("cols", c_int64), ("ld", c_int64)]


class RepackOperand(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("reserved", c_uint32), ("source", c_void_p), ("rows", c_int64), ("cols", c_int64),
                ("row_stride", c_int64), ("col_stride", c_int64), ("copy", c_void_p), ("ld", c_int64), ("batch", c_int64),
                ("source_batch_stride", c_int64), ("copy_batch_stride", c_int64)]


# In the headers' names.
STRUCTS = {"grout_gemm_arguments": GemmArguments, "grout_gemm_choice": GemmChoice, "grout_attention_arguments": AttentionArguments,
           "grout_attention_choice": AttentionChoice, "grout_crop_arguments": CropArguments, "grout_repack_operand": RepackOperand}


def sized(struct, **fields):
    return struct(size=ctypes.sizeof(struct), **fields)


class Library:
    """A library by its path. Raises OSError where it cannot be loaded, or is of another version of the interface."""

    def __init__(self, path):
        self.handle = ctypes.CDLL(path)
        self.function("grout_version", [], c_uint32)
        self.function("grout_device", [], c_char_p)
        self.function("grout_device_usable", [c_void_p, c_size_t])
        version = self.handle.grout_version()
        if version != VERSION:
            raise OSError(f"{path} has version {version} of the C interface; {VERSION} is needed")
        self.device = self.handle.grout_device().decode()

    def function(self, name, parameters, result=c_int32):
        function = getattr(self.handle, name)
        function.argtypes, function.restype = parameters, result
        return function

    @staticmethod
    def said(call):
        """(code, message) of call(buffer, bytes)."""
        message = ctypes.create_string_buffer(1024)
        code = call(message, len(message))
        return code, message.value.decode()

    def usable(self):
        return self.said(self.handle.grout_device_usable)


class Problem(Library):
    """A library with one entry grout_NAME, its arguments, its choice and its workspace."""
    NAME, CHOICE = "", None

    def __init__(self, path):
        super().__init__(path)
        self.run = self.function(f"grout_{self.NAME}", [c_void_p, c_void_p, c_void_p, c_void_p, c_size_t])
        self.workspace = self.function(f"grout_{self.NAME}_workspace_bytes", [c_void_p, c_void_p, c_void_p, c_size_t])

    def call(self, arguments, stream=None):
        choice = sized(self.CHOICE)
        code, message = self.said(lambda *to: self.run(ctypes.byref(arguments), stream, ctypes.byref(choice), *to))
        return code, message, choice

    def workspace_bytes(self, arguments):
        count = c_uint64()
        code, message = self.said(lambda *to: self.workspace(ctypes.byref(arguments), ctypes.byref(count), *to))
        return code, message, count.value


class Gemm(Problem):
    NAME, CHOICE = "gemm", GemmChoice

    @staticmethod
    def arguments(**fields):
        return sized(GemmArguments, **{"alpha": 1, "batch": 1, **fields})

    def gemm(self, arguments, stream=None):
        return self.call(arguments, stream)


class Attention(Problem):
    NAME, CHOICE = "attention", AttentionChoice

    @staticmethod
    def arguments(kernel="auto", **fields):
        """Strides as q_stride=(batch, row, head), and so on."""
        for operand in "qkvo":
            fields.update(zip((f"{operand}_{axis}" for axis in ("batch", "row", "head")), fields.pop(f"{operand}_stride", ())))
        return sized(AttentionArguments, kernel=ATTENTION_KERNELS.index(kernel),
                     **{"scale": 1, "batch": 1, "heads": 1, "kv_heads": 1, "dim": 128, **fields})

    def attention(self, arguments, stream=None):
        return self.call(arguments, stream)


class Copy(Library):
    def __init__(self, path):
        super().__init__(path)
        self.run_crop = self.function("grout_crop", [c_void_p, c_void_p, c_void_p, c_void_p, c_size_t])
        self.run_repack = self.function("grout_repack", [c_void_p, c_uint32, c_int32, c_int32, c_void_p, c_void_p, c_size_t])

    @staticmethod
    def arguments(kernel="bounded", **fields):
        return sized(CropArguments, kernel=CROP_KERNELS.index(kernel), **{"col_stride": 1, **fields})

    @staticmethod
    def operand(**fields):
        return sized(RepackOperand, **{"col_stride": 1, "batch": 1, **fields})

    def crop(self, arguments, stream=None):
        path = c_int32(-1)
        code, message = self.said(lambda *to: self.run_crop(ctypes.byref(arguments), stream, ctypes.byref(path), *to))
        return code, message, CROP_PATHS[path.value] if code == OK else ""

    def repack(self, operands, element, stream=None, programmatic=False):
        array = (RepackOperand * len(operands))(*operands)
        return self.said(lambda *to: self.run_repack(array, len(operands), element, int(programmatic), stream, *to))
