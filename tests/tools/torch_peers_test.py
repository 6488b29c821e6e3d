"""torch_peers_test.py BUILD COMPILER: the statistics and the order of torch_peers.py, with synthetic times and outputs; that no
wrong output has a figure; then the program itself: without PyTorch, where there is PyTorch on the simulated device, and where there
is a GPU too on that."""
import contextlib
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings

sys.path.insert(0, os.path.dirname(__file__))
import torch_peers as peers
from report import Cases

build, compiler = sys.argv[1:3]
root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
program = os.path.join(root, "tests/tools/torch_peers.py")
cases = Cases("torch_peers")


def equal(name, got, expected):
    cases.check(name, None if got == expected else f"{got}, expected {expected}")


def raises(name, error, call):
    try:
        call()
    except error:
        cases.check(name)
    else:
        cases.check(name, f"no {error.__name__}")


# --- Statistics ---------------------------------------------------------------------------------------------------------------

equal("median of an odd count", peers.median([9, 1, 5]), 5)
equal("median of an even count", peers.median([4, 1, 3, 100]), 3.5)
equal("paired ratio: of each round, not of the medians", peers.paired_ratio([10, 40, 30], [5, 10, 30]), (2, 1, 4))
raises("paired ratio of unequal counts", ValueError, lambda: peers.paired_ratio([1, 2], [1]))
raises("paired ratio of nothing", ValueError, lambda: peers.paired_ratio([], []))
equal("order: A B, B A", [peers.visit_order(i, "AB") for i in range(4)], [["A", "B"], ["B", "A"], ["A", "B"], ["B", "A"]])
equal("runs of a batch", [peers.batch_count(us, 40) for us in (100, 1e6, 1, 0)], [400, 1, 4096, 4096])
equal("the protocol of headlines", vars(peers.HEADLINE), {"name": "headline", "rounds": 4, "batches": 9, "batch_ms": 40,
                                                           "warm_up_ms": 200, "cold": False})
equal("the protocol of sweeps", vars(peers.SWEEP), {"name": "sweep", "rounds": 3, "batches": 1, "batch_ms": 5, "warm_up_ms": 10,
                                                     "cold": False})


