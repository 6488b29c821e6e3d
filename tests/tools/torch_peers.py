"""torch_peers.py BUILD [--only TEXT] [--cold] [--quick] [--json FILE] [--device gpu|sim]: crop and GEMM of the libraries in a build
folder (libgrout_copy.so, libgrout_gemm.so) paired with PyTorch's strided copy and torch.mm, in one process on the same buffers.

Every output is poisoned with NaN and compared in full before anything is timed and after each round, copies bit for bit, products
within what fp32 accumulation may lose; a wrong one ends the run without a figure for its case. A round visits every policy once,
forth and back in turn; a visit is nine batches of 40 ms, its figure their median; a policy's figure is the median of its rounds, a
ratio the median of the rounds' ratios, with its range. Runs of less than 20 us are timed as CUDA graphs of 20.

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


def compare(case, policies, protocol, clock):
    """Times the policies of one case; fills and returns its record. With a wrong output no policy has a figure, and the failure
    says whose it was."""
    records = {p.name: {"name": p.name, "role": p.role, "requested": p.requested, "realised": p.realised, "validated": 0,
                        "graph": 0, "round_us": [], "round_wall_us": [], "failure": ""} for p in policies}
    case = {**case, "mode": "cold" if protocol.cold else "warm", "protocol": protocol.name, "policies": list(records.values())}
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
    """A case for people: a line for each policy, and its ratio to the first peer."""
    peer = next((p for p in case["policies"] if p["role"] == "peer"), None)
    lines = []
    for p in case["policies"]:
        if not p["round_us"]:
            lines.append(f"{case['suite']} {case['name']}  {p['name']}: no figure{': ' + p['failure'] if p['failure'] else ''}")
            continue
        us = median(p["round_us"])
        rate = f"{case['flops'] / us * 1e-6:.1f} TFLOP/s" if case["flops"] else f"{case['bytes'] / us * 1e-3:.0f} GB/s"
        line = f"{case['suite']} {case['name']}  {p['name']}: {us:.2f} us (wall {median(p['round_wall_us']):.2f})  {rate}"
        if peer is not None and p is not peer and peer["round_us"]:
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
    """PyTorch, the libraries and a clock, of one device."""

    def __init__(self, torch, build, device):
        end = "_sim.so" if device == "sim" else ".so"
        self.torch, self.device = torch, "cpu" if device == "sim" else "cuda"
        self.gemm = grout_c.Gemm(os.path.abspath(f"{build}/gemm/libgrout_gemm{end}"))
        self.copy = grout_c.Copy(os.path.abspath(f"{build}/copy/libgrout_copy{end}"))
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


# Aligned rows, and the same one element shorter or longer.
COPY_CASES = [("bf16", 1003, 1003, 1000, 1000, 1, 1), ("bf16", 4096, 4096, 4000, 4000, 8, 64), ("bf16", 4097, 4097, 4000, 4000, 3, 5),
              ("f32", 4097, 4097, 4000, 4000, 3, 5), ("bf16", 8192, 8192, 8000, 8000, 8, 64), ("bf16", 8193, 8193, 8000, 8000, 1, 1),
              ("f32", 8193, 8193, 8000, 8000, 1, 1), ("bf16", 16385, 16385, 16000, 16000, 1, 1)]
GEMM_CASES = [(layout, *extents) for extents in ((1024, 1024, 1024), (1023, 1023, 1023), (4096, 4096, 4096), (4095, 4095, 4095),
                                                 (8192, 8192, 8192), (8191, 8191, 8191), (8192, 50257, 768), (65, 97, 73))
              for layout in ("nn", "nt")]
SIM_COPY_CASES = [("bf16", 65, 73, 40, 31, 3, 5, 33), ("f32", 37, 41, 30, 41, 7, 0)]
SIM_GEMM_CASES = [("nn", 65, 97, 73), ("nt", 64, 64, 32), ("tn", 17, 9, 40), ("tt", 9, 17, 515)]


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
    parser.add_argument("build", help="a build folder with grout_copy and grout_gemm")
    parser.add_argument("--only", default="", help="cases whose suite and name, as printed, hold this text")
    parser.add_argument("--quick", action="store_true", help="three rounds of one batch of 5 ms")
    parser.add_argument("--cold", action="store_true", help="flush L2 before each run")
    parser.add_argument("--json", default="", help="write the cases to this file")
    parser.add_argument("--device", choices=("gpu", "sim"), default="gpu")
    options = parser.parse_args()
    try:
        import torch
    except ImportError as error:
        impossible(f"PyTorch is not installed for {sys.executable} ({error}); python3 -m pip install torch, or name another python3")
    if options.device == "gpu" and not torch.cuda.is_available():
        impossible(f"PyTorch {torch.__version__} finds no GPU")
    try:
        machine = Machine(torch, options.build, options.device)
    except OSError as error:
        impossible(f"{error}; build them with: cmake --build {options.build} --target grout_copy grout_gemm")
    if machine.gemm.device != options.device or machine.copy.device != options.device:
        impossible(f"the libraries in {options.build} are for the simulated device: a build with a CUDA toolkit is needed")
    code, message = machine.gemm.usable()
    if code != grout_c.OK:
        impossible(message)
    source = source_state()
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False  # else products may be rounded in parts
    protocol = Protocol(**{**vars(SWEEP if options.quick else HEADLINE), "cold": options.cold})

    gpu = options.device == "gpu"
    wanted = [(f"copy {crop_name(*c)}", crop_case, c) for c in (COPY_CASES if gpu else SIM_COPY_CASES)] + \
             [(f"gemm {gemm_name(*c)}", gemm_case, c) for c in (GEMM_CASES if gpu else SIM_GEMM_CASES)]
    wanted = [(maker, arguments) for name, maker, arguments in wanted if options.only in name]
    if not wanted:
        print(f"no case holds '{options.only}'", file=sys.stderr)
        sys.exit(2)
    cases, failure = [], ""
    for maker, arguments in wanted:
        try:
            with torch.no_grad():
                cases.append(compare(*maker(machine, *arguments), protocol, machine.clock))
        except (Wrong, RuntimeError) as error:  # of the reference, of a call
            failure = f"{maker.__name__}{arguments}: {error}"
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
