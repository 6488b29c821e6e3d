"""c_abi.py BUILD COMPILER: the C interfaces, through the shared libraries of the simulated device. The headers are C99 and C++ and
agree with grout_c.py; the libraries export what the headers declare and nothing else; GEMM, attention, crop and repack are right,
bit for bit wherever their results have one value, padding and guard bands included; refusals say why and write nothing; nothing is thrown across."""
import ctypes
import itertools
import math
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.dirname(__file__))
import grout_c
from report import Cases

build, compiler = sys.argv[1:3]
root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
cases = Cases("c_abi")
LIBRARIES = {name: f"{build}/{name}/libgrout_{name}_sim.so" for name in ("gemm", "attention", "copy")}
TYPES = {"bf16": grout_c.BF16, "f16": grout_c.F16, "f32": grout_c.F32}
BYTES = {"bf16": 2, "f16": 2, "f32": 4}
CODES = {2: "H", 4: "I"}


# --- Memory and numbers ---------------------------------------------------------------------------------------------------

class Memory:
    """`elements` elements of a type, `offset` elements after a multiple of 256 bytes, between guard bands; all poison."""
    GUARD = 256

    def __init__(self, kind, elements, offset=0):
        self.size = BYTES[kind]
        self.raw = ctypes.create_string_buffer(256 + 2 * self.GUARD + (offset + elements) * self.size)
        ctypes.memset(self.raw, 0xff, len(self.raw))
        self.begin = -ctypes.addressof(self.raw) % 256 + self.GUARD + offset * self.size
        self.address = ctypes.addressof(self.raw) + self.begin
        self.bits = memoryview(self.raw).cast("B")[self.begin:self.begin + elements * self.size].cast(CODES[self.size])

    def snapshot(self):
        return bytes(self.raw)

    def with_elements(self, before, elements):
        """The bytes `before` with elements[index] = bits in their places: all that a run may have made of them."""
        expected = bytearray(before)
        for index, bits in elements.items():
            struct.pack_into("<" + CODES[self.size], expected, self.begin + index * self.size, bits)
        return bytes(expected)


def round_to_bits(kind, value):
    """The bits of the nearest number of a type, ties to even, of an integer that f32 holds."""
    if kind == "f16":
        return struct.unpack("<H", struct.pack("<e", value))[0]
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return bits if kind == "f32" else (bits + 0x7fff + (bits >> 16 & 1)) >> 16


def number_of(kind, bits):
    return struct.unpack("<e" if kind == "f16" else "<f", struct.pack("<H" if kind == "f16" else "<I", bits << 16 if kind == "bf16" else bits))[0]


def differing(expected, got):
    places = [i for i, (x, y) in enumerate(zip(expected, got)) if x != y]
    return f"{len(places)} bytes differ, the first at {places[0]} of {len(got)}" if places else None


# --- GEMM ---------------------------------------------------------------------------------------------------------------

class Stored:
    """A batch of row-major matrices of small integers, `rows` x `row` as stored."""

    def __init__(self, rng, kind, rows, row, extra, offset, batch):
        self.rows, self.row, self.ld = rows, row, row + extra
        self.stride = rows * self.ld + 3 * extra
        self.memory = Memory(kind, max(1, (batch - 1) * self.stride + rows * self.ld), offset)
        self.values = [[[rng.randint(-4, 4) for _ in range(row)] for _ in range(rows)] for _ in range(batch)]
        for index, value in self.places(self.values):
            self.memory.bits[index] = round_to_bits(kind, value)

    def places(self, values):
        for b, matrix in enumerate(values):
            for r, line in enumerate(matrix):
                for c, value in enumerate(line):
                    yield b * self.stride + r * self.ld + c, value


def transpose(matrix, columns):
    return [list(line) for line in zip(*matrix)] if matrix else [[] for _ in range(columns)]


def aligned(x, size, batch):
    return x.memory.address % 16 == 0 and x.ld * size % 16 == 0 and (batch == 1 or x.stride * size % 16 == 0)


def expected_path(m, n, k, a, b, d, out, batch, alpha):
    """From the rules of gemm/README.md, Paths."""
    k = 0 if alpha == 0 else k
    if k and not (aligned(a, 2, batch) and aligned(b, 2, batch)):
        return "repack" if k >= 512 or m * n * k * batch >= 2**25 else "realign"
    full = m % 64 == 0 and n % 64 == 0 and k % 32 == 0
    return "aligned" if full and aligned(d, BYTES[out], batch) else "bounded"