def check_tolerance():
    """The same numbers as common/check.cuh gives, to the last bit."""
    arguments = [(k, magnitude) for k in (0, 1, 7, 8, 9, 768, 8191, 100000) for magnitude in (0.0, 1.0, 0.1, 12345.678)]
    with tempfile.TemporaryDirectory() as folder:
        source, binary = os.path.join(folder, "main.cpp"), os.path.join(folder, "main")
        with open(source, "w", encoding="utf-8") as file:
            file.write('#include "common/check.cuh"\nint main() {\n' +
                       "".join(f'  std::printf("%a\\n", grout::accumulation_error({k}, {x!r}));\n' for k, x in arguments) + "}\n")
        done = subprocess.run([compiler, "-std=c++20", "-O1", f"-I{root}", source, "-o", binary], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            return done.stdout[-1000:]
        there = [float.fromhex(line) for line in subprocess.run([binary], stdout=subprocess.PIPE, text=True).stdout.split()]
    here = [peers.accumulation_error(k, x) for k, x in arguments]
    wrong = [f"{a}: {x.hex()}, there {y.hex()}" for a, x, y in zip(arguments, here, there) if x != y]
    return "; ".join(wrong[:3]) if wrong or len(there) != len(here) else None


cases.check("the tolerance is that of common/check.cuh", check_tolerance())


def check_attention_slack():
    """The same numbers as common/attention_reference.cuh gives, to rounding."""
    weights = [(scale, lost, below, most, keys) for scale in (1.0, -0.088) for lost in (0.0, 1e-5) for below in (0.0, 3.0)
               for most in (-5.0, 40.0) for keys in (1, 17, 65536)]
    weight_calls = [f"attention_weight_error({s!r}, {a!r}, {b!r}, {m!r}, {k})" for s, a, b, m, k in weights]
    here = [peers.attention_weight_error(*x) for x in weights]
    roundings = [(kind, w) for kind in ("bf16", "f16") for w in (0.0, 1e-40, 1e-6, 0.01, 1.0)]
    weight_calls += [f"attention_weight_rounding(ElementType::{kind}, {w!r})" for kind, w in roundings]
    here += [peers.attention_weight_rounding(*x) for x in roundings]
    outputs = [(keys, value, w, moved, rounded, magnitude) for keys in (1, 16, 4097) for value in (-0.5, 0.0, 2.0) for w in (0.0, 1e-4)
               for moved in (0.0, 1e-5) for rounded in (1e-3,) for magnitude in (0.7,)]
    weight_calls += [f"attention_output_slack({k}, {x!r}, {{{w!r}, {mv!r}, {r!r}, {mg!r}}})" for k, x, w, mv, r, mg in outputs]
    here += [peers.attention_output_slack(*x) for x in outputs]
    sums = [(keys, w, most, lse) for keys in (1, 70) for w in (0.0, 1e-4, 0.5) for most in (-3.0, 11.0) for lse in (0.0, 12.5)]
    weight_calls += [f"attention_lse_slack({k}, {w!r}, {m!r}, {x!r})" for k, w, m, x in sums]
    here += [peers.attention_lse_slack(*x) for x in sums]
    with tempfile.TemporaryDirectory() as folder:
        source, binary = os.path.join(folder, "main.cpp"), os.path.join(folder, "main")
        with open(source, "w", encoding="utf-8") as file:
            file.write('#include "common/attention_reference.cuh"\nint main() {\n  using namespace grout;\n' +
                       "".join(f'  std::printf("%a\\n", {call});\n' for call in weight_calls) + "}\n")
        done = subprocess.run([compiler, "-std=c++20", "-O1", f"-I{root}", source, "-o", binary], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            return done.stdout[-1000:]
        there = [float.fromhex(line) for line in subprocess.run([binary], stdout=subprocess.PIPE, text=True).stdout.split()]
    wrong = [f"{call}: {y}, here {x}" for call, x, y in zip(weight_calls, here, there) if not abs(x - y) <= 1e-12 * abs(y)]
    return "; ".join(wrong[:3]) if wrong or len(there) != len(here) else None


cases.check("how far attention may be off is as in common/attention_reference.cuh", check_attention_slack())


# --- A comparison ----------------------------------------------------------------------------------------------------------------

class Bench:
    """Two policies that write 1 to one output, and a clock that invents times: log holds what happened, in order."""

    def __init__(self, times, graphs=True, wrong_from=None):
        self.log, self.times, self.graphs, self.output, self.runs = [], times, graphs, None, {}
        self.wrong_from, self.wrong_graph = wrong_from or {}, set()
        self.batches = {name: 0 for name in times}

    def policy(self, name, role):
        def run():
            self.last = name
            self.runs[name] = self.runs.get(name, 0) + 1
            broken = name in self.wrong_from and self.validations(name) >= self.wrong_from[name]
            self.output = self.output if broken else 1  # a broken kernel writes nothing

        def poison():
            self.output = float("nan")

        def check():
            self.log.append(f"check {name}")
            return "" if self.output == 1 else f"the output is {self.output}"
        return peers.Policy(name, role, {"asked": name}, run, poison, check, {"path": "one"} if role == "policy" else {})

    def validations(self, name):
        return self.log.count(f"check {name}")

    def batch(self, run, count, cold):
        run()
        name = self.last
        self.log.append(f"{name} {count}{' cold' if cold else ''}")
        self.batches[name] += 1
        us = self.times[name](self.batches[name])
        return us, us + 3

    def captured(self, run, repeats):
        self.log.append(f"capture {repeats}")

        def replay():
            for _ in range(repeats):
                run()
        return replay

    def compare(self, protocol):
        case = {"suite": "gemm", "name": "2x2x2", "flops": 16, "bytes": 24}
        return peers.compare(case, [self.policy("ours", "policy"), self.policy("theirs", "peer")], protocol, self)


# A run of ours takes 100 us; theirs 200. Every third batch is disturbed.
bench = Bench({"ours": lambda i: 100 if i % 3 else 5000, "theirs": lambda i: 200 if i % 3 else 9000})
case = bench.compare(peers.HEADLINE)
ours, theirs = case["policies"]
equal("medians of rounds, not spoilt by a third of the batches", (ours["round_us"], theirs["round_us"]), ([100] * 4, [200] * 4))
equal("the wall's likewise", (ours["round_wall_us"], theirs["round_wall_us"]), ([103] * 4, [203] * 4))
equal("validated before, and after each round", (ours["validated"], theirs["validated"]), (5, 5))
equal("no graph of runs that are long enough", (ours["graph"], theirs["graph"], "capture 20" in bench.log), (0, 0, False))
equal("the fields of a case", list(case), ["suite", "name", "flops", "bytes", "mode", "protocol", "policies"])
equal("the fields of a policy", list(ours), ["name", "role", "requested", "realised", "validated", "graph", "round_us", "round_wall_us",
                                              "failure"])
equal("what was said of it", (case["mode"], case["protocol"], ours["requested"], ours["realised"], ours["failure"]),
      ("warm", "headline", {"asked": "ours"}, {"path": "one"}, ""))
equal("JSON keeps it", json.loads(json.dumps(case)), case)
visits = [entry.split()[0] for entry in bench.log]
first = len(visits) - 4 * (18 + 2)
expected = [name for number in range(4) for name in
            [visitor for visitor in peers.visit_order(number, ["ours", "theirs"]) for _ in range(9)] + ["check", "check"]]
equal("four rounds, nine batches a visit, A B, B A, validations behind each", visits[first:], expected)
equal("batches of 40 ms", {entry for entry in bench.log[first:] if not entry.startswith("check")}, {"ours 400", "theirs 200"})
spent = {}
for name in ("ours", "theirs"):
    counts = [int(entry.split()[1]) for entry in bench.log[2:first] if entry.startswith(name)]
    spent[name] = sum(count * bench.times[name](i) for i, count in enumerate(counts, 1)) * 1e-3
cases.check("both are validated before anything is timed, each warms up for 200 ms at least",
            None if bench.log[:2] == ["check ours", "check theirs"] and all(ms >= 200 for ms in spent.values())
            else f"{bench.log[:9]} {spent}")
equal("the lines of a case", peers.lines_of({**case, "flops": 3e9}),
      ["gemm 2x2x2  ours: 100.00 us (wall 103.00)  30.0 TFLOP/s  2.000x [2.000, 2.000] of theirs  L2 warm, headline, 4 rounds, path one",
       "gemm 2x2x2  theirs: 200.00 us (wall 203.00)  15.0 TFLOP/s  L2 warm, headline, 4 rounds"])
cases.check("the line of a copy has bytes", None if "us (wall 203.00)  150 GB/s" in peers.lines_of({**case, "flops": 0, "bytes": 3e7})[1]
            else str(peers.lines_of({**case, "flops": 0, "bytes": 3e7})))

# A peer that refuses: recorded, not run, and no failure.
bench = Bench({"ours": lambda i: 100, "theirs": lambda i: 200})
refusing = peers.Policy("refusing", "peer", {"asked": "refusing"}, None, None, None, {}, "it cannot")
case = peers.compare({"suite": "attention", "name": "x", "flops": 3e9, "bytes": 24},
                     [bench.policy("ours", "policy"), refusing, bench.policy("theirs", "peer")], peers.SWEEP, bench)
refused = case["policies"][1]
equal("a refusal is recorded, and is no failure", (refused["refused"], refused["round_us"], refused["failure"], peers.failure_of(case)),
      ("it cannot", [], "", ""))
equal("the others are timed", [len(p["round_us"]) for p in case["policies"]], [3, 0, 3])
equal("others are not marked as refusing", ["refused" in p for p in case["policies"]], [False, True, False])
equal("the line of a refusal", peers.lines_of(case)[1], "attention x  refusing: refused: it cannot")
bench = Bench({"ours": lambda i: 100, "theirs": lambda i: 200, "others": lambda i: 50})
case = peers.compare({"suite": "attention", "name": "x", "flops": 3e9, "bytes": 24},
                     [bench.policy("ours", "policy"), bench.policy("theirs", "peer"), bench.policy("others", "peer")], peers.SWEEP, bench)
lines = peers.lines_of(case)
cases.check("ours has a ratio to each peer, peers have none", None if
            "  2.000x [2.000, 2.000] of theirs  0.500x [0.500, 0.500] of others  " in lines[0] and not any("x [" in x for x in lines[1:])
            else str(lines))

# Clocks that fall: every batch takes a thousandth longer than the one before it, whosever it is.
drift = [0]


def drifting(us):
    def time(_):
        drift[0] += 1
        return us * (1 + 0.001 * drift[0])
    return time


case = Bench({"ours": drifting(100), "theirs": drifting(200)}).compare(peers.HEADLINE)
ratio = peers.paired_ratio(case["policies"][1]["round_us"], case["policies"][0]["round_us"])
cases.check("a drift cancels between rounds of either order", None if abs(ratio[0] - 2) < 2e-3 < ratio[2] - ratio[1] else str(ratio))

bench = Bench({"ours": None, "theirs": lambda i: 300})
bench.times["ours"] = lambda i: 100 if "capture 20" in bench.log else 5
case = bench.compare(peers.SWEEP)
equal("short runs: graphs of 20, times of one run", [(p["graph"], p["round_us"]) for p in case["policies"]],
      [(20, [5] * 3), (0, [300] * 3)])
equal("the graph's output is validated too", [p["validated"] for p in case["policies"]], [5, 4])
equal("batches of 5 ms, of graphs", [e for e in bench.log if e.startswith("ours")][-3:], ["ours 50"] * 3)
bench = Bench({"ours": lambda i: 5, "theirs": lambda i: 6})
case = bench.compare(peers.Protocol(**{**vars(peers.SWEEP), "cold": True}))
equal("cold: no graphs", ([p["graph"] for p in case["policies"]], "capture 20" in bench.log, case["mode"]), ([0, 0], False, "cold"))
cases.check("cold: every batch", None if all(e.endswith("cold") for e in bench.log if not e.startswith("check"))
            else str(bench.log[:9]))
case = Bench({"ours": lambda i: 5, "theirs": lambda i: 6}, graphs=False).compare(peers.SWEEP)
equal("no graphs where there are none", [p["graph"] for p in case["policies"]], [0, 0])

for who in ("ours", "theirs"):
    for start, when in ((0, "at once"), (1, "after the first round"), (4, "after the last round")):
        bench = Bench({"ours": lambda i: 100, "theirs": lambda i: 200}, wrong_from={who: start})
        case = bench.compare(peers.HEADLINE)
        figures = [p[key] for p in case["policies"] for key in ("round_us", "round_wall_us")]
        failures = {p["name"]: p["failure"] for p in case["policies"]}
        right = figures == [[]] * 4 and failures[who] == f"{who}: the output is nan" and list(failures.values()).count("") == 1 and \
            peers.failure_of(case) == failures[who] and all("no figure" in line for line in peers.lines_of(case))
        cases.check(f"{who} wrong {when}: no figure, and it is named", None if right else str(case))
bench = Bench({"ours": lambda i: 5, "theirs": lambda i: 300}, wrong_from={"ours": 1})
case = bench.compare(peers.SWEEP)
cases.check("a graph whose output is wrong", None if peers.failure_of(case) and case["policies"][0]["validated"] == 1 and
            bench.log[-1] == "check ours" and bench.log[-2] == "capture 20" else f"{case} {bench.log[-5:]}")


# --- Attention -------------------------------------------------------------------------------------------------------------------

class NotedPeer:
    """A peer of attention whose run gives 7, or raises."""

    def __init__(self, error=None):
        self.latest, self.error = None, error

    def run(self):
        if self.error:
            warnings.warn("this backend needs a GPU. Its other needs. (Triggered internally at x.cpp:7.)")
            raise self.error
        self.latest = 7

    def output(self):
        return self.latest


def refusal(made, wrong=""):
    return peers.attention_peer("peer", "a call", made, lambda output: "" if output == 7 and not wrong else wrong).refused


equal("a peer that runs and is right", refusal(NotedPeer), "")
equal("a peer that refuses says why", refusal(lambda: NotedPeer(RuntimeError("No available kernel. Aborting execution.\nand more"))),
      "No available kernel; this backend needs a GPU")
equal("a peer that cannot be made", refusal(lambda: {}.missing), "'dict' object has no attribute 'missing'")
equal("a peer that is wrong", refusal(NotedPeer, "3 of 4 elements are wrong"), "its output is wrong: 3 of 4 elements are wrong")


named = [(suite, name) for suite, name, *_ in peers.named_cases(True)]
equal("names of cases differ", len(set(named)), len(named))
attention = peers.attention_cases()
equal("as many tokens in each shape", {c.batch * c.q * c.heads * c.dim for c in attention[:30]}, {2**25})
equal("a name says all", [peers.Attention(4, 16, 16, 4095, 4095, 128).name, peers.Attention(4, 16, 16, 8, 8, 72, True).name,
                          peers.Attention(16, 32, 8, 1, 65536, 128).name, peers.Attention(2, 4, 4, 7, 7, 64, True, (5, 7)).name],
      ["4x16x4095x128 bf16 full", "4x16x8x72 bf16 causal", "16x32/8x1:65536x128 bf16 decode", "2x4x7x64 bf16 causal packed"])
equal("FLOPs", [peers.Attention(2, 3, 3, 5, 7, 11).flops, peers.Attention(2, 3, 3, 6, 6, 11, True).flops,
                peers.Attention(2, 3, 3, 7, 7, 11, False, (2, 7)).flops], [4 * 2 * 3 * 5 * 7 * 11, 2 * 2 * 3 * 36 * 11, 4 * 3 * 11 * (4 + 49)])
equal("sequences", (peers.Attention(2, 1, 1, 5, 7, 8).sequences, peers.Attention(3, 1, 1, 7, 7, 8, False, (2, 0, 7)).sequences),
      ([(0, 0, 5, 0, 7), (1, 0, 5, 0, 7)], [(0, 0, 2, 0, 2), (0, 2, 0, 2, 0), (0, 2, 7, 2, 7)]))


def check_attention_rows(torch):
    """Against the definition, and against sums of what may be lost."""
    generator = torch.Generator().manual_seed(1)
    q, k, v = (torch.rand(n, 5, generator=generator, dtype=torch.float64) * 6 - 3 for n in (4, 9, 9))
    visible = [9, 1, 4, 8]
    value, slack, lse, lse_slack = peers.attention_rows(torch, 0.7, q, k, v, torch.tensor(visible))
    for i, seen in enumerate(visible):
        logits = [0.7 * math.fsum(x * y for x, y in zip(q[i].tolist(), k[j].tolist())) for j in range(seen)]
        weight = [math.exp(x) for x in logits]
        if abs(lse[i].item() - math.log(math.fsum(weight))) > 1e-12:
            return f"LSE of row {i}: {lse[i].item()}"
        for d in range(5):
            exact = math.fsum(w * v[j, d].item() for j, w in enumerate(weight)) / math.fsum(weight)
            if abs(value[i, d].item() - exact) > 1e-12:
                return f"O[{i}, {d}]: {value[i, d].item()}, not {exact}"
            least = 2.0**-8 * math.fsum(w * abs(v[j, d].item()) for j, w in enumerate(weight)) / math.fsum(weight)
            if not least <= slack[i, d].item() <= 1.1 * least:  # at this size it is the rounding of the weights
                return f"slack[{i}, {d}]: {slack[i, d].item()}, where rounding the weights costs {least}"
        if not 0 < lse_slack[i].item() < 1e-4:
            return f"the slack of LSE of row {i}: {lse_slack[i].item()}"
    return None


def check_attention_verdicts(torch):
    """Each case of the simulated device: poison, one element of O, one LSE and one element around O are seen."""
    machine = peers.Machine(torch, build, "sim", ["attention"])
    problems = []
    for c in peers.SIM_ATTENTION_CASES:
        _, policies = peers.attention_case(machine, c)
        ours, flash = policies[0], policies[-1]
        cells = {name: cell.cell_contents for name, cell in zip(ours.check.__code__.co_freevars, ours.check.__closure__)}
        output, lse = cells["output"], cells["lse"]
        spoilt = [("poison", ours.poison, None)]
        spoilt += [("an element of O", lambda: output.matrix[-1:, -1:].mul_(1.2).add_(0.1), "1 of"),
                   ("a NaN", lambda: output.matrix[:1, :1].fill_(math.nan), "1 of"),
                   ("an LSE", lambda: lse[:, -1:, -1:].add_(0.01), "LSE"),
                   ("behind O", lambda: output.bits[-peers.GUARD:][:1].zero_(), "around the output"),
                   ("ahead of O", lambda: output.bits[peers.GUARD - 1:peers.GUARD].zero_(), "around the output")]
        for what, spoil, said in spoilt:
            ours.poison()
            ours.run()
            if ours.check():
                problems.append(f"{c.name}: {ours.check()}")
            spoil()
            if (said or "elements are wrong") not in ours.check():
                problems.append(f"{c.name}: {what} was not seen: '{ours.check()}'")
        if flash.refused:
            continue
        flash.poison()
        if "elements are wrong" not in flash.check():
            problems.append(f"{c.name}: the peer's poison was not seen")
        flash.run()
        if flash.check():
            problems.append(f"{c.name}: the peer: {flash.check()}")
    return "; ".join(problems[:3])


try:
    import torch as real_torch
except ImportError:
    cases.skip("attention's reference and verdicts", "PyTorch is not installed")
else:
    cases.check("attention's reference is the definition", check_attention_rows(real_torch))
    if os.path.exists(f"{build}/attention/libgrout_attention_sim.so"):
        cases.check("attention's verdicts see what is wrong", check_attention_verdicts(real_torch))
    else:
        cases.skip("attention's verdicts see what is wrong", "libgrout_attention_sim.so is not built")


# --- The GPU's clock, on a device that only notes what it is asked -----------------------------------------------------------------

class Noted:
    """What GpuClock uses of PyTorch. A run takes 250 us of the device's time, a flush 40."""

    def __init__(self):
        self.log, self.now, self.cuda, self.uint8 = [], 0.0, self, "uint8"

    def Event(self, enable_timing):
        return NotedEvent(self) if enable_timing else None

    def synchronize(self):
        self.log.append("synchronize")

    def get_device_properties(self, _):
        return type("Properties", (), {"L2_cache_size": 50})

    def empty(self, size, dtype, device):
        self.log.append(f"empty {size} {dtype} {device}")
        return type("Buffer", (), {"zero_": lambda _: self.spend("flush", 40)})()

    def spend(self, what, us):
        self.log.append(what)
        self.now += us

    def CUDAGraph(self):
        return type("Graph", (), {"replay": lambda _: self.spend("replay", 1000)})()

    def graph(self, _):
        return contextlib.nullcontext()


class NotedEvent:
    def __init__(self, device):
        self.device = device

    def record(self):
        self.device.log.append("event")
        self.time = self.device.now

    def elapsed_time(self, end):
        return (end.time - self.time) * 1e-3


noted = Noted()
clock = peers.GpuClock(noted)
us, wall = clock.batch(lambda: noted.spend("run", 250), 3, False)
equal("warm: events around the batch", (round(us, 6), wall > 0, noted.log),
      (250, True, ["synchronize", "event", "run", "run", "run", "event", "synchronize"]))
noted.log.clear()
us, wall = clock.batch(lambda: noted.spend("run", 250), 2, True)
equal("cold: each run between its own events, the flush before them, of twice L2; then one call by the host's clock",
      (round(us, 6), wall > 0, noted.log),
      (250, True, ["synchronize", "empty 100 uint8 cuda", "flush", "event", "run", "event", "flush", "event", "run", "event",
                   "synchronize", "flush", "synchronize", "run", "synchronize"]))
noted.log.clear()
clock.captured(lambda: noted.spend("run", 250), 3)()
equal("a graph", noted.log, ["run", "run", "run", "replay"])


# --- Where the source is from ------------------------------------------------------------------------------------------------

with tempfile.TemporaryDirectory() as folder:
    for said, expected in (("", ("unknown", False)), ("abc1234", ("abc1234", False)), ("abc1234 dirty", ("abc1234", True))):
        os.makedirs(os.path.join(folder, "tests/tools"), exist_ok=True)
        for name in ("torch_peers.py", "grout_c.py"):
            shutil.copy(os.path.join(root, "tests/tools", name), os.path.join(folder, "tests/tools"))
        done = subprocess.run([sys.executable, "-c", "import torch_peers; print(torch_peers.source_state())"], stdout=subprocess.PIPE, text=True,
                              cwd=os.path.join(folder, "tests/tools"), env={**os.environ, "GROUT_COMMIT": said, "GIT_CEILING_DIRECTORIES": folder})
        equal(f"without git: GROUT_COMMIT is '{said}'", done.stdout.strip(), str(expected))


# --- The program -------------------------------------------------------------------------------------------------------------

def run(*arguments, environment=None):
    done = subprocess.run([sys.executable, program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={**os.environ, **(environment or {})})
    return done.returncode, done.stdout + done.stderr


with tempfile.TemporaryDirectory() as folder:
    with open(os.path.join(folder, "torch.py"), "w", encoding="utf-8") as file:
        file.write('raise ImportError("none of that name")\n')
    code, output = run(build, environment={"PYTHONPATH": folder})
    right = code == 77 and len(output.splitlines()) == 1 and "PyTorch is not installed" in output and "pip install torch" in output
    cases.check("without PyTorch: 77, and what to do", None if right else f"{code} {output}")

    code, output = run(build, "--device", "sim", "--suite", "attention", "--only", "no such name", "nor this")
    if code != 77:
        cases.check("texts that no case holds: 2, and what they were", None if code == 2 and "no case holds 'no such name' or 'nor this'" in output
                    else f"{code} {output}")
    for device in ("sim", "gpu"):
        record = os.path.join(folder, f"{device}.json")
        only = ["--only", "4095", "at 3,5"] if device == "gpu" else []
        code, output = run(build, "--device", device, "--quick", "--json", record, *only)
        name = f"{device}: crops, products and attention paired with PyTorch's"
        if code == 77:
            cases.skip(name, next(line for line in output.splitlines() if line.startswith("not possible here")))
            continue
        if code:
            cases.check(name, f"{code} {output[-2000:]}")
            continue
        with open(record, encoding="utf-8") as file:
            written = json.load(file)
        found = written["cases"]
        shown = os.path.basename(build) if os.path.isabs(build) else build
        said = written["command"].startswith(f"python3 tests/tools/torch_peers.py {shown} --device {device} --quick")
        said = said and not re.search(r"(^| )/", written["command"])
        cases.check(f"{device}: the command and the commit are written down", None if said and written["commit"] and
                    isinstance(written["dirty"], bool) else str({key: written[key] for key in ("command", "commit", "dirty")}))
        ran = {c["name"]: [p for p in c["policies"] if "refused" not in p] for c in found}
        wrong = [name for name, policies in ran.items() if len(policies) < 1 or
                 any(p["validated"] - (p["graph"] > 0) != 4 or len(p["round_us"]) != 3 or min(p["round_us"]) <= 0 for p in policies)]
        wrong += [c["name"] for c in found if c["suite"] != "attention" and len(ran[c["name"]]) != 2]
        cases.check(f"{name}: {len(found)} cases", f"{wrong} {output[-1000:]}" if wrong or not found else None)
        suites = {c["suite"] for c in found}
        cases.check(f"{device}: every suite", None if suites == {"copy", "gemm", "attention"} else str(suites))
cases.finish()
