"""torch_peers.py BUILD [--suite SUITE] [--only TEXT...] [--cold] [--quick] [--json FILE] [--device gpu|sim]: crop, GEMM and attention
of the libraries in a build folder (libgrout_copy.so, libgrout_gemm.so, libgrout_attention.so) paired with PyTorch's strided copy,
torch.mm and scaled_dot_product_attention, in one process on the same buffers.

Every output is poisoned with NaN and compared in full before anything is timed and after each round, copies bit for bit, products
and attention within what fp32 accumulation and the rounding of weights may lose; a wrong one ends the run without a figure for its
case. A peer that refuses a case, or is wrong from the first, is named in its record, with what was said. A round visits every policy once, forth and back in
turn; a visit is nine batches of 40 ms, its figure their median; a policy's figure is the median of its rounds, a ratio the median
of the rounds' ratios, with its range. Runs of less than 20 us are timed as CUDA graphs of 20.

Exit codes: 0; 1 wrong output or an error; 77 not possible here (no PyTorch, no GPU, libraries not built), with the reason.
--device sim pairs the simulated libraries with PyTorch on the CPU: that checks this program, its times mean nothing."""
import argparse
import ctypes
import json
import math
import os
import random
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass, field
from typing import Callable

sys.path.insert(0, os.path.dirname(__file__))
import grout_c


# --- Statistics and order: no PyTorch, no clock ------------------------------------------------------------------------------

@dataclass(frozen=True)
class Protocol:
    name: str = "headline"
    rounds: int = 4
    batches: int = 9
    batch_ms: float = 40
    warm_up_ms: float = 200
    cold: bool = False


HEADLINE = Protocol()
SWEEP = Protocol("sweep", 3, 1, 5, 10)
GRAPH_BELOW_US, GRAPH_RUNS = 20, 20
MOST_RUNS = 4096  # of a batch


def median(values):
    values = sorted(values)
    half = len(values) // 2
    return values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2


def paired_ratio(base, candidate):
    """How much faster the candidate is: median, least and greatest of base / candidate, round by round."""
    if len(base) != len(candidate) or not base:
        raise ValueError(f"paired_ratio: {len(base)} and {len(candidate)} rounds: equal, non-zero counts are needed")
    ratios = [x / y for x, y in zip(base, candidate)]
    return median(ratios), min(ratios), max(ratios)


def visit_order(number, policies):
    """The policies of round `number`: A B, then B A, and so on."""
    return list(policies) if number % 2 == 0 else list(reversed(policies))


def batch_count(us, ms):
    """Runs of `us` microseconds that fill a batch of `ms` milliseconds."""
    return int(min(max(ms * 1e3 / max(us, 1e-3), 1), MOST_RUNS))


def accumulation_error(k, magnitude):
    """How far the fp32 value of an element may be from the exact one, as in common/check.cuh; magnitude: sum |a*b|, a number or a
    tensor."""
    steps = (k + 7) // 8
    return magnitude * (steps * (9 * 2.0**-24 + 2.0**-23) + 3 * 2.0**-24 + k * 2.0**-52) + (k + 3) * 2.0**-126


# How far attention may be from the exact one, as in common/attention_reference.cuh: numbers, or tensors of fp64.