def gemm_case(library, rng, trans_a, trans_b, kind, out, shape, extras, offsets, alpha, beta, batch, workspace):
    """Runs one product; (problem or None, path)."""
    m, n, k = shape
    a = Stored(rng, kind, *((k, m) if trans_a else (m, k)), extras[0], offsets[0], batch)
    b = Stored(rng, kind, *((n, k) if trans_b else (k, n)), extras[1], offsets[1], batch)
    d = Stored(rng, out, m, n, extras[2], offsets[2], batch)
    in_place = rng.random() < 0.5 and beta != 0
    c = d if in_place else Stored(rng, out, m, n, extras[2], rng.randint(0, 3), batch) if beta else None
    g = library.arguments(m=m, n=n, k=k, type=TYPES[kind], out=TYPES[out], trans_a=int(trans_a), trans_b=int(trans_b),
                          a=a.memory.address, b=b.memory.address, c=c.memory.address if c else None, d=d.memory.address,
                          lda=a.ld, ldb=b.ld, ldc=d.ld, alpha=alpha, beta=beta, batch=batch, batch_a=a.stride,
                          batch_b=b.stride, batch_c=c.stride if c else 0, batch_d=d.stride)
    if beta == 0:
        for index, _ in d.places(d.values):
            d.memory.bits[index] = 0xffff if d.memory.size == 2 else 0xffffffff  # NaN: not read
    code, message, needed = library.workspace_bytes(g)
    if code != grout_c.OK:
        return f"grout_gemm_workspace_bytes: {code} {message}", None
    space = Memory("f32", needed // 4 + 1)
    if workspace:
        g.workspace, g.workspace_bytes = space.address, needed
    before = [x.memory.snapshot() for x in (a, b, d)]
    results = {}
    for i in range(batch):
        left = transpose(a.values[i], m) if trans_a else a.values[i]
        right = b.values[i] if trans_b else transpose(b.values[i], n)
        for r in range(m):
            for s in range(n):
                value = alpha * float(sum(x * y for x, y in zip(left[r], right[s]))) if k and alpha else 0.0  # zeros have signs
                if c:
                    value += beta * float(c.values[i][r][s])
                results[i * d.stride + r * d.ld + s] = round_to_bits(out, value)
    code, message, choice = library.gemm(g)
    if code != grout_c.OK or message:
        return f"{code} '{message}'", None
    problems = [differing(d.memory.with_elements(before[2], results), d.memory.snapshot())]
    problems += [differing(old, x.memory.snapshot()) and "an operand changed" for x, old in ((a, before[0]), (b, before[1]))]
    got = choice.as_text()
    empty = m * n * batch == 0
    path = "none" if empty else expected_path(m, n, k, a, b, d, out, batch, alpha)
    if got["path"] != path or (got["kernel"] == "none") != empty or (choice.tiles == 0) != empty or (choice.tile_m == 0) != empty:
        problems.append(f"path {path} was expected, reported {got}, {choice.tiles} tiles")
    if workspace and needed and bytes(space.bits[-1:]) != b"\xff" * 4:
        problems.append("bytes behind the workspace changed")
    if workspace and (needed > 0) != (path == "repack"):
        problems.append(f"{needed} bytes of workspace for path {path}")
    return "; ".join(p for p in problems if p) or None, path


def check_gemm(library):
    rng = random.Random(1)
    problems, paths, count = [], set(), 0
    shapes = [(65, 33, 40), (17, 9, 23), (1, 1, 1), (64, 64, 32), (33, 70, 65), (3, 2, 515), (0, 5, 7), (5, 0, 7), (5, 7, 0)]
    for number, (trans_a, trans_b, kind, out, shape) in enumerate(itertools.product(
            (False, True), (False, True), ("bf16", "f16"), ("bf16", "f16", "f32"), shapes)):
        odd = number % 3 != 0  # a third: aligned throughout
        extras = [rng.choice((0, 1, 3, 8)) if odd else -row % 8 for row in
                  (shape[0] if trans_a else shape[2], shape[2] if trans_b else shape[1], shape[1])]
        offsets = [rng.choice((0, 1, 3, 7, 8)) if odd else 0 for _ in range(3)]
        alpha, beta = rng.choice((1, 1, 2, -1, 0)), rng.choice((0, 0, 1, -2))
        arguments = (trans_a, trans_b, kind, out, shape, extras, offsets, alpha, beta, rng.choice((1, 1, 2)), number % 2 == 1)
        problem, path = gemm_case(library, rng, *arguments)
        count += 1
        paths.add(path)
        if problem:
            problems.append(f"{arguments}: {problem}")
    missing = {"none", "aligned", "bounded", "realign", "repack"} - paths
    if missing:
        problems.append(f"no case took {sorted(missing)}")
    cases.check(f"GEMM: {count} products of integers, every layout, type and path", "\n".join(problems[:5]))


def gemm_of(library, memory, **changes):
    """A 3 x 4 x 5 product of what lies in `memory`, one matrix behind the other."""
    return library.arguments(**{**dict(m=3, n=4, k=5, a=memory.address, b=memory.address + 64, d=memory.address + 128, lda=5,
                                       ldb=4, ldc=4), **changes})


def check_gemm_refusals(library):
    memory = Memory("bf16", 8192)
    before, size = memory.snapshot(), ctypes.sizeof(grout_c.GemmArguments)
    # (changes, code, what the sentence holds)
    table = [
        ({"size": size - 8}, [f"size is {size - 8}", f"has {size} bytes"]),
        ({"size": 0}, ["size is 0"]),
        ({"type": 3}, ["type=3", "0 (bf16), 1 (f16), 2 (f32)"]),
        ({"type": -1}, ["type=-1"]),
        ({"out": 7}, ["out=7"]),
        ({"bounds": 3}, ["bounds=3", "2 (none)"]),
        ({"bounds": 2}, ["bounds=false", "lda=5"]),
        ({"trans_a": 2}, ["trans_a=2", "1 (yes)"]),
        ({"trans_b": -1}, ["trans_b=-1"]),
        ({"m": -1}, ["M=-1"]),
        ({"batch": -1}, ["batch=-1"]),
        ({"lda": 4}, ["lda=4"]),
        ({"ldb": 3}, ["ldb=3"]),
        ({"ldc": 3}, ["ldc=3"]),
        ({"a": None}, ["A is null"]),
        ({"b": None}, ["B is null"]),
        ({"d": None}, ["D is null"]),
        ({"beta": 1}, ["C is null"]),
        ({"d": memory.address + 129}, ["D is not aligned"]),
        ({"d": memory.address}, ["D overlaps A"]),
        ({"batch": 2, "batch_d": 1}, ["matrices of D may overlap"]),
        ({"k": 600, "lda": 601, "b": memory.address + 4000, "d": memory.address + 9000, "workspace": memory.address + 9600,
          "workspace_bytes": 16}, ["the workspace has 16 bytes", "13200"]),
    ]
    problems = []
    for changes, said in table:
        arguments = gemm_of(library, memory)
        for name, value in changes.items():
            setattr(arguments, name, value)
        choice = grout_c.sized(grout_c.GemmChoice, tile_m=-7)
        code, message = library.said(lambda *to: library.run(ctypes.byref(arguments), None, ctypes.byref(choice), *to))
        if code != grout_c.INVALID or not all(text in message for text in said) or "\n" in message:
            problems.append(f"{changes}: {code} '{message}', not {said}")
        if memory.snapshot() != before or choice.tile_m != -7 or choice.kernel:
            problems.append(f"{changes}: something was written")
    cases.check(f"GEMM: {len(table)} refusals, one sentence each, nothing written", "\n".join(problems[:5]))

    good = gemm_of(library, memory)
    choice = grout_c.GemmChoice(size=8, tile_m=-7)
    code, message = library.said(lambda *to: library.run(ctypes.byref(good), None, ctypes.byref(choice), *to))
    problem = None
    if code != grout_c.INVALID or "grout_gemm_choice: size is 8" not in message or choice.tile_m != -7 or memory.snapshot() != before:
        problem = f"{code} '{message}'"
    cases.check("GEMM: a choice of another size is refused, nothing written", problem)
    code, message = library.said(lambda *to: library.run(None, None, None, *to))
    cases.check("GEMM: null arguments are refused", None if code == grout_c.INVALID and "is null" in message else f"{code} '{message}'")
    bad = gemm_of(library, memory, lda=1)
    code, message, count = library.workspace_bytes(bad)
    cases.check("GEMM: the workspace of a refused product", None if (code, count) == (grout_c.INVALID, 0) and "lda=1" in message
                else f"{code} {count} '{message}'")
    code, message = library.said(lambda *to: library.workspace(ctypes.byref(good), None, *to))
    cases.check("GEMM: nowhere to write the workspace's size", None if code == grout_c.INVALID and "null" in message
                else f"{code} '{message}'")


def check_messages(library):
    """The sentence is cut to fit, ends with NUL, and no byte behind its buffer changes."""
    memory = Memory("bf16", 256)
    bad = gemm_of(library, memory, lda=1)
    whole = library.gemm(bad)[1].encode()
    problems = []
    for size in (0, 1, 2, 10, len(whole), len(whole) + 1, len(whole) + 2):
        buffer = ctypes.create_string_buffer(b"\x55" * 512, 512)
        code = library.run(ctypes.byref(bad), None, None, buffer, size)
        kept = whole[:size - 1] + b"\0" if size else b""
        if code != grout_c.INVALID or buffer.raw != kept + b"\x55" * (512 - len(kept)):
            problems.append(f"{size} bytes: {code} {buffer.raw[:64]}")
    if library.run(ctypes.byref(bad), None, None, None, 100) != grout_c.INVALID:
        problems.append("a null message")
    buffer = ctypes.create_string_buffer(b"\x55" * 16, 16)
    if library.run(ctypes.byref(gemm_of(library, memory)), None, None, buffer, 16) != grout_c.OK or buffer.raw[:2] != b"\0\x55":
        problems.append(f"on success: {buffer.raw}")
    cases.check("messages are cut to fit", "; ".join(problems))


def check_threads(library):
    """Eight threads at once, each with its own product (ctypes lets go of the interpreter's lock)."""
    problems = []

    def work(seed):
        rng = random.Random(seed)
        for _ in range(3):
            problem, _ = gemm_case(library, rng, seed % 2 == 0, seed % 3 == 0, "bf16", "f32", (33, 34, 35), (1, 0, 2),
                                   (1, 2, 3), 1, 1, 1, False)
            if problem:
                problems.append(problem)
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cases.check("GEMM: eight threads at once", "; ".join(problems[:3]))


def check_nothing_is_thrown():
    """The simulated device throws on a schedule that it does not know; here that must be a code and a sentence."""
    program = f"""
import sys
sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})
import ctypes, grout_c
library = grout_c.Gemm({LIBRARIES["gemm"]!r})
memory = ctypes.create_string_buffer(4096)
base = ctypes.addressof(memory) // 256 * 256 + 256
g = library.arguments(m=3, n=4, k=5, a=base, b=base + 64, d=base + 128, lda=5, ldb=4, ldc=4)
for _ in range(2):
    print(*library.gemm(g)[:2])
"""
    done = subprocess.run([sys.executable, "-c", program], env={**os.environ, "GROUT_SIM_SCHEDULE": "sideways"}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    lines = done.stdout.splitlines()
    right = done.returncode == 0 and len(lines) == 2 and all(line.startswith("4 ") and "sideways" in line for line in lines)
    cases.check("an exception becomes a code and its sentence", None if right else f"{done.returncode}: {done.stdout[-500:]}")


# --- Attention ----------------------------------------------------------------------------------------------------------------

ATTENTION_SCALE = 32  # of integer products: what is not the greatest logit weighs e^-32 at most, so rows are means of rows of V


class Rows:
    """Q, K or V: small integers [sequence][row][head][element], in random strides, which may be negative."""

    def __init__(self, rng, kind, extents, odd, most):
        batch, rows, heads, dim = extents
        pitch = dim + (rng.choice((0, 1, 3)) if odd else -dim % 8)
        inner, outer = (heads, rows) if rng.random() < 0.5 else (rows, heads)  # which of the two axes is the nearer one
        strides = [inner * outer * pitch + (rng.choice((0, 5)) if odd else 0), pitch * (heads if inner == heads else 1),
                   pitch * (1 if inner == heads else rows)]
        if odd and rng.random() < 0.3:
            strides[rng.randrange(3)] *= -1
        self.stored = Strided(rng, kind, extents, (*strides, 1), rng.choice((0, 1, 3, 7)) if odd else 0)
        self.values = {}
        for place in itertools.product(*map(range, extents)):
            self.values[place] = rng.randint(-most, most)
            self.stored.memory.bits[self.stored.at(*place)] = round_to_bits(kind, self.values[place])
        self.strides = strides
        self.address = self.stored.address if all(extents) else None


def attention_row(query, keys, values):
    """(O, LSE) of one query in exact numbers: the mean of the rows of V under the greatest logit, and that logit."""
    if not keys:
        return None, -math.inf
    logits = [sum(x * y for x, y in zip(query, key)) for key in keys]
    chosen = [value for logit, value in zip(logits, values) if logit == max(logits)]
    return [sum(column) / len(chosen) for column in zip(*chosen)], ATTENTION_SCALE * max(logits) + math.log(len(chosen))


def attention_case(library, rng, kind, causal, lengths, heads, kv_heads, dim, odd, packed, wants_lse, splits, workspace):
    """Runs one attention of sequences of (queries, keys) each; packed one behind the other, or all of one length. (problem or
    None, path)."""
    sequences = len(lengths)
    total_q, total_k = (sum(x[i] for x in lengths) for i in (0, 1)) if packed else lengths[0]
    batch = 1 if packed else sequences
    q, k, v = (Rows(rng, kind, (batch, rows, count, dim), odd, most) for rows, count, most in
               ((total_q, heads, 1), (total_k, kv_heads, 1), (total_k, kv_heads, 8)))
    pitch = dim + (rng.choice((0, 1, 3)) if odd else -dim % 8)
    o_stride = (total_q * heads * pitch + 8 * odd, heads * pitch, pitch)
    o = Memory(kind, max(1, batch * o_stride[0]), rng.choice((0, 1, 3)) if odd else 0)
    lse = Memory("f32", max(1, batch * heads * total_q))
    longest_q, longest_k = (max(x[i] for x in lengths) for i in (0, 1))
    starts = [[sum(x[i] for x in lengths[:b]) for b in range(sequences + 1)] for i in (0, 1)]
    offsets = [(ctypes.c_int32 * (sequences + 1))(*x) for x in starts]
    a = library.arguments(type=TYPES[kind], causal=int(causal), splits=splits, scale=ATTENTION_SCALE, batch=sequences, heads=heads,
                          kv_heads=kv_heads, q_length=longest_q, kv_length=longest_k, dim=dim, q=q.address, k=k.address,
                          v=v.address, o=o.address, lse=lse.address if wants_lse else None, q_stride=q.strides, k_stride=k.strides,
                          v_stride=v.strides, o_stride=o_stride)
    if packed:
        a.q_offsets, a.kv_offsets, a.q_rows = ctypes.addressof(offsets[0]), ctypes.addressof(offsets[1]), total_q
    code, message, needed = library.workspace_bytes(a)
    if code != grout_c.OK:
        return f"grout_attention_workspace_bytes: {code} {message}", None
    space = Memory("f32", needed // 4 + 1)
    if workspace and needed:
        a.workspace, a.workspace_bytes = space.address, needed
    before = [x.memory.snapshot() for x in (q.stored, k.stored, v.stored)]
    o_before, lse_before, lse_elements = o.snapshot(), lse.snapshot(), {}
    values = {}  # of O
    for b, (queries, keys) in enumerate(lengths):
        stored, q0, k0 = (0, starts[0][b], starts[1][b]) if packed else (b, 0, 0)
        for h, i in itertools.product(range(heads), range(queries)):
            seen = max(0, min(keys, i + keys - queries + 1)) if causal else keys
            row = [q.values[stored, q0 + i, h, d] for d in range(dim)]
            of = [[[x.values[stored, k0 + j, h // (heads // kv_heads), d] for d in range(dim)] for j in range(seen)] for x in (k, v)]
            mean, sum_exp = attention_row(row, *of)
            for d in range(dim):
                index = stored * o_stride[0] + (q0 + i) * o_stride[1] + h * o_stride[2] + d
                values[index] = mean[d] if mean else 0.0
            lse_elements[h * total_q + q0 + i if packed else (b * heads + h) * total_q + i] = sum_exp
    code, message, choice = library.attention(a)
    if code != grout_c.OK or message:
        return f"{code} '{message}'", None
    problems = []
    # One number, where the mean is one of the type; where it is 0, what the other keys weigh is left. Parts of the keys are weighed
    # by differences of logits in fp32.
    parted, taken = choice.splits > 1, {}
    for index, value in values.items():
        slack = abs(value) * 2.0**-13 + (2.0**-11 if parted else 1e-10)
        least, most = (number_of(kind, round_to_bits(kind, value + sign * slack)) for sign in (-1, 1))
        if least <= number_of(kind, o.bits[index]) <= most:
            taken[index] = o.bits[index]
    if len(taken) != len(values):
        index = next(index for index in values if index not in taken)
        problems.append(f"{len(values) - len(taken)} elements of O are wrong, the first: {number_of(kind, o.bits[index])} at {index}, "
                        f"expected {values[index]}")
    else:
        problems.append(differing(o.with_elements(o_before, taken), o.snapshot()))
    lse_taken = {}
    for index, value in lse_elements.items() if wants_lse else ():
        got = struct.unpack("<f", struct.pack("<I", lse.bits[index]))[0]
        if got == value or abs(got - value) <= 2.0**-19 * (abs(value) + 1):
            lse_taken[index] = lse.bits[index]
        else:
            problems.append(f"LSE[{index}] is {got}, expected {value}")
    problems.append(differing(lse.with_elements(lse_before, lse_taken), lse.snapshot()) and "bytes around LSE changed, or it is wrong")
    problems += [differing(old, x.memory.snapshot()) and "an operand changed" for x, old in zip((q.stored, k.stored, v.stored), before)]
    got, empty = choice.as_text(), not lse_elements
    if got["path"] not in (("none",) if empty else ("aligned", "bounded", "realign")) or (got["kernel"] == "none") != empty or \
            (choice.blocks == 0) != empty or (choice.tile_q == 0) != empty or (splits and not empty and choice.splits != splits):
        problems.append(f"reported {got}, {choice.blocks} blocks, {choice.splits} splits, of {splits} asked for")
    if bytes(space.bits[-1:]) != b"\xff" * 4:
        problems.append("bytes behind the workspace changed")
    if not empty and (needed > 0) != (choice.splits > 1):
        problems.append(f"{needed} bytes of workspace for {choice.splits} splits")
    return "; ".join(p for p in problems if p) or None, got["path"]


def check_attention(library):
    rng = random.Random(5)
    problems, paths, count = [], set(), 0
    shapes = [([(17, 33)], 4, 2, 9), ([(5, 70), (5, 70)], 3, 1, 24), ([(1, 130)], 4, 4, 64), ([(9, 4)], 2, 1, 17), ([(3, 0)], 2, 2, 8),
              ([(0, 3)], 2, 2, 8), ([(64, 64)], 1, 1, 32), ([(2, 3)], 1, 1, 1), ([(3, 5)], 2, 1, 256), ([(16, 256)], 2, 2, 64)]
    packed_shapes = [([(7, 9), (0, 4), (5, 0), (33, 70), (1, 1)], 2, 1, 16), ([(1, 40), (1, 3)], 4, 2, 24), ([(0, 0)], 1, 1, 8)]
    for number, (kind, causal, odd, (shape, packed)) in enumerate(itertools.product(
            ("bf16", "f16"), (False, True), (False, True), [(x, False) for x in shapes] + [(x, True) for x in packed_shapes])):
        arguments = (kind, causal, *shape, odd, packed, number % 3 != 0, (0, 1, 2, 3)[number % 4], number % 5 < 3)
        problem, path = attention_case(library, rng, *arguments)
        count += 1
        paths.add(path)
        if problem:
            problems.append(f"{arguments}: {problem}")
    missing = {"none", "aligned", "bounded", "realign"} - paths
    if missing:
        problems.append(f"no case took {sorted(missing)}")
    cases.check(f"attention: {count} problems with exact answers, every mask, type and path", "\n".join(problems[:5]))


def check_attention_refusals(library):
    memory = Memory("bf16", 8192)
    before, size = memory.snapshot(), ctypes.sizeof(grout_c.AttentionArguments)
    table = [
        ({"size": size - 8}, [f"size is {size - 8}", f"has {size} bytes"]),
        ({"type": grout_c.F32}, ["f32", "bf16 and f16"]),
        ({"type": 3}, ["type=3", "1 (f16)"]),
        ({"causal": 2}, ["causal=2", "1 (yes)"]),
        ({"kernel": 2}, ["kernel=2", "1 (mma)"]),
        ({"kernel": -1}, ["kernel=-1"]),
        ({"splits": 129}, ["splits=129", "128"]),
        ({"batch": -1}, ["batch=-1"]),
        ({"q_length": -1}, ["-1 queries"]),
        ({"kv_length": 2**31}, ["2147483648 keys"]),
        ({"heads": 3}, ["heads=3", "kv_heads=2"]),
        ({"kv_heads": 0}, ["kv_heads=0"]),
        ({"dim": 0}, ["dim=0", "1 to 256"]),
        ({"dim": 257}, ["dim=257"]),
        ({"scale": math.inf}, ["scale=inf"]),
        ({"q": None}, ["Q is null"]),
        ({"k": None}, ["K is null"]),
        ({"v": None}, ["V is null"]),
        ({"o": None}, ["O is null"]),
        ({"o": memory.address + 4097}, ["O is not aligned"]),
        ({"lse": memory.address + 6002}, ["LSE is not aligned"]),
        ({"o": memory.address}, ["O overlaps Q"]),
        ({"lse": memory.address + 4096}, ["LSE overlaps O"]),
        ({"o_head": 4}, ["rows of O may overlap"]),
        ({"q_row": 2**62}, ["62-bit"]),
        ({"q_offsets": memory.address}, ["one of the two is null"]),
        ({"splits": 2, "workspace": memory.address + 8192, "workspace_bytes": 4}, ["the workspace has 4 bytes"]),
    ]
    fields = dict(heads=4, kv_heads=2, q_length=5, kv_length=6, dim=8, q=memory.address, k=memory.address + 1024, v=memory.address + 2048,
                  o=memory.address + 4096, q_stride=(160, 32, 8), k_stride=(96, 16, 8), v_stride=(96, 16, 8), o_stride=(160, 32, 8))
    problems = []
    for changes, said in table:
        a = library.arguments(**fields)
        for name, value in changes.items():
            setattr(a, name, value)
        choice = grout_c.sized(grout_c.AttentionChoice, tile_q=-7)
        code, message = library.said(lambda *to: library.run(ctypes.byref(a), None, ctypes.byref(choice), *to))
        if code != grout_c.INVALID or not all(text in message for text in said) or "\n" in message:
            problems.append(f"{changes}: {code} '{message}', not {said}")
        if memory.snapshot() != before or choice.tile_q != -7 or choice.kernel:
            problems.append(f"{changes}: something was written")
    a, choice = library.arguments(**fields), grout_c.AttentionChoice(size=8, tile_q=-7)
    code, message = library.said(lambda *to: library.run(ctypes.byref(a), None, ctypes.byref(choice), *to))
    if code != grout_c.INVALID or "grout_attention_choice: size is 8" not in message or choice.tile_q != -7 or memory.snapshot() != before:
        problems.append(f"a choice of another size: {code} '{message}'")
    code, message = library.said(lambda *to: library.run(None, None, None, *to))
    if code != grout_c.INVALID or "is null" not in message:
        problems.append(f"null arguments: {code} '{message}'")
    code, message, needed = library.workspace_bytes(library.arguments(**{**fields, "dim": 300}))
    if (code, needed) != (grout_c.INVALID, 0) or "dim=300" not in message:
        problems.append(f"the workspace of a refused problem: {code} {needed} '{message}'")
    code, message = library.said(lambda *to: library.workspace(ctypes.byref(a), None, *to))
    if code != grout_c.INVALID or "null" not in message:
        problems.append(f"nowhere to write the workspace's size: {code} '{message}'")
    cases.check(f"attention: {len(table) + 4} refusals, one sentence each, nothing written", "\n".join(problems[:5]))


# --- Crop and repack -------------------------------------------------------------------------------------------------------

class Strided:
    """Random bits of a matrix of any strides; `at` gives the index of an element in its memory."""

    def __init__(self, rng, kind, extents, strides, offset=0):
        self.extents, self.strides = extents, strides
        reach = [(extent - 1) * stride if all(extents) else 0 for extent, stride in zip(extents, strides)]
        self.first = -sum(min(0, r) for r in reach)
        self.memory = Memory(kind, self.first + sum(max(0, r) for r in reach) + 1, offset)
        self.address = self.memory.address + self.first * self.memory.size
        for place in itertools.product(*map(range, extents)):
            self.memory.bits[self.at(*place)] = rng.getrandbits(8 * self.memory.size)

    def at(self, *place):
        return self.first + sum(i * s for i, s in zip(place, self.strides))


def crop_case(library, rng, kernel, kind, extents, strides, origin, rectangle, extra, offset, path):
    source = Strided(rng, kind, extents, strides, offset)
    transposes = kernel == "swizzle"
    down, across = rectangle[::-1] if transposes else rectangle
    ld = across + extra
    to = Memory(kind, max(1, down * ld), offset)
    before, source_before = to.snapshot(), source.memory.snapshot()
    elements = {}
    for r, c in itertools.product(*map(range, rectangle)):
        row, col = r + origin[0], c + origin[1]
        inside = 0 <= row < extents[0] and 0 <= col < extents[1]
        elements[c * ld + r if transposes else r * ld + c] = source.memory.bits[source.at(row, col)] if inside else 0
    g = library.arguments(kernel, type=TYPES[kind], source=source.address, source_rows=extents[0], source_cols=extents[1],
                          row_stride=strides[0], col_stride=strides[1], origin_row=origin[0], origin_col=origin[1],
                          destination=to.address, rows=rectangle[0], cols=rectangle[1], ld=ld)
    code, message, got = library.crop(g)
    if code != grout_c.OK or message:
        return f"{code} '{message}'"
    if got != path:
        return f"path {got}, expected {path}"
    return differing(to.with_elements(before, elements), to.snapshot()) or \
        ("the source changed" if source.memory.snapshot() != source_before else None)


def check_crop(library):
    rng = random.Random(2)
    problems, count = [], 0
    for kernel, kind in itertools.product(grout_c.CROP_KERNELS, TYPES):
        tensor = kernel not in ("bounded", "stream")
        if tensor:  # what the copy engine can read: aligned rows; any start row, start columns of whole vectors
            matrices = [((65, 40), (40, 1)), ((9, 72), (80, 1))]
            origins = [(0, 0), (-3, 8), (60, -16), (5, 64), (-70, 0)]
            extras, offsets = ((0, 8) if kernel == "store" else (0, 3)), (0,)
        else:
            matrices = [((37, 41), (43, 1)), ((19, 70), (-75, 1)), ((23, 11), (3, 70)), ((9, 8), (40, -5))]
            origins = [(0, 0), (-3, -5), (30, 7), (-40, 2), (12, 60)]
            extras, offsets = (0, 3), (0, 1)
        for (extents, strides), origin in itertools.product(matrices, origins):
            rectangle = rng.choice(((40, 64), (8, 16), (72, 80))) if kernel == "store" else rng.choice(((40, 31), (3, 7), (70, 66)))
            path = "tensor" if tensor else "stream" if kernel == "stream" and strides[1] == 1 else "bounded"
            arguments = (kernel, kind, extents, strides, origin, rectangle, rng.choice(extras), rng.choice(offsets), path)
            problem = crop_case(library, rng, *arguments)
            count += 1
            if problem:
                problems.append(f"{arguments}: {problem}")
    for kernel in grout_c.CROP_KERNELS:  # nothing to read, nothing to write
        for extents, rectangle in (((0, 5), (3, 4)), ((5, 0), (4, 4)), ((5, 8), (0, 4)), ((5, 8), (4, 0))):
            path = "stream" if kernel == "stream" and all(rectangle) else "bounded"
            problem = crop_case(library, rng, kernel, "f32", extents, (8, 1), (0, 0), rectangle, 0, 0, path)
            count += 1
            if problem:
                problems.append(f"{kernel} {extents} to {rectangle}: {problem}")
    cases.check(f"crop: {count} rectangles, every kernel and type", "\n".join(problems[:5]))


def check_crop_refusals(library):
    rng = random.Random(3)
    source, to = Strided(rng, "bf16", (8, 16), (16, 1)), Memory("bf16", 256)
    size = ctypes.sizeof(grout_c.CropArguments)
    table = [
        ({"size": size + 4}, [f"size is {size + 4}", f"has {size} bytes"]),
        ({"kernel": 7}, ["kernel=7", "6 (swizzle)"]),
        ({"type": 3}, ["type=3"]),
        ({"reserved": 1}, ["reserved is 1"]),
        ({"rows": -1}, ["at least 0"]),
        ({"ld": 3}, ["pitch 3"]),
        ({"source": None}, ["the source is null"]),
        ({"destination": None}, ["the destination is null"]),
        ({"destination": to.address + 1}, ["not aligned"]),
        ({"destination": source.address}, ["overlap"]),
        ({"row_stride": 2**62}, ["62-bit"]),
        ({"origin_row": 2**63 - 1}, ["origin", "exceeds"]),
        ({"kernel": 2, "origin_col": 3}, ["copy_load cannot read", "column 3"]),
    ]
    before, problems = to.snapshot(), []
    for changes, said in table:
        g = library.arguments("bounded", type=grout_c.BF16, source=source.address, source_rows=8, source_cols=16, row_stride=16,
                              destination=to.address, rows=4, cols=4, ld=4)
        for name, value in changes.items():
            setattr(g, name, value)
        path = ctypes.c_int32(-7)
        code, message = library.said(lambda *to: library.run_crop(ctypes.byref(g), None, ctypes.byref(path), *to))
        if code != grout_c.INVALID or not all(text in message for text in said) or to.snapshot() != before or path.value != -7:
            problems.append(f"{changes}: {code} '{message}', not {said}, or something was written")
    cases.check(f"crop: {len(table)} refusals, one sentence each, nothing written", "\n".join(problems[:5]))


def check_repack(library):
    rng = random.Random(4)
    problems, count = [], 0
    modes = {"rows": lambda r, c: (c + 3, 1), "transposed": lambda r, c: (1, r + 1), "elements": lambda r, c: (2 * c + 5, 2),
             "elements_transposed": lambda r, c: (-3, 3 * r + 2)}
    for kind, (first, second), batch in itertools.product(TYPES, itertools.product(modes, (None, *modes)), (1, 2)):
        operands, sources, checks = [], [], []  # sources: kept alive
        for mode in (first, second) if second else (first,):
            rows, cols = rng.choice(((17, 23), (70, 9), (5, 130), (1, 1)))
            strides = (3 * rows * cols * 5, *modes[mode](rows, cols))
            source = Strided(rng, kind, (batch, rows, cols), strides, rng.choice((0, 1, 3)))
            sources.append(source)
            vector = 16 // BYTES[kind]
            ld = (cols + vector - 1) // vector * vector + rng.choice((0, vector))
            matrix = rows * ld + rng.choice((0, 2 * vector))
            to = Memory(kind, batch * matrix)
            operands.append(library.operand(source=source.address, rows=rows, cols=cols, row_stride=strides[1],
                                            col_stride=strides[2], copy=to.address, ld=ld, batch=batch,
                                            source_batch_stride=strides[0], copy_batch_stride=matrix))
            elements = {b * matrix + r * ld + c: source.memory.bits[source.at(b, r, c)] if c < cols else 0
                        for b, r, c in itertools.product(range(batch), range(rows), range(ld))}
            checks.append((to, to.with_elements(to.snapshot(), elements)))
        code, message = library.repack(operands, TYPES[kind], programmatic=count % 2 == 1)
        count += 1
        wrong = [differing(expected, to.snapshot()) for to, expected in checks]
        if code != grout_c.OK or message or any(wrong):
            problems.append(f"{kind} {first} {second} batch {batch}: {code} '{message}' {wrong}")
    cases.check(f"repack: {count} launches of one or two operands, every mode and type", "\n".join(problems[:5]))

    source, to = Strided(rng, "bf16", (8, 16), (16, 1)), Memory("bf16", 256)
    size, before, problems = ctypes.sizeof(grout_c.RepackOperand), to.snapshot(), []
    table = [  # (changes of the operand, count, type, programmatic, what the sentence holds)
        ({"size": size - 8}, 1, 0, 0, [f"size is {size - 8}"]),
        ({"reserved": 5}, 1, 0, 0, ["reserved is 5"]),
        ({}, 0, 0, 0, ["1 or 2 operands, not 0"]),
        ({}, 3, 0, 0, ["not 3"]),
        ({}, 2**32 - 1, 0, 0, ["not 4294967295"]),
        ({}, 1, 9, 0, ["type=9"]),
        ({}, 1, 0, 2, ["programmatic=2"]),
        ({"ld": 17}, 1, 0, 0, ["multiple of 8"]),
        ({"copy": to.address + 2}, 1, 0, 0, ["multiple of 16 bytes"]),
        ({"copy": None}, 1, 0, 0, ["the copy is null"]),
        ({"source": to.address}, 1, 0, 0, ["overlaps"]),
        ({"rows": -1}, 1, 0, 0, ["at least 0"]),
    ]
    for changes, number, kind, programmatic, said in table:
        operand = library.operand(source=source.address, rows=8, cols=16, row_stride=16, copy=to.address, ld=16)
        for name, value in changes.items():
            setattr(operand, name, value)
        code, message = library.said(lambda *end: library.run_repack(ctypes.byref(operand), number, kind, programmatic, None, *end))
        if code != grout_c.INVALID or not all(text in message for text in said) or to.snapshot() != before:
            problems.append(f"{changes} {number} {kind} {programmatic}: {code} '{message}', not {said}, or something was written")
    code, message = library.said(lambda *end: library.run_repack(None, 1, 0, 0, None, *end))
    if code != grout_c.INVALID or "grout_repack_operand is null" not in message:
        problems.append(f"null operands: {code} '{message}'")
    cases.check(f"repack: {len(table) + 1} refusals, one sentence each, nothing written", "\n".join(problems[:5]))


# --- Headers and exports -------------------------------------------------------------------------------------------------------

CONSTANTS = {"GROUT_C_VERSION": grout_c.VERSION, "GROUT_OK": grout_c.OK, "GROUT_INVALID": grout_c.INVALID,
             "GROUT_UNSUPPORTED": grout_c.UNSUPPORTED, "GROUT_DEVICE_ERROR": grout_c.DEVICE_ERROR, "GROUT_BF16": grout_c.BF16,
             "GROUT_F16": grout_c.F16, "GROUT_F32": grout_c.F32, "GROUT_BOUNDS_AUTO": grout_c.BOUNDS_AUTO,
             "GROUT_BOUNDS_CHECKED": grout_c.BOUNDS_CHECKED, "GROUT_BOUNDS_NONE": grout_c.BOUNDS_NONE,
             **{f"GROUT_ATTENTION_{name.upper()}": i for i, name in enumerate(grout_c.ATTENTION_KERNELS)},
             **{f"GROUT_CROP_{name.upper()}": i for i, name in enumerate(grout_c.CROP_KERNELS)},
             **{f"GROUT_CROP_PATH_{name.upper()}": i for i, name in enumerate(grout_c.CROP_PATHS)}}
PROGRAM = """#include <stdio.h>
#include "attention/attention_c.h"
#include "copy/copy_c.h"
#include "gemm/gemm_c.h"
int main(void) {
  char message[200];
  float a[6] = {0}, d[4] = {7, 7, 7, 7};
  unsigned short half[6] = {0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0}; /* 1 .. 6 */
  grout_gemm_choice choice;
  grout_gemm_arguments g = grout_gemm_defaults();
  grout_attention_arguments attention = grout_attention_defaults();
  grout_crop_arguments crop = {sizeof crop, GROUT_CROP_BOUNDED, GROUT_F32, 0, a, 2, 3, 3, 1, 0, 0, d, 1, 1, 1};
  (void)crop, (void)attention;
  choice.size = sizeof choice;
  g.m = 2, g.n = 2, g.k = 3, g.out = GROUT_F32, g.a = half, g.b = half, g.d = d, g.lda = 3, g.ldb = 2, g.ldc = 2;
%s
  printf("run %%d", (int)grout_gemm(&g, 0, &choice, message, sizeof message));
  printf(" %%s %%g %%g %%g %%g\\n", message, d[0], d[1], d[2], d[3]);
  printf("device %%s version %%u\\n", grout_device(), (unsigned)grout_version());
  return 0;
}
"""


def check_headers():
    prints, expected = [], []
    for name, mirror in grout_c.STRUCTS.items():
        prints.append(f'  printf("{name} %u\\n", (unsigned)sizeof({name}));')
        expected.append(f"{name} {ctypes.sizeof(mirror)}")
        for field, _ in mirror._fields_:
            place = getattr(mirror, field)
            prints.append(f'  printf("{name}.{field} %u %u\\n", (unsigned)offsetof({name}, {field}),'
                          f' (unsigned)sizeof((({name}*)0)->{field}));')
            expected.append(f"{name}.{field} {place.offset} {place.size}")
    for name, value in CONSTANTS.items():
        prints.append(f'  printf("{name} %d\\n", (int){name});')
        expected.append(f"{name} {value}")
    expected += ["run 0  22 28 49 64", "device sim version 1"]
    folder = tempfile.mkdtemp()
    source = os.path.join(folder, "program.c")
    with open(source, "w", encoding="utf-8") as file:
        file.write(PROGRAM % "\n".join(prints))
    c_compiler = shutil.which("gcc") or shutil.which("cc")
    for name, command in (("C99", c_compiler and [c_compiler, "-std=c99", "-pedantic"]),
                          ("C++11", [compiler, "-std=c++11", "-x", "c++"]), ("C++20", [compiler, "-std=c++20", "-x", "c++"])):
        if not command:
            cases.skip(f"the headers are {name}", "there is no C compiler (gcc or cc)")
            continue
        program = os.path.join(folder, "program" + name)
        done = subprocess.run([*command, "-Wall", "-Wextra", "-Werror", f"-I{root}", source, "-x", "none", "-o", program,
                               LIBRARIES["gemm"], f"-Wl,-rpath,{os.path.dirname(os.path.abspath(LIBRARIES['gemm']))}"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        output = done.stdout
        if done.returncode == 0:
            output = subprocess.run([program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
        different = [f"'{x}' for '{y}'" for x, y in itertools.zip_longest(output.splitlines(), expected) if x != y]
        cases.check(f"a {name} program compiles, links, multiplies, and sees the structs of grout_c.py", "; ".join(different[:5]))
    shutil.rmtree(folder)


def check_exports(directory, path):
    nm = shutil.which("nm")
    if not nm:
        cases.skip(f"exports of {os.path.basename(path)}", "there is no nm (binutils)")
        return
    declared = set()
    for header in ("common/c_abi.h", f"{directory}/{directory}_c.h"):
        with open(os.path.join(root, header), encoding="utf-8") as file:
            declared |= set(re.findall(r"^GROUT_C [^;(]*?(\w+)\(", file.read(), re.M))
    output = subprocess.run([nm, "-D", "--defined-only", path], stdout=subprocess.PIPE, text=True).stdout
    exported = {line.split()[-1] for line in output.splitlines()}
    cases.check(f"exports of {os.path.basename(path)}: {len(declared)} functions", None if exported == declared and declared else
                f"exported but not declared: {sorted(exported - declared)[:5]}; declared but not exported: "
                f"{sorted(declared - exported)}")


def check_plain_name(directory, kind):
    """The library without _sim in its name: for the GPU, or a copy of the simulated one."""
    path = LIBRARIES[directory].replace("_sim.so", ".so")
    if not os.path.exists(path):
        cases.check(f"{path} exists", "it was not built")
        return
    library = kind(path)
    code, message = library.usable()
    right = code == grout_c.OK and not message or library.device == "gpu" and code == grout_c.UNSUPPORTED and "no usable GPU" in message
    cases.check(f"{os.path.basename(path)} is for the {library.device} and says whether that is here",
                None if right else f"{code} '{message}'")
    check_exports(directory, path)


check_headers()
for directory, path in LIBRARIES.items():
    check_exports(directory, path)
for directory, kind in (("gemm", grout_c.Gemm), ("attention", grout_c.Attention), ("copy", grout_c.Copy)):
    check_plain_name(directory, kind)
gemm, attention, copy = grout_c.Gemm(LIBRARIES["gemm"]), grout_c.Attention(LIBRARIES["attention"]), grout_c.Copy(LIBRARIES["copy"])
check_gemm(gemm)
check_gemm_refusals(gemm)
check_messages(gemm)
check_threads(gemm)
check_nothing_is_thrown()
check_attention(attention)
check_attention_refusals(attention)
check_crop(copy)
check_crop_refusals(copy)
check_repack(copy)
cases.finish()