def attention_weight_error(scale, accumulation, below_most, most, keys):
    exponent = abs(scale) * accumulation + below_most * 2.0**-22 + abs(most) * 2.0**-22 + ((keys + 15) // 16 + 5) * 2.0**-22
    return math.expm1(exponent) if isinstance(exponent, float) else exponent.expm1_()


def attention_weight_rounding(kind, weight):
    share, least = (2.0**-11, 2.0**-17) if kind == "f16" else (2.0**-8, 2.0**-118)
    return max(weight * share, min(weight, least)) if isinstance(weight, float) else (weight * share).maximum(weight.clamp(max=least))


def attention_output_slack(keys, value, weight, moved, rounded, magnitude):
    blocks, rest = (keys + 15) // 16, 1 - weight
    weights = (moved + rounded) / rest
    summands = (magnitude * (1 + weight) + moved + rounded) / rest
    total = accumulation_error(keys, summands) + blocks * 2.0**-23 * summands + keys * 2.0**-116
    return weights + total + (abs(value) + weights + total) * ((keys + blocks) * 2.0**-24 + 2.0**-21)


def attention_lse_slack(keys, weight, most, lse):
    lost = -math.log1p(-weight) if isinstance(weight, float) else -(-weight).log1p()
    return lost + (keys + (keys + 15) // 16) * 2.0**-24 + 2.0**-21 + (abs(most) + abs(lse)) * 2.0**-22


class Wrong(Exception):
    """An output that is not what it must be."""


@dataclass
class Policy:
    name: str
    role: str  # "policy": ours; "peer"
    requested: dict
    run: Callable[[], None]       # enqueues one run
    poison: Callable[[], None]    # of all that a run writes, and what lies around it
    check: Callable[[], str]      # what is wrong with the output; empty: nothing
    realised: dict = field(default_factory=dict)
    refused: str = ""             # of a peer: why it does not run; it is recorded, and is no failure


def compare(case, policies, protocol, clock):
    """Times the policies of one case; fills and returns its record. With a wrong output no policy has a figure, and the failure
    says whose it was."""
    records = {p.name: {"name": p.name, "role": p.role, "requested": p.requested, "realised": p.realised, "validated": 0,
                        "graph": 0, "round_us": [], "round_wall_us": [], "failure": ""} for p in policies}
    case = {**case, "mode": "cold" if protocol.cold else "warm", "protocol": protocol.name, "policies": list(records.values())}
    for p in policies:
        if p.refused:
            records[p.name]["refused"] = p.refused
    policies = [p for p in policies if not p.refused]
    run = {p.name: p.run for p in policies}

    def validate(policy):
        policy.poison()
        run[policy.name]()
        problem = policy.check()
        if problem:
            raise Wrong(f"{policy.name}: {problem}")
        records[policy.name]["validated"] += 1

    def repeats(policy):
        return max(1, records[policy.name]["graph"])

    def warmed(policy):
        """Microseconds of a run, after warming up for as long as the protocol says: the least seen, whatever disturbed others."""
        seen, spent = [clock.batch(run[policy.name], 1, protocol.cold)[0]], 0
        while spent < protocol.warm_up_ms:
            count = batch_count(min(seen), min(protocol.batch_ms, protocol.warm_up_ms))
            seen.append(clock.batch(run[policy.name], count, protocol.cold)[0])
            spent += seen[-1] * count * 1e-3 + 1e-2
        return min(seen) / repeats(policy)

    policy = None
    try:
        counts = {}
        for policy in policies:
            validate(policy)
        for policy in policies:
            us = warmed(policy)
            if clock.graphs and not protocol.cold and us < GRAPH_BELOW_US:
                run[policy.name] = clock.captured(policy.run, GRAPH_RUNS)
                records[policy.name]["graph"] = GRAPH_RUNS
                validate(policy)
                us = warmed(policy)
            counts[policy.name] = batch_count(us * repeats(policy), protocol.batch_ms)
        for number in range(protocol.rounds):
            for policy in visit_order(number, policies):
                run[policy.name]()  # after the comparisons, untimed
                visits = [clock.batch(run[policy.name], counts[policy.name], protocol.cold) for _ in range(protocol.batches)]
                for key, which in (("round_us", 0), ("round_wall_us", 1)):
                    records[policy.name][key].append(median([visit[which] for visit in visits]) / repeats(policy))
            for policy in policies:
                validate(policy)
    except Wrong as wrong:
        for record in records.values():
            record["round_us"], record["round_wall_us"] = [], []
        records[policy.name]["failure"] = str(wrong)
    return case


def failure_of(case):
    return next((p["failure"] for p in case["policies"] if p["failure"]), "")


def lines_of(case):
    """A case for people: a line for each policy; ours with its ratio to each peer."""
    peers = [p for p in case["policies"] if p["role"] == "peer" and p["round_us"]]
    lines = []
    for p in case["policies"]:
        if p.get("refused"):
            lines.append(f"{case['suite']} {case['name']}  {p['name']}: refused: {p['refused']}")
            continue
        if not p["round_us"]:
            lines.append(f"{case['suite']} {case['name']}  {p['name']}: no figure{': ' + p['failure'] if p['failure'] else ''}")
            continue
        us = median(p["round_us"])
        rate = f"{case['flops'] / us * 1e-6:.1f} TFLOP/s" if case["flops"] else f"{case['bytes'] / us * 1e-3:.0f} GB/s"
        line = f"{case['suite']} {case['name']}  {p['name']}: {us:.2f} us (wall {median(p['round_wall_us']):.2f})  {rate}"
        for peer in peers if p["role"] == "policy" else ():
            ratio, low, high = paired_ratio(peer["round_us"], p["round_us"])
            line += f"  {ratio:.3f}x [{low:.3f}, {high:.3f}] of {peer['name']}"
        line += f"  L2 {case['mode']}, {case['protocol']}, {len(p['round_us'])} rounds"
        if p["graph"]:
            line += f", graphs of {p['graph']}"
        if p["realised"].get("path"):
            line += f", path {p['realised']['path']}"
        lines.append(line)
    return lines


# --- Clocks -------------------------------------------------------------------------------------------------------------------

class GpuClock:
    """Device time by events, wall time by the host's clock; microseconds of one call."""
    graphs = True

    def __init__(self, torch):
        self.torch = torch
        self.flush = None

    def flush_l2(self):
        if self.flush is None:  # twice its size, as L2 keeps what it thinks is hot
            size = 2 * self.torch.cuda.get_device_properties(0).L2_cache_size
            self.flush = self.torch.empty(size, dtype=self.torch.uint8, device="cuda")
        self.flush.zero_()

    def event(self):
        return self.torch.cuda.Event(enable_timing=True)

    def between(self, call, flush):
        """Events around call()."""
        start, end = self.event(), self.event()
        if flush:
            self.flush_l2()
        start.record()
        call()
        end.record()
        return start, end

    def batch(self, run, count, cold):
        synchronize = self.torch.cuda.synchronize

        def all_of_them():
            for _ in range(count):
                run()
        synchronize()
        begin = time.perf_counter()
        if not cold:
            pairs = [self.between(all_of_them, False)]
            synchronize()
            wall = (time.perf_counter() - begin) * 1e6 / count
        else:
            pairs = [self.between(run, True) for _ in range(count)]
            synchronize()
            self.flush_l2()
            synchronize()
            begin = time.perf_counter()  # one call from its start to its completion
            run()
            synchronize()
            wall = (time.perf_counter() - begin) * 1e6
        return sum(start.elapsed_time(end) for start, end in pairs) * 1e3 / count, wall

    def captured(self, run, repeats):
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph):
            for _ in range(repeats):
                run()
        return graph.replay


class HostClock:
    graphs = False

    def batch(self, run, count, cold):
        begin = time.perf_counter()
        for _ in range(count):
            run()
        us = (time.perf_counter() - begin) * 1e6 / count
        return us, us


# --- Cases ----------------------------------------------------------------------------------------------------------------------

class Machine:
    """PyTorch, the libraries of the suites and a clock, of one device."""
    KINDS = {"copy": grout_c.Copy, "gemm": grout_c.Gemm, "attention": grout_c.Attention}

    def __init__(self, torch, build, device, suites):
        end = "_sim.so" if device == "sim" else ".so"
        self.torch, self.device = torch, "cpu" if device == "sim" else "cuda"
        self.libraries = [self.KINDS[suite](os.path.abspath(f"{build}/{suite}/libgrout_{suite}{end}")) for suite in suites]
        for suite, library in zip(suites, self.libraries):
            setattr(self, suite, library)
        self.stream = (lambda: None) if device == "sim" else (lambda: torch.cuda.current_stream().cuda_stream)
        self.clock = HostClock() if device == "sim" else GpuClock(torch)

    def bound(self, function, before, after):
        """A run: function(*before, stream, *after, message, bytes), which must succeed."""
        message = ctypes.create_string_buffer(1024)

        def run():
            if function(*before, self.stream(), *after, message, len(message)) != grout_c.OK:
                raise RuntimeError(message.value.decode())
        return run


GUARD = 256  # elements before and behind an output, which no run may touch
ELEMENTS = {"bf16": grout_c.BF16, "f32": grout_c.F32}


class Output:
    """rows x cols in `pitch`, between guards. `bits` is all of it as integers, `matrix` the output as numbers."""

    def __init__(self, torch, kind, device, rows, cols, pitch):
        self.bits = torch.empty(rows * pitch + 2 * GUARD, dtype=torch.int32 if kind == torch.float32 else torch.int16, device=device)
        self.inner = self.bits[GUARD:GUARD + rows * pitch].view(rows, pitch)[:, :cols]
        self.matrix = self.bits.view(kind)[GUARD:GUARD + rows * pitch].view(rows, pitch)[:, :cols]

    def poison(self):
        self.bits.fill_(-1)  # NaN in every type


def crop_name(kind, source_rows, source_cols, rows, cols, row, col, *_):
    return f"{rows}x{cols} at {row},{col} of {source_rows}x{source_cols} {kind}"


def crop_case(machine, kind, source_rows, source_cols, rows, cols, row, col, out_pitch=None):
    """A rectangle at (row, col) of a compact matrix: the streaming crop, and dst.copy_(src[...])."""
    torch, out_pitch = machine.torch, out_pitch or cols
    element = {"bf16": torch.bfloat16, "f32": torch.float32}[kind]
    integer = torch.int32 if kind == "f32" else torch.int16
    torch.manual_seed(1)
    limits = torch.iinfo(integer)
    on_host = torch.randint(limits.min, limits.max, (source_rows, source_cols), dtype=integer)
    bits = on_host.to(machine.device)
    source, output = bits.view(element), Output(torch, element, machine.device, rows, cols, out_pitch)
    expected = Output(torch, element, "cpu", rows, cols, out_pitch)
    expected.poison()
    expected.inner.copy_(on_host[row:row + rows, col:col + cols])
    expected = expected.bits.to(machine.device)

    def check():
        wrong = int((output.bits != expected).sum())
        return f"{wrong} of {output.bits.numel()} elements of the output and around it are wrong" if wrong else ""

    g = machine.copy.arguments("stream", type=ELEMENTS[kind], source=bits.data_ptr(), source_rows=source_rows, source_cols=source_cols,
                               row_stride=source_cols, origin_row=row, origin_col=col, destination=output.matrix.data_ptr(), rows=rows,
                               cols=cols, ld=out_pitch)
    code, message, path = machine.copy.crop(g, machine.stream())
    if code != grout_c.OK:
        raise RuntimeError(message)
    case = {"suite": "copy", "name": crop_name(kind, source_rows, source_cols, rows, cols, row, col), "flops": 0,
            "bytes": 2 * rows * cols * bits.element_size()}
    ours = machine.bound(machine.copy.run_crop, [ctypes.byref(g)], [None])
    rectangle = source[row:row + rows, col:col + cols]
    return case, [Policy("grout", "policy", {"kernel": "stream"}, ours, output.poison, check, {"kernel": "stream", "path": path}),
                  Policy("torch", "peer", {"call": "dst.copy_(src[r:r+R, c:c+C])"}, lambda: output.matrix.copy_(rectangle),
                         output.poison, check, {"torch": torch.__version__})]


def gemm_limits(torch, a, b):
    """The least and the greatest right value of every element of A * B: the roundings of the exact one less and plus what
    accumulation may lose (common/check.cuh). The fp64 reference is itself sampled against exact sums."""
    (m, k), n = a.shape, b.shape[1]
    low = torch.empty(m, n, dtype=a.dtype, device=a.device)
    high = torch.empty_like(low)
    wide_b = b.double()
    absolute_b, rng = wide_b.abs(), random.Random(1)
    for first in range(0, m, 1024):
        rows = a[first:first + 1024].double()
        value, magnitude = rows @ wide_b, rows.abs() @ absolute_b
        for _ in range(4):
            i, j = rng.randrange(rows.shape[0]), rng.randrange(n)
            exact = math.fsum(x * y for x, y in zip(rows[i].tolist(), wide_b[:, j].tolist()))
            if not abs(exact - value[i, j].item()) <= k * 2.0**-52 * magnitude[i, j].item():
                raise Wrong(f"the fp64 reference: element {first + i},{j} is {value[i, j].item()}, and {exact} by exact addition")
        slack = accumulation_error(k, magnitude)
        low[first:first + 1024] = (value - slack).float().to(a.dtype)
        high[first:first + 1024] = (value + slack).float().to(a.dtype)
    return low, high


def gemm_name(layout, m, n, k):
    return f"{m}x{n}x{k} {layout} bf16"


def gemm_case(machine, layout, m, n, k):
    """D = A * B in bf16, compact rows: our automatic choice, and torch.mm(out=)."""
    torch, kind = machine.torch, machine.torch.bfloat16
    torch.manual_seed(1)

    def operand(rows, cols, transposed):
        stored = torch.empty(*((cols, rows) if transposed else (rows, cols)), dtype=kind, device=machine.device).uniform_(-1, 1)
        return stored.t() if transposed else stored
    a, b = operand(m, k, layout[0] == "t"), operand(k, n, layout[1] == "t")
    output = Output(torch, kind, machine.device, m, n, n)
    low, high = gemm_limits(torch, a, b)

    def check():
        wrong = ~((output.matrix >= low) & (output.matrix <= high))  # true for NaN
        count = int(wrong.sum())
        if count:
            i, j = (int(x) for x in wrong.nonzero()[0])
            return (f"{count} of {m * n} elements are wrong, the first at {i},{j}: {output.matrix[i, j].item()}, accepted "
                    f"{low[i, j].item()} to {high[i, j].item()}")
        touched = int((output.bits[:GUARD] != -1).sum() + (output.bits[-GUARD:] != -1).sum())
        return f"{touched} elements around the output changed" if touched else ""

    g = machine.gemm.arguments(m=m, n=n, k=k, trans_a=int(layout[0] == "t"), trans_b=int(layout[1] == "t"),
                               a=a.data_ptr(), b=b.data_ptr(), d=output.matrix.data_ptr(), lda=max(a.stride()), ldb=max(b.stride()), ldc=n)
    code, message, needed = machine.gemm.workspace_bytes(g)
    workspace = torch.empty(needed, dtype=torch.uint8, device=machine.device)
    if code == grout_c.OK and needed:
        g.workspace, g.workspace_bytes, g.memory = workspace.data_ptr(), needed, workspace  # alive as long as g
    if code == grout_c.OK:
        code, message, choice = machine.gemm.gemm(g, machine.stream())
    if code != grout_c.OK:
        raise RuntimeError(message)
    ours = machine.bound(machine.gemm.run, [ctypes.byref(g)], [None])
    case = {"suite": "gemm", "name": gemm_name(layout, m, n, k), "flops": 2 * m * n * k, "bytes": 2 * (m * k + k * n + m * n)}
    return case, [Policy("grout", "policy", {"kernel": "auto", "bounds": "auto"}, ours, output.poison, check, choice.as_text()),
                  Policy("torch", "peer", {"call": "torch.mm(out=)", "split sums": "added in fp32"},
                         lambda: torch.mm(a, b, out=output.matrix), output.poison, check, {"torch": torch.__version__})]


@dataclass(frozen=True)
class Attention:
    """O = softmax(Q K^T / sqrt(dim)) V in bf16. lengths: of packed sequences, queries and keys alike; else `batch` of q and k."""
    batch: int
    heads: int
    kv_heads: int
    q: int
    k: int
    dim: int
    causal: bool = False
    lengths: tuple = ()

    @property
    def name(self):
        heads = f"{self.heads}" if self.heads == self.kv_heads else f"{self.heads}/{self.kv_heads}"
        rows = f"{self.q}" if self.q == self.k else f"{self.q}:{self.k}"
        kind = "decode" if self.q == 1 else "causal" if self.causal else "full"
        return f"{self.batch}x{heads}x{rows}x{self.dim} bf16 {kind}{' packed' if self.lengths else ''}"

    @property
    def sequences(self):
        """(place along the batch's axis, first query, queries, first key, keys) of each."""
        if not self.lengths:
            return [(b, 0, self.q, 0, self.k) for b in range(self.batch)]
        starts = [sum(self.lengths[:b]) for b in range(self.batch)]
        return [(0, start, length, start, length) for start, length in zip(starts, self.lengths)]

    @property
    def flops(self):
        """Of both products; causal: half of it."""
        pairs = sum(queries * keys for _, _, queries, _, keys in self.sequences)
        return 4 * self.heads * self.dim * pairs / (2 if self.causal else 1)


def attention_rows(torch, scale, q, k, v, visible):
    """(O, how far off, LSE, how far off) of rows of fp64 that see the first `visible` keys each."""
    places = torch.arange(k.shape[0], device=k.device)
    hidden = places >= visible.unsqueeze(1)
    keys = visible.double().unsqueeze(1)
    logits = (q @ k.t()).mul_(scale).masked_fill_(hidden, -math.inf)
    most = logits.amax(1, keepdim=True)
    below = (most - logits).masked_fill_(hidden, 0)
    weight = logits.sub_(most).exp_()
    error = attention_weight_error(scale, accumulation_error(q.shape[1], q.abs() @ k.abs().t()), below, most, keys)
    total, absolute = weight.sum(1, keepdim=True), v.abs()
    value, lse = (weight @ v) / total, most + total.log()
    rounded = (attention_weight_rounding("bf16", weight) * (1 + error)) @ absolute / total
    magnitude = weight @ absolute / total
    moved = weight * error
    lost = moved.sum(1, keepdim=True) / total
    moved = moved @ absolute / total + lost * value.abs()  # no less than the sum of weight * error * |V - O|
    return value, attention_output_slack(keys, value, lost, moved, rounded, magnitude), lse, attention_lse_slack(keys, lost, most, lse)


def attention_limits(torch, c, q, k, v):
    """The least and the greatest right value of every element of O, [batch, row, head, dim], and of LSE, [sequence][head, row].
    A row of each sequence is sampled against sums that use no matrix product."""
    low, high, lse = torch.empty_like(q), torch.empty_like(q), []
    scale, share, rng = c.dim**-0.5, c.heads // c.kv_heads, random.Random(1)
    most_rows = max(1, 2**26 // max(keys for *_, keys in c.sequences))
    for b, q0, queries, k0, keys in c.sequences:
        limits = torch.empty(2, c.heads, queries, dtype=torch.float32, device=q.device)
        lse.append(limits)
        for group in range(c.kv_heads):
            wide_k, wide_v = (x[b, k0:k0 + keys, group].double() for x in (k, v))
            for h in range(group * share, (group + 1) * share):
                for first in range(0, queries, most_rows):
                    wide_q = q[b, q0 + first:q0 + min(first + most_rows, queries), h].double()
                    rows = torch.arange(first, first + wide_q.shape[0], device=q.device)
                    visible = (rows + (keys - queries + 1) if c.causal else torch.full_like(rows, keys))
                    value, slack, exponent, exponent_slack = attention_rows(torch, scale, wide_q, wide_k, wide_v, visible)
                    place = slice(q0 + first, q0 + first + wide_q.shape[0])
                    low[b, place, h] = (value - slack).float().to(q.dtype)
                    high[b, place, h] = (value + slack).float().to(q.dtype)
                    limits[0, h, rows], limits[1, h, rows] = ((exponent + sign * exponent_slack).squeeze(1).float() for sign in (-1, 1))
            if group == c.kv_heads - 1:
                i = rng.randrange(wide_q.shape[0])
                seen = int(visible[i])
                query, some_k, some_v = wide_q[i].cpu(), wide_k[:seen].cpu(), wide_v[:seen].cpu()
                logits = (some_k * query).sum(1) * scale
                weight = (logits - logits.max()).exp()
                exact = (some_v * weight.unsqueeze(1)).sum(0) / weight.sum()
                off = (value[i].cpu() - exact).abs().max().item()
                if not off <= 2.0**-40 * some_v.abs().max().item():
                    raise Wrong(f"the fp64 reference: head {h}, row {first + i} of sequence {b} is off by {off}")
    return low, high, lse


class Backend:
    """scaled_dot_product_attention of one backend on [batch, row, head, dim] seen as PyTorch's [batch, head, row, dim]; the latest
    output is kept."""

    def __init__(self, torch, c, operands, backend):
        from torch.nn.attention import SDPBackend, sdpa_kernel
        self.only = lambda: sdpa_kernel(getattr(SDPBackend, backend))
        self.views = [x.transpose(1, 2) for x in operands]
        self.options = {"is_causal": c.causal, "scale": c.dim**-0.5, **({"enable_gqa": True} if c.heads != c.kv_heads else {})}
        self.call, self.latest = torch.nn.functional.scaled_dot_product_attention, None

    def run(self):
        self.latest = None  # so that the next output takes its place, which is poisoned
        with self.only():
            self.latest = self.call(*self.views, **self.options)

    def output(self):
        return self.latest.transpose(1, 2)


class PackedFlash:
    """FlashAttention of packed sequences, through the operation below scaled_dot_product_attention, which has none."""

    def __init__(self, torch, c, operands, offsets):
        self.latest = None
        self.arguments = (*(x[0] for x in operands), offsets, offsets, c.q, c.k, 0.0, c.causal, False)
        self.call, self.scale = torch.ops.aten._flash_attention_forward, c.dim**-0.5

    def run(self):
        self.latest = None
        self.latest = self.call(*self.arguments, scale=self.scale)[0]

    def output(self):
        return self.latest.unsqueeze(0)


def attention_peer(name, call, made, check_output):
    """The policy of a peer; one that refuses, or is wrong from the first, is recorded so."""
    def poison():
        if peer.latest is not None:
            peer.latest.fill_(math.nan)

    def check():
        return check_output(peer.output())
    refused, peer = "", None  # what check() looks at
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            peer = made()
            peer.run()
            wrong = check()
            refused = f"its output is wrong: {wrong}" if wrong else ""
        except (RuntimeError, NotImplementedError, AttributeError, TypeError) as error:
            reasons = [str(text).strip().split("\n")[0].split(". ")[0].split(" (Triggered")[0] for text in (error, *(w.message for w in said))]
            refused = "; ".join(reason for reason in dict.fromkeys(reasons) if reason)
    return Policy(name, "peer", {"call": call}, peer.run if peer else None, poison, check, {}, refused)


def attention_case(machine, c):
    """Ours, FlashAttention-2 and cuDNN, the latter through scaled_dot_product_attention."""
    torch, kind = machine.torch, machine.torch.bfloat16
    torch.manual_seed(1)
    batch, rows = (1, sum(c.lengths)) if c.lengths else (c.batch, None)
    q, k, v = (torch.empty(batch, rows or length, heads, c.dim, dtype=kind, device=machine.device).normal_()
               for length, heads in ((c.q, c.heads), (c.k, c.kv_heads), (c.k, c.kv_heads)))
    low, high, lse_limits = attention_limits(torch, c, q, k, v)
    output = Output(torch, kind, machine.device, batch * q.shape[1], c.heads * c.dim, c.heads * c.dim)
    lse = torch.empty(batch, c.heads, q.shape[1], dtype=torch.float32, device=machine.device)

    def check_output(o):
        wrong = ~((o >= low) & (o <= high))  # true for NaN
        count = int(wrong.sum())
        if not count:
            return ""
        place = tuple(int(x) for x in wrong.nonzero()[0])
        return (f"{count} of {o.numel()} elements are wrong, the first at batch, row, head, element {place}: {o[place].item()}, accepted "
                f"{low[place].item()} to {high[place].item()}")

    def check():
        problem = check_output(output.matrix.view(q.shape))
        for (b, q0, queries, *_), limits in zip(c.sequences, lse_limits):
            of = lse[b, :, q0:q0 + queries]
            wrong = int((~((of >= limits[0]) & (of <= limits[1]))).sum())
            problem = problem or (f"{wrong} of {of.numel()} LSE of sequence {b} are wrong" if wrong else "")
        touched = int((output.bits[:GUARD] != -1).sum() + (output.bits[-GUARD:] != -1).sum())
        return problem or (f"{touched} elements around the output changed" if touched else "")

    def poison():
        output.poison()
        lse.fill_(math.nan)

    fields = {f"{name}_stride": x.stride()[:3] for name, x in (("q", q), ("k", k), ("v", v), ("o", output.matrix.view(q.shape)))}
    a = machine.attention.arguments(type=grout_c.BF16, causal=int(c.causal), scale=c.dim**-0.5, batch=c.batch, heads=c.heads,
                                    kv_heads=c.kv_heads, q_length=c.q, kv_length=c.k, dim=c.dim, q=q.data_ptr(), k=k.data_ptr(),
                                    v=v.data_ptr(), o=output.matrix.data_ptr(), lse=lse.data_ptr(), **fields)
    if c.lengths:
        offsets = torch.tensor([sum(c.lengths[:b]) for b in range(c.batch + 1)], dtype=torch.int32, device=machine.device)
        a.q_offsets = a.kv_offsets = offsets.data_ptr()
        a.q_rows = q.shape[1]
    code, message, needed = machine.attention.workspace_bytes(a)
    if code == grout_c.OK and needed:
        workspace = torch.empty(needed, dtype=torch.uint8, device=machine.device)
        a.workspace, a.workspace_bytes, a.memory = workspace.data_ptr(), needed, workspace  # alive as long as a
    if code == grout_c.OK:
        code, message, choice = machine.attention.attention(a, machine.stream())
    if code != grout_c.OK:
        raise RuntimeError(message)
    a.operands = (q, k, v)
    case = {"suite": "attention", "name": c.name, "flops": 0 if c.q == 1 else c.flops,  # a decode is as fast as it reads
            "bytes": 2 * (2 * q.numel() + k.numel() + v.numel())}
    ours = Policy("grout", "policy", {"kernel": "auto"}, machine.bound(machine.attention.run, [ctypes.byref(a)], [None]), poison, check,
                  choice.as_text())
    if c.lengths:
        peers = [("flash2", "torch.ops.aten._flash_attention_forward", lambda: PackedFlash(torch, c, (q, k, v), offsets))]
    else:
        peers = [(name, f"scaled_dot_product_attention, SDPBackend.{backend}",
                  lambda backend=backend: Backend(torch, c, (q, k, v), backend))
                 for name, backend in (("cudnn", "CUDNN_ATTENTION"), ("flash2", "FLASH_ATTENTION"))]
    policies = [ours] + [attention_peer(*peer, check_output) for peer in peers]
    for policy in policies[1:]:
        policy.realised["torch"] = torch.__version__
        if policy.name == "cudnn":
            policy.realised["cudnn"] = str(torch.backends.cudnn.version())
    return case, policies


def attention_cases():
    """As many tokens in each shape of one head dimension; lengths off the tiles and their neighbours; odd head dimensions; grouped
    queries; one query against a cache; packed sequences."""
    both = (False, True)
    cases = [Attention(batch, heads, heads, length, length, dim, causal) for heads, dim in ((16, 128), (32, 64), (8, 256))
             for batch, length in ((16, 1024), (8, 2048), (4, 4096), (2, 8192), (1, 16384)) for causal in both]
    cases += [Attention(4, heads, heads, length, length, dim, causal) for heads, dim, lengths in
              ((16, 128, (4095, 4097, 1000, 1024)), (32, 64, (1000,)), (8, 256, (1000,)), (16, 72, (4096,)), (16, 96, (4096,)))
              for length in lengths for causal in both]
    cases += [Attention(4, 32, 8, 4000, 4000, 128, causal) for causal in both]
    cases += [Attention(batch, 32, 8, 1, cache, 128) for batch in (1, 16) for cache in (4096, 16384, 65536)]
    lengths = tuple(64 + (b * 2531 + 977) % 4033 for b in range(16))  # strewn over 64 to 4096
    return cases + [Attention(len(lengths), 16, 16, max(lengths), max(lengths), 128, causal, lengths) for causal in both]


# Aligned rows, and the same one element shorter or longer.
COPY_CASES = [("bf16", 1003, 1003, 1000, 1000, 1, 1), ("bf16", 4096, 4096, 4000, 4000, 8, 64), ("bf16", 4097, 4097, 4000, 4000, 3, 5),
              ("f32", 4097, 4097, 4000, 4000, 3, 5), ("bf16", 8192, 8192, 8000, 8000, 8, 64), ("bf16", 8193, 8193, 8000, 8000, 1, 1),
              ("f32", 8193, 8193, 8000, 8000, 1, 1), ("bf16", 16385, 16385, 16000, 16000, 1, 1)]
GEMM_CASES = [(layout, *extents) for extents in ((1024, 1024, 1024), (1023, 1023, 1023), (4096, 4096, 4096), (4095, 4095, 4095),
                                                 (8192, 8192, 8192), (8191, 8191, 8191), (8192, 50257, 768), (65, 97, 73))
              for layout in ("nn", "nt")]
SIM_COPY_CASES = [("bf16", 65, 73, 40, 31, 3, 5, 33), ("f32", 37, 41, 30, 41, 7, 0)]
SIM_GEMM_CASES = [("nn", 65, 97, 73), ("nt", 64, 64, 32), ("tn", 17, 9, 40), ("tt", 9, 17, 515)]
SIM_ATTENTION_CASES = [Attention(2, 4, 4, 33, 33, 40), Attention(1, 2, 2, 65, 65, 64, True), Attention(2, 4, 2, 1, 130, 32),
                       Attention(3, 2, 2, 40, 40, 24, True, (7, 40, 1))]


def named_cases(gpu):
    """(suite, name, maker, arguments) of all cases of a device."""
    return [("copy", crop_name(*c), crop_case, c) for c in (COPY_CASES if gpu else SIM_COPY_CASES)] + \
           [("gemm", gemm_name(*c), gemm_case, c) for c in (GEMM_CASES if gpu else SIM_GEMM_CASES)] + \
           [("attention", c.name, attention_case, (c,)) for c in (attention_cases() if gpu else SIM_ATTENTION_CASES)]


def source_state():
    """(commit, whether the source differs from it): as git says, else GROUT_COMMIT="ID" or "ID dirty"."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

    def git(*arguments):
        try:
            done = subprocess.run(["git", "--no-optional-locks", "-c", f"safe.directory={root}", "-C", root, *arguments],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        except OSError:
            return None
        return done.stdout.strip() if done.returncode == 0 else None
    top = git("rev-parse", "--show-toplevel", "HEAD")
    if top and os.path.realpath(top.split("\n")[0]) == os.path.realpath(root):
        return top.split("\n")[1], git("status", "--porcelain", "--untracked-files=normal") != ""  # who cannot tell does not say clean
    commit, _, rest = os.environ.get("GROUT_COMMIT", "").partition(" ")
    return commit or "unknown", rest == "dirty"


def impossible(reason):
    print(f"not possible here: {reason}")
    sys.exit(77)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", help="a build folder with grout_copy, grout_gemm and grout_attention, or those of the cases asked for")
    parser.add_argument("--suite", choices=tuple(Machine.KINDS), help="its cases alone")
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help="cases whose suite and name, as printed, hold one of these texts")
    parser.add_argument("--quick", action="store_true", help="three rounds of one batch of 5 ms")
    parser.add_argument("--cold", action="store_true", help="flush L2 before each run")
    parser.add_argument("--json", default="", help="write the cases to this file")
    parser.add_argument("--device", choices=("gpu", "sim"), default="gpu")
    options = parser.parse_args()
    try:
        import torch
    except ImportError as error:
        impossible(f"PyTorch is not installed for {sys.executable} ({error}); python3 -m pip install torch, or name another python3")
    gpu = options.device == "gpu"
    if gpu and not torch.cuda.is_available():
        impossible(f"PyTorch {torch.__version__} finds no GPU")
    wanted = [c for c in named_cases(gpu) if options.suite in (None, c[0]) and any(text in f"{c[0]} {c[1]}" for text in options.only)]
    if not wanted:
        print(f"no case holds {' or '.join(repr(text) for text in options.only)}", file=sys.stderr)
        sys.exit(2)
    suites = list(dict.fromkeys(suite for suite, *_ in wanted))
    try:
        machine = Machine(torch, options.build, options.device, suites)
    except OSError as error:
        impossible(f"{error}; build them with: cmake --build {options.build} --target {' '.join(f'grout_{suite}' for suite in suites)}")
    for library in machine.libraries:
        if library.device != options.device:
            impossible(f"the libraries in {options.build} are for the simulated device: a build with a CUDA toolkit is needed")
        code, message = library.usable()
        if code != grout_c.OK:
            impossible(message)
    source = source_state()
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False  # else products may be rounded in parts
    protocol = Protocol(**{**vars(SWEEP if options.quick else HEADLINE), "cold": options.cold})

    cases, failure = [], ""
    for _, name, maker, arguments in wanted:
        try:
            with torch.no_grad():
                cases.append(compare(*maker(machine, *arguments), protocol, machine.clock))
        except (Wrong, RuntimeError) as error:  # of the reference, of a call
            failure = f"{maker.__name__} {name}: {error}"
            break
        print("\n".join(lines_of(cases[-1])), flush=True)
        failure = failure_of(cases[-1])
        if failure:
            break
    if options.json:
        device = torch.cuda.get_device_name(0) if gpu else "the simulated device and the CPU"
        versions = {"torch": torch.__version__, "cuda": torch.version.cuda}
        commit, dirty = source
        # Absolute paths are this machine's: their names are enough.
        command = " ".join(["python3", "tests/tools/torch_peers.py",
                            *(os.path.basename(word) if os.path.isabs(word) else word for word in sys.argv[1:])])
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"command": command, "commit": commit, "dirty": dirty, "device": device, "versions": versions, "cases": cases},
                      file, indent=1)
            file.write("\n")
    if failure:
        print(failure, file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
