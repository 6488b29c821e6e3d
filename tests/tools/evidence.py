#!/usr/bin/env python3
"""The figures of the READMEs, made from the measurements in tests/evidence, and the rule that there are no others.

evidence.py                    compares; exit 1 where a README differs, a file is missing or does not follow from its rounds, or a
                               figure of speed stands outside the generated blocks
evidence.py --write            writes the blocks into the READMEs
evidence.py --samples FOLDER   for development: prints the blocks that follow from FOLDER/gemm, attention, copy and self/results.json,
                               FOLDER/torch.json and FOLDER/attention/torch_attention_warm.json, without the rows of cases that
                               are missing there

A block is what stands between <!-- figures: NAME --> and <!-- end of figures -->; the function NAME below makes it. Medians and
ratios are computed from the rounds, by the rules of compare/record.h and report.cpp, and what is stored beside them must agree."""
import bisect
import dataclasses
import difflib
import itertools
import json
import math
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import torch_peers
from report import Cases
from torch_peers import Attention, median, paired_ratio

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAYOUTS = ("nn", "nt", "tn", "tt")
TORCH, TORCH_ATTENTION = "torch_copy_h200.json", "torch_attention_warm_h200.json"
FORMAT, VERSION = "grout comparison", 1
BEGIN, END = re.compile(r"<!-- figures: (\w+) -->"), "<!-- end of figures -->"
NONE = "no figure"
HEADLINE_MARK = "\x01"  # around a cell; becomes ** in a block that has sweeps too


class Problem(Exception):
    """One sentence."""


# ---- what a file says, and whether it follows from its rounds ----

def protocols(text):
    """{name: fields} of the two protocols in compare/record.h."""
    found = {}
    for name, rounds, batches, batch_ms, warm_up_ms, settle_ms in re.findall(
            r'inline Protocol \w+\(bool cold\) \{ return \{"(\w+)", (\d+), (\d+), ([\d.]+), ([\d.]+), ([\d.]+), cold\}; \}', text):
        found[name] = {"name": name, "rounds": int(rounds), "batches": int(batches), "batch_ms": float(batch_ms),
                       "warm_up_ms": float(warm_up_ms), "settle_ms": float(settle_ms)}
    if sorted(found) != ["headline", "sweep"]:
        raise Problem(f"compare/record.h: the protocols {sorted(found)} were read, not headline and sweep")
    return found


PROTOCOLS = protocols((ROOT / "compare/record.h").read_text(encoding="utf-8"))


def has_figure(sample):
    return not sample["failure"] and bool(sample["round_us"])


def derived(case):
    """What results.json stores beside the rounds of a case: ({sample: times}, [pair], counts), as json.cpp writes them."""
    samples = {s["name"]: s for s in case["samples"]}
    times = {name: {"us": median(s["round_us"]), "wall_us": median(s["round_wall_us"])} if has_figure(s) else {}
             for name, s in samples.items()}
    pairs = []
    for pair in case["pairs"]:
        base, candidate = samples[pair["base"]], samples[pair["candidate"]]
        if not (has_figure(base) and has_figure(candidate)):
            pairs.append({"validated_pairs": 0, "verdict": "no figure"})
            continue
        middle, low, high = paired_ratio(base["round_us"], candidate["round_us"])
        rates = base["flops"] > 0 and candidate["flops"] > 0 and base["flops"] != candidate["flops"]
        if rates:
            more = candidate["flops"] / base["flops"]
            middle, low, high = middle * more, low * more, high * more
        pairs.append({"validated_pairs": min(base["validated"], candidate["validated"]) - 1,
                      "verdict": "faster" if low > 1 else "slower" if high < 1 else "even",
                      "ratio_of": "rates" if rates else "times", "ratio": middle, "low": low, "high": high})
    counts = {
        "validated_pairs": sum(p["validated_pairs"] for p in pairs),
        "validations": sum(s["validated"] for s in case["samples"]),
        "failures": sum(not has_figure(s) for s in case["samples"])
    }
    return times, pairs, counts


def title(case):
    return f"{case['suite']} {case['name']}, L2 {'cold' if case['protocol']['cold'] else 'warm'}"


def check_rounds(where, sample, rounds, validations):
    """A sample either has a failure and no rounds, or all its rounds and all its validations."""
    lists = [sample["round_us"], sample["round_wall_us"]]
    if sample["failure"] or not any(lists):
        if any(lists) or not sample["failure"]:
            raise Problem(f"{where}: it has figures and a failure, or neither")
        return
    if [len(times) for times in lists] != [rounds, rounds] or not all(0 < us < math.inf for us in itertools.chain(*lists)):
        raise Problem(f"{where}: it has not {rounds} rounds of positive times")
    if sample["role"] != "ceiling" and sample["validated"] != validations:
        raise Problem(
            f"{where}: it was validated {sample['validated']} times, and {validations} are one before and one after each round")


def check_source(run, file):
    if not run["command"] or not re.fullmatch(r"[0-9a-f]{7,40}", run["commit"]):
        raise Problem(f"{file}: it does not say which command at which commit made it, but '{run['command']}' at '{run['commit']}'")


def verify(data, file):
    """Raises Problem where the stored figures of a comparison do not follow from its rounds."""
    if (data.get("format"), data.get("version")) != (FORMAT, VERSION):
        raise Problem(f"{file}: it is no {FORMAT} of version {VERSION}")
    for run in data["runs"]:
        check_source(run, file)
    seen, total = set(), {"validated_pairs": 0, "validations": 0, "failures": 0}
    for case in data["cases"]:
        where = f"{file}: {title(case)}"
        if not 0 <= case["run"] < len(data["runs"]):
            raise Problem(f"{where}: its run is {case['run']}, and there are {len(data['runs'])}")
        if where in seen:
            raise Problem(f"{where}: it stands twice")
        seen.add(where)
        protocol = PROTOCOLS[case["protocol"]["name"]]
        if case["protocol"] != {**protocol, "cold": case["protocol"]["cold"]}:
            raise Problem(f"{where}: its protocol is not the {protocol['name']} of compare/record.h")
        for s in case["samples"]:
            check_rounds(f"{where}, {s['name']}", s, protocol["rounds"], protocol["rounds"] + 1)
            if has_figure(s) and not s["error"] <= s["bound"]:
                raise Problem(f"{where}, {s['name']}: its error exceeds the bound, and yet it has figures")
            if has_figure(s) and s["role"] != "ceiling" and not s["elements"] > 0:
                raise Problem(f"{where}, {s['name']}: nothing was compared, and yet it has figures")
            if s.get("settle_ms", 0) not in (0, protocol["settle_ms"]):
                raise Problem(f"{where}, {s['name']}: it settled for {s['settle_ms']:g} ms; 0 and {protocol['settle_ms']:g} exist")
        times, pairs, counts = derived(case)
        for s in case["samples"]:
            if {key: s[key] for key in ("us", "wall_us") if key in s} != times[s["name"]]:
                raise Problem(
                    f"{where}, {s['name']}: the stored times do not follow from the rounds, which give {times[s['name']]}")
        for stored, expected in zip(case["pairs"], pairs):
            if stored != {"base": stored["base"], "candidate": stored["candidate"], **expected}:
                raise Problem(f"{where}, {stored['candidate']} over {stored['base']}: the stored ratio does not follow from the "
                              f"rounds, which give {expected}")
        if case["counts"] != counts:
            raise Problem(f"{where}: the stored counts do not follow from the samples, which give {counts}")
        total = {key: total[key] + counts[key] for key in total}
    if data["counts"] != total:
        raise Problem(f"{file}: the stored counts do not follow from the cases, which give {total}")


def is_torch(file):
    """Is it what torch_peers.py wrote? By its name."""
    return file.startswith("torch_")


def verify_torch(data, file):
    """The same for what torch_peers.py --json writes, which stores no derived figures."""
    for name, protocol in (("headline", torch_peers.HEADLINE), ("sweep", torch_peers.SWEEP)):
        # A policy's batches follow one another there: the median is of settled ones without waiting for that.
        rest = {key: value for key, value in PROTOCOLS[name].items() if key != "settle_ms"}
        if vars(protocol) != {**rest, "cold": False}:
            raise Problem(f"tests/tools/torch_peers.py: its {name} is not that of compare/record.h")
    missing = [key for key in ("command", "commit", "dirty", "device", "versions", "cases") if key not in data]
    if missing:
        raise Problem(f"{file}: it does not say its {', '.join(missing)}")
    check_source(data, file)
    seen = set()
    for case in data["cases"]:
        where = f"{file}: {case['suite']} {case['name']}, L2 {case['mode']}"
        if where in seen:
            raise Problem(f"{where}: it stands twice")
        seen.add(where)
        rounds = PROTOCOLS[case["protocol"]]["rounds"]
        failed = any(p["failure"] for p in case["policies"])
        for p in case["policies"]:
            if failed:  # then no policy of the case has a figure
                p = {**p, "failure": p["failure"] or "another policy of the case failed"}
            if p.get("refused"):
                p = {**p, "failure": p["refused"]}
            check_rounds(f"{where}, {p['name']}", p, rounds, rounds + 1 + (p["graph"] > 0))


class Evidence:
    """A file of tests/evidence."""

    def __init__(self, data, file):
        self.data, self.file = data, file
        (verify_torch if is_torch(file) else verify)(data, file)
        cold = lambda case: case["mode"] == "cold" if is_torch(file) else case["protocol"]["cold"]
        self.cases = {(case["suite"], case["name"], cold(case)): case for case in data["cases"]}


# ---- blocks ----

class Block:
    """What a block is made of: the cases it looked up, which its last lines speak of."""

    def __init__(self, evidence, tolerant=False):
        self.evidence, self.tolerant, self.used = evidence, tolerant, []

    def case(self, suite, name, cold=False, optional=False):
        found = self.evidence.cases.get((suite, name, cold))
        if found is None:
            if self.tolerant or optional:
                return None
            raise Problem(f"{self.evidence.file}: the case {suite} {name}, L2 {'cold' if cold else 'warm'}, is missing")
        if not any(found is other for other in self.used):
            self.used.append(found)
        return found

    def protocols_used(self):
        names = {c["protocol"] if isinstance(c["protocol"], str) else c["protocol"]["name"] for c in self.used}
        return [name for name in PROTOCOLS if name in names]

    def failures(self):
        lines = []
        for case in self.used:
            torch = "policies" in case
            label = f"{case['name']}, L2 {case['mode']}" if torch else title(case).partition(" ")[2]
            lines += [
                f"No figure: {label}, {s['name']}: {s['failure']}" for s in case["policies" if torch else "samples"]
                if s["failure"]
            ]
        return lines

    def origin(self):
        """The line that says where the figures come from."""
        if not self.used:
            return "None of its cases is there."
        data, used = self.evidence.data, self.protocols_used()
        torch = is_torch(self.evidence.file)
        runs = [data] if torch else [data["runs"][i] for i in sorted({c["run"] for c in self.used})]
        made = []
        for run in runs:
            versions = ", ".join(f"{name} {value}" for name, value in run["versions"].items())
            made.append(f"`{command_text(run['command'])}` at commit {run['commit'][:10]}"
                        f"{' and changes to it' if run['dirty'] else ''}, {run['device']}, {versions}")
        made = list(dict.fromkeys(made))  # resumed: one command, several runs
        modes = sorted({c["mode"] if torch else "cold" if c["protocol"]["cold"] else "warm" for c in self.used}, reverse=True)
        settled = {c["protocol"]["name"] for c in self.used for s in c.get("samples", ()) if s.get("settle_ms")}
        rules = "; ".join(f"{name}{' (bold)' if name == 'headline' and len(used) > 1 else ''}: {protocol_text(PROTOCOLS[name])}" +
                          (f", {PROTOCOLS[name]['settle_ms']:g} ms of settling where the clocks drift" if name in settled else "")
                          for name in used)
        file = self.evidence.file
        return f"{'; '.join(made)}; {rules}; L2 {' and '.join(modes)}; [{file}](../tests/evidence/{file})"


def command_text(command):
    """The command as one types it in the project's root: the folder that it wrote to is anybody's."""
    words = command.split()
    if words[0] == "compare":
        return " ".join(["./run", *words[:2], "OUT", *words[3:]])
    return re.sub(r"(--json) \S+", r"\1 FILE", command)


def protocol_text(p):
    batches = f"{p['batches']} batch{'es' if p['batches'] > 1 else ''}"
    return f"{p['rounds']} rounds of {batches} of {p['batch_ms']:g} ms after {p['warm_up_ms']:g} ms of warm-up"


def headline(case, text):
    name = case["protocol"] if isinstance(case["protocol"], str) else case["protocol"]["name"]
    return f"{HEADLINE_MARK}{text}{HEADLINE_MARK}" if name == "headline" and text else text


def find(case, name):
    for s in case["samples"]:
        if s["name"] == name:
            return s
    raise Problem(f"{title(case)}: the sample {name} is missing")


def time_text(us):
    return NONE if us is None else f"{us:.0f}" if us >= 1000 else f"{us:.1f}" if us >= 100 else f"{us:.2f}"


def us_of(sample):
    return median(sample["round_us"]) if sample is not None and has_figure(sample) else None


def wall_of(sample):
    return median(sample["round_wall_us"]) if sample is not None and has_figure(sample) else None


def us_text(sample):
    return time_text(us_of(sample))


def wall_text(sample):
    return time_text(wall_of(sample))


def tflops_of(sample):
    return sample["flops"] / us_of(sample) * 1e-6 if sample is not None and has_figure(sample) else None


def gbs_of(sample):
    return sample["bytes"] / us_of(sample) * 1e-3 if has_figure(sample) else None


def number(value, digits):
    return NONE if value is None else f"{value:.{digits}f}"


def ratio(base, candidate):
    """(median, low, high) of two samples of a case, of their rates where the FLOPs differ; None without figures."""
    if base is None or not has_figure(base) or not has_figure(candidate):
        return None
    more = candidate["flops"] / base["flops"] if base["flops"] > 0 and candidate["flops"] > 0 else 1
    return tuple(value * more for value in paired_ratio(base["round_us"], candidate["round_us"]))


def ratio_text(r):
    return NONE if r is None else f"{r[0]:.3f} [{r[1]:.3f}, {r[2]:.3f}]"


def cublas(case, suffix=""):
    """The faster of the two ways into cuBLAS; None where neither has a figure."""
    both = [find(case, name + suffix) for name in ("cublasGemmEx", "cublasLt")]
    return min(filter(has_figure, both), key=us_of, default=None)


def of_cublas(case, candidate="grout"):
    return ratio(cublas(case), find(case, candidate))


def share(case, sample):
    """Of the compute ceiling: the time at which the sample's FLOPs would arrive at its rate, over the sample's time."""
    ceiling = next((s for s in case["samples"] if s["role"] == "ceiling" and s["flops"] > 0), None)
    if ceiling is None:
        raise Problem(f"{title(case)}: there is no compute ceiling")
    if not has_figure(ceiling) or not has_figure(sample):
        return None
    return us_of(ceiling) * sample["flops"] / ceiling["flops"] / us_of(sample)


def summed(*samples):
    """Microseconds of samples that run one after the other: the median of the rounds' sums."""
    if not all(s is not None and has_figure(s) for s in samples):
        return None
    return median([sum(times) for times in zip(*(s["round_us"] for s in samples))])


def spread(values, digits):
    values = [value for value in values if value is not None]
    if not values:
        return NONE
    low, high = f"{min(values):.{digits}f}", f"{max(values):.{digits}f}"
    return low if low == high else f"{low} to {high}"


def row(*cells):
    return "| " + " | ".join(cells) + " |"


def table(header, alignment, rows):
    """A table; `alignment`: l or r for each column."""
    return [row(*header), "|" + "|".join("---:" if a == "r" else "---" for a in alignment) + "|", *(row(*cells) for cells in rows)]


def comma(extents):
    return ", ".join(map(str, extents))


# ---- gemm ----

def gemm_name(extents, layout, kind, element="bf16", launched=False):
    return f"{'x'.join(map(str, extents))} {layout} {element} {kind}{' launched' if launched else ''}"


def cube(n):
    return n, n, n


RAGGED = [(tuple(n - (axis == i) for i in range(3)), f"{'MNK'[axis]} ragged") for n in (8192, 4096) for axis in range(3)]
ODD = [(cube(n), "ragged") for n in (8191, 4095, 2047, 1023)]
ALIGNED = [(cube(n), "aligned") for n in (8192, 4096, 2048, 1024)]
SMALLEST = (65, 97, 73)
F32_LARGE = [(cube(n), "aligned") for n in (1024, 2048, 4096)] + [(cube(4095), "ragged")]
F32_SMALL = [cube(32), cube(128), (127, 193, 61), (513, 257, 129)]
BATCHED = [cube(32), cube(128), cube(512), cube(1024), (256, 1024, 128), (1024, 128, 256), (127, 193, 61), (513, 257, 129)]


def by_layout(block, extents, kind, element="bf16"):
    """{layout: case}, as far as there are any."""
    kind = kind.rpartition(" ")[2]  # "M ragged" is a ragged case
    found = {layout: block.case("gemm", gemm_name(extents, layout, kind, element)) for layout in LAYOUTS}
    return {layout: case for layout, case in found.items() if case is not None}


def gemm_bf16(block):
    rows, ceilings = [], []
    for extents, kind in ALIGNED + RAGGED + ODD:
        cases = by_layout(block, extents, kind)
        if not cases:
            continue
        cells = {
            layout: headline(c, f"{number(tflops_of(find(c, 'grout')), 0)} ({number(tflops_of(cublas(c)), 0)})")
            for layout, c in cases.items()
        }
        ceilings += [tflops_of(find(c, "mma.sync ceiling")) for c in cases.values()]
        neighbours = [ratio(find(c, "grout neighbour"), find(c, "grout")) for c in cases.values()] if kind != "aligned" else []
        rows.append([comma(extents), kind, *(cells.get(layout, "") for layout in LAYOUTS),
                     spread([share(c, find(c, "grout")) for c in cases.values()], 3),
                     spread([r and r[0] for r in neighbours], 3) if neighbours else "",
                     spread([r and r[0] for r in map(of_cublas, cases.values())], 3)])
    lines = table(["M, N, K", "kind", *LAYOUTS, "of the `mma.sync` ceiling", "of the aligned neighbour", "of cuBLAS"],
                  "llrrrrlll", rows)
    small = by_layout(block, SMALLEST, "ragged").values()
    lines += ["", f"The ceiling itself: {spread(ceilings, 0)} TFLOP/s."]
    if small:
        graphs = {find(c, "grout")["graph"] for c in small if has_figure(find(c, "grout"))}
        lines[-1] += (f" {comma(SMALLEST)}: {spread([us_of(find(c, 'grout')) for c in small], 2)} us, cuBLAS "
                      f"{spread([us_of(cublas(c)) for c in small], 2)} us, in CUDA graphs of {comma(sorted(graphs))} runs.")
    return lines


def gemm_padding(block):
    rows = []
    for extents, _ in [r for r in RAGGED if r[1] != "M ragged"] + ODD + [(SMALLEST, "")]:
        c = block.case("gemm", gemm_name(extents, "nn", "ragged"))
        if c is None:
            continue
        ours, padded = find(c, "grout"), find(c, "grout padded")
        into, out, transfer = (find(c, name) for name in ("padding of A and B", "unpadding of D", "transfer of A and B"))
        peer, peer_padded = cublas(c), cublas(c, " padded")
        cells = [us_of(ours), us_of(padded), us_of(into), us_of(out), summed(padded, into, out), us_of(peer), us_of(peer_padded),
                 summed(peer_padded, into, out), us_of(transfer), summed(ours, transfer)]
        rows.append([headline(c, comma(extents)), *map(time_text, cells), ratio_text(ratio(padded, ours))])
    return table([
        "M, N, K", "compact", "padded", "padding of A and B", "unpadding of D", "sum of these three", "cuBLAS: compact", "padded",
        "with both copies", "transfer of A and B", "compact with transfer", "padded time over compact time"
    ], "l" + "r" * 11, rows)


def gemm_revisions(block):
    rows, commits = [], set()
    for extents, kind in ALIGNED:
        for layout, c in by_layout(block, extents, kind).items():
            ours, pinned = find(c, "grout"), find(c, "pinned")
            commits.add(pinned["requested"]["commit"][:10])
            rows.append([comma(extents), layout, headline(c, ratio_text(ratio(pinned, ours))),
                         headline(c, ratio_text(ratio(find(c, "grout bounded"), ours)))])
    lines = table(["M, N, K", "layout", "over the earlier revision", "aligned path over bounded path"], "llrr", rows)
    return lines + ["", f"The earlier revision is {comma(sorted(commits))}."]


def gemm_f32(block):
    rows = []
    for extents, kind in F32_LARGE:
        cases = by_layout(block, extents, kind, "f32")
        if not cases:
            continue
        cells = {}
        for layout, c in cases.items():
            r = of_cublas(c)
            cells[layout] = headline(c, f"{number(tflops_of(find(c, 'grout')), 1)} ({number(r and r[0], 3)})")
        rows.append([comma(extents), kind, *(cells.get(layout, "") for layout in LAYOUTS),
                     spread([share(c, find(c, "grout")) for c in cases.values()], 3)])
    lines = table(["M, N, K", "kind", *LAYOUTS, "of the FMA ceiling"], "llrrrrl", rows)
    rows = []
    for extents in F32_SMALL:
        cases = [(layout, block.case("gemm", gemm_name(extents, layout, "ragged", "f32"))) for layout in LAYOUTS]
        cases.append(("nn", block.case("gemm", gemm_name(extents, "nn", "ragged", "f32", launched=True))))
        for layout, c in cases:
            if c is None:
                continue
            ours, peer = find(c, "grout"), cublas(c)
            runs = f"graph of {ours['graph']}" if ours["graph"] else "launched"
            rows.append([comma(extents), layout, runs, us_text(ours), wall_text(ours), us_text(peer),
                         wall_text(peer), headline(c, ratio_text(of_cublas(c)))])
    return lines + [""] + table(["M, N, K", "layout", "runs", "us", "wall us", "cuBLAS: us", "wall us", "of cuBLAS"], "lllrrrrr",
                                rows)


def gemm_batched(block):
    rows, validated, wanted = [], 0, 0
    for extents in BATCHED:
        c = block.case("gemm", gemm_name(extents, "nn", "batched", "f32"))
        if c is None:
            continue
        one, four, peer = find(c, "batch 1"), find(c, "batch 4"), cublas(c)
        validated += sum(s["validated"] - 1 for s in (one, four) if has_figure(s))
        wanted += 2 * c["protocol"]["rounds"]
        rows.append([comma(extents), us_text(one), us_text(four), ratio_text(ratio(one, four)), us_text(peer)])
    # A policy that failed in any round has no figure and counts for none.
    if not block.tolerant and (validated, wanted) != (64, 64):
        raise Problem(f"{block.evidence.file}: {validated} of {wanted} (case, policy, round) were validated; "
                      "8 cases x 2 policies x 4 rounds = 64 are needed")
    return table(["M, N, K", "batch 1, us", "batch 4, us", "speed-up", "cuBLAS, us"], "lrrrr", rows) + [
        "", f"{validated} of {wanted} validated: each case, each of the two batches, after each round."]


RANDOM_LIMITS = (2**25, 2**30)
RANDOM_CLASSES = ("below 2^25", "between", "2^30 and more")


def gemm_random(block):
    rows = []
    for element, expected in (("bf16", 50), ("f32", 20)):
        shapes = {}
        for (suite, name, cold), c in block.evidence.cases.items():
            if c["shape"].get("kind") == "random" and c["shape"]["type"] == element and not cold:
                shapes.setdefault(tuple(int(c["shape"][x]) for x in "mnk"), {})[c["shape"]["layout"]] = block.case(suite, name)
        if not block.tolerant and (len(shapes) != expected or any(sorted(found) != list(LAYOUTS) for found in shapes.values())):
            raise Problem(f"{block.evidence.file}: {len(shapes)} random shapes of {element} are there; {expected} are needed, "
                          "in four layouts each")
        classes = [[], [], []]
        for extents, cases in shapes.items():
            classes[bisect.bisect_right(RANDOM_LIMITS, math.prod(extents))].append((extents, cases))
        for name, members in zip(RANDOM_CLASSES, classes):
            found = [(r[0], f"{comma(extents)} {layout}") for extents, cases in members for layout, c in cases.items()
                     if (r := of_cublas(c))]
            if not members:
                continue
            worst = min(found, default=None)
            rows.append([element, name, str(len(members)), f"{worst[0]:.2f} ({worst[1]})" if worst else NONE,
                         number(median([r for r, _ in found]) if found else None, 2), number(max(found)[0] if found else None, 2)])
    return table(["type", "M N K", "shapes", "of cuBLAS: worst", "median", "best"], "llrlrr", rows)


def gemm_cold(block):
    rows = []
    for extents, kind, element in ((cube(8192), "aligned", "bf16"), (cube(1024), "aligned", "bf16"), (cube(8191), "ragged", "bf16"),
                                   (cube(1023), "ragged", "bf16"), (cube(4096), "aligned", "f32")):
        name = gemm_name(extents, "nn", kind, element)
        c, warm = block.case("gemm", name, cold=True), block.case("gemm", name)
        if c is None:
            continue
        ours, peer = find(c, "grout"), cublas(c)
        rows.append([comma(extents), kind, element, us_text(ours), wall_text(ours), us_text(peer), wall_text(peer),
                     ratio_text(of_cublas(c)), ratio_text(of_cublas(warm)) if warm else ""])
    return table(["M, N, K", "kind", "type", "cold: us", "one call, us", "cuBLAS: us", "one call, us", "of cuBLAS, cold", "warm"],
                 "lllrrrrrr", rows)


# ---- copy ----

def crop_name(element, rows, cols, pitch, origin, kernels=""):
    return f"crop {rows}x{cols} {element} at {origin[0]},{origin[1]} of pitch {pitch}{kernels and ', ' + kernels}"


CROPS = [
    crop_name("bf16", 16384, 16384, 16387, (1, 1)),
    crop_name("bf16", 16384, 16384, 16512, (64, 64)),
    crop_name("bf16", 16384, 16384, 16400, (1, 8)),
    crop_name("f32", 8192, 8192, 8195, (1, 1)),
    crop_name("bf16", 1000, 1000, 1003, (1, 1))
]
LADDER = crop_name("bf16", 8192, 8192, 8200, (1, 8), "ladder")
BATCHED_CROPS = [crop_name(element, rows, cols, (cols + 3) | 1, (1, 1), "batched")
                 for rows, cols in ((4096, 4096), (4095, 4097), (1000, 1000), (127, 193)) for element in ("bf16", "f32")]


def repack_name(element, rows, cols, stride, transposed):
    how = " transposed" if transposed else f" stride {stride}" if stride != 1 else ""
    return f"repack {rows}x{cols} {element}{how} of pitch {(rows if transposed else cols * stride) | 1}"


REPACKS = [
    repack_name("bf16", rows, cols, stride, transposed)
    for rows, cols in ((8191, 8191), (16383, 8193), (4095, 4095), (2047, 2047))
    for stride, transposed in ((1, False), (1, True), (2, False), (3, False))
]
REPACKS += [repack_name("f32", 8191, 8191, *how) for how in ((1, False), (2, False), (3, False), (1, True))]


def of_memcpy(case, kernel):
    return ratio(find(case, "cudaMemcpy"), find(case, kernel))


def copy_ladder(block, current):
    """Its last column; the others are the README's own."""
    c = block.case("copy", LADDER)
    lines = [line for line in current if line.startswith("|")]
    if len(lines) < 3:
        raise Problem("copy/README.md: the block copy_ladder has no table of which to fill the last column")
    kernels = []
    for i, line in enumerate(lines[2:], 2):
        cells = line.split("|")
        named = re.search(r"copy_(\w+)\.cuh", cells[1])
        if len(cells) != 6 or named is None:
            raise Problem(f"copy/README.md: a row of the block copy_ladder is not file, idea, architecture, figure: {line}")
        kernels.append(named.group(1))
        s, r = (find(c, kernels[-1]), of_memcpy(c, kernels[-1])) if c else (None, None)
        cells[-2] = f" {headline(c, f'{gbs_of(s):.0f} ({r[0]:.2f})') if r else NONE} "
        lines[i] = "|".join(cells)
    policies = [s["name"] for s in c["samples"] if s["role"] == "policy"] if c else kernels
    if sorted(kernels) != sorted(policies):
        raise Problem(
            f"copy/README.md: the block copy_ladder has the kernels {comma(kernels)}, and {comma(policies)} were measured")
    return lines


def warm_and_cold(block, cases, first, kernels_of):
    rows = []
    for kernel, name in [(kernel, name) for kernel in kernels_of for name in cases]:
        warm, cold = block.case("copy", name), block.case("copy", name, cold=True)
        if warm is None or cold is None:
            continue
        s = find(warm, kernel)
        rows.append([*([kernel] if len(kernels_of) > 1 else []), name.partition(" ")[2], us_text(s), number(gbs_of(s), 0),
                     headline(warm, ratio_text(of_memcpy(warm, kernel))), headline(cold, ratio_text(of_memcpy(cold, kernel)))])
    left = ["kernel", first] if len(kernels_of) > 1 else [first]
    return table([*left, "warm: us", "GB/s", "of `cudaMemcpy`, warm", "of `cudaMemcpy`, cold"], "l" * len(left) + "rrrr", rows)


def copy_crops(block):
    return warm_and_cold(block, CROPS, "crop", ("stream", "bounded"))


def copy_repack(block):
    return warm_and_cold(block, REPACKS, "matrix", ("repack",))


def copy_batched(block):
    rows = []
    for name in BATCHED_CROPS:
        c = block.case("copy", name)
        if c is None:
            continue
        one, four, sixteen = (find(c, f"batch {batch}") for batch in (1, 4, 16))
        realised = int(sixteen["realised"].get("batch", 16)) if has_figure(sixteen) else 16
        rows.append([name.partition(" ")[2].removesuffix(", batched"), us_text(one), us_text(four),
                     us_text(sixteen) + (f" (realised {realised})" if realised != 16 else ""), ratio_text(ratio(one, four)),
                     ratio_text(ratio(one, sixteen)), us_text(find(c, "bounded")), us_text(find(c, "cudaMemcpy"))])
    return table([
        "crop", "batch 1, us", "batch 4, us", "batch 16, us", "batch 4 over 1", "batch 16 over 1", "`copy_bounded`, us",
        "`cudaMemcpy`, us"
    ], "lrrrrrrr", rows)


def copy_loads(block):
    rows = []
    walk = block.case("copy", "loads of a GEMM, 8192x8192x8192 in stages of 128x64 + 256x64")
    if walk:
        s = find(walk, "ring walk")
        rows.append([
            "loads of a GEMM of 8192, 8192, 8192, nothing else",
            us_text(s), f"{number(gbs_of(s) and gbs_of(s) * 1e-3, 2)} TB/s"
        ])
    for name, how in (("a launch that writes one word", "in a CUDA graph"), ("a launch that writes one word, launched",
                                                                             "launched one by one")):
        c = block.case("copy", name)
        if c:
            s = find(c, "one word")
            if has_figure(s) and bool(s["graph"]) != (how == "in a CUDA graph"):
                raise Problem(f"{block.evidence.file}: {title(c)} was run in graphs of {s['graph']} runs")
            rows.append([f"a kernel that writes one word, {how}{' of ' + str(s['graph']) if s['graph'] else ''}", us_text(s), ""])
    return table(["what", "us", "rate"], "lrr", rows)


def policies_of(case):
    """{name: policy} of a case of torch_peers.py, with the case's FLOPs and bytes."""
    return {p["name"]: {**p, "flops": case["flops"], "bytes": case["bytes"]} for p in case["policies"]}


def copy_torch(block):
    rows = []
    for arguments in torch_peers.COPY_CASES:
        name = torch_peers.crop_name(*arguments)
        c, cold = block.case("copy", name), block.case("copy", name, cold=True, optional=True)
        if c is None:
            continue
        figures = []
        for each in (c, cold):
            by_name = policies_of(each) if each else {}
            figures.append((by_name.get("grout"), by_name.get("torch")))
        ours, torch = figures[0]
        rows.append([
            name, ours["realised"]["path"] if has_figure(ours) else "",
            us_text(ours),
            number(gbs_of(ours), 0),
            us_text(torch),
            headline(c, ratio_text(ratio(torch, ours))),
            headline(cold, ratio_text(ratio(*reversed(figures[1])))) if cold else ""
        ])
    header = ["crop", "path", "us", "GB/s", "PyTorch, us", "of PyTorch, warm", "cold"]
    if not any(cells[-1] for cells in rows):
        header, rows = header[:-1], [cells[:-1] for cells in rows]
    return table(header, "llrrrrr"[:len(header)], rows)


# ---- attention ----

# The cases of compare/attention_suite.cu, which have the same names in torch_peers.py, without a mask; causal ones follow.
ATTENTION_SHAPES = [(batch, heads, length, dim) for heads, dim in ((16, 128), (32, 64), (8, 256))
                    for batch, length in ((16, 1024), (8, 2048), (4, 4096), (2, 8192), (1, 16384))]
ATTENTION_RAGGED = [
    *(Attention(4, 16, 16, length, length, 128) for length in (4095, 4097, 1000)),
    *(Attention(4, heads, heads, 1000, 1000, dim) for heads, dim in ((32, 64), (8, 256))),
    *(Attention(4, 16, 16, 4096, 4096, dim) for dim in (72, 96, 127)),
    Attention(4, 32, 8, 4000, 4000, 128),
    Attention(2, 16, 16, 1000, 5000, 128),
    Attention(1, 4, 4, 65, 97, 72)
]
ATTENTION_PACKED = [c for c in torch_peers.attention_cases() if c.lengths and not c.causal]
ATTENTION_DECODES = [(c, cold) for batch in (1, 16) for cache in (4096, 16384, 65536) if batch * cache <= 262144
                     for c in (Attention(batch, 32, 8, 1, cache, 128), Attention(batch, 32, 8, 1, cache - 1, 128))
                     if c.k % 2 == 0 or batch * cache <= 65536 for cold in (False, True)]


def both_masks(cases):
    return [dataclasses.replace(c, causal=causal) for c in cases for causal in (False, True)]


def attention_label(c):
    return c.name.replace(" bf16", "")


def peer_text(by_name, peer):
    """Ours over a peer; the peer may have refused."""
    if peer not in by_name:
        return ""
    return "refused" if by_name[peer].get("refused") else ratio_text(ratio(by_name[peer], by_name["grout"]))


def attention_peers(block):
    rows, shown = [], set()
    for batch, heads, length, dim in ATTENTION_SHAPES:
        both = both_masks([Attention(batch, heads, heads, length, length, dim)])
        cases = [block.case("attention", c.name) for c in both]
        shown.update(c.name for c in both)
        if None in cases:
            continue
        cells = []
        for by_name, c in zip(map(policies_of, cases), cases):
            cells += [headline(c, number(tflops_of(by_name["grout"]), 0)), peer_text(by_name, "flash2"), peer_text(by_name, "cudnn")]
        rows.append([f"{batch} x {heads} x {length}", str(dim), *cells])
    lines = table([
        "sequences x heads x length", "dim", "full: TFLOP/s", "of FlashAttention-2", "of cuDNN", "causal: TFLOP/s",
        "of FlashAttention-2", "of cuDNN"
    ], "lrrrrrrr", rows)
    rows = []
    for wanted in torch_peers.attention_cases():
        c = None if wanted.name in shown else block.case("attention", wanted.name)
        if c is None:
            continue
        by_name = policies_of(c)
        rate = f"{number(gbs_of(by_name['grout']), 0)} GB/s" if wanted.q == 1 else f"{number(tflops_of(by_name['grout']), 0)} TFLOP/s"
        rows.append([attention_label(wanted), us_text(by_name["grout"]), headline(c, rate), peer_text(by_name, "flash2"),
                     peer_text(by_name, "cudnn")])
    return lines + [""] + table(["problem", "us", "rate", "of FlashAttention-2", "of cuDNN"], "lrrrr", rows)


def attention_ragged(block):
    rows = []
    for wanted in both_masks(ATTENTION_RAGGED + ATTENTION_PACKED):
        c = block.case("attention", wanted.name)
        if c is None:
            continue
        ours = find(c, "grout")
        cells = ["", ""] if wanted.lengths else [ratio_text(ratio(ours, find(c, "grout misaligned"))),
                                                 ratio_text(ratio(find(c, "unfused cublas"), ours))]
        rows.append([attention_label(wanted), us_text(ours), headline(c, number(tflops_of(ours), 0)), number(share(c, ours), 3),
                     ratio_text(ratio(find(c, "grout neighbour"), ours)), *cells])
    return table([
        "problem", "us", "TFLOP/s", "of the `mma.sync` ceiling", "of the aligned neighbour", "at odd addresses, of that",
        "of three steps with cuBLAS"
    ], "lrrrrrr", rows)


def attention_decode(block):
    rows = []
    for wanted, cold in ATTENTION_DECODES:
        c = block.case("attention", wanted.name, cold)
        if c is None:
            continue
        ours = find(c, "grout")
        rows.append([
            str(wanted.batch), str(wanted.k), "cold" if cold else "warm", us_text(ours), number(gbs_of(ours), 0),
            headline(c, ratio_text(ratio(find(c, "read of K and V"), ours))), ratio_text(ratio(find(c, "grout unsplit"), ours)),
            ratio_text(ratio(ours, find(c, "grout misaligned")))
        ])
    return table(["sequences", "keys", "L2", "us", "GB/s", "of a plain read of K and V", "of keys in one part", "at odd addresses, of that"],
                 "rrlrrrrr", rows)


# ---- compare ----

def compare_noise(block):
    rows = []
    for cold in (False, True):
        for about in ("about 1 ms", "about 1 ms at the power limit", "about 10 us"):
            c = block.case("self", about, cold)
            if c:
                once, again = find(c, "once"), find(c, "again")
                rows.append([
                    f"{c['shape']['m']}, {c['shape']['n']}, {c['shape']['k']} {c['shape']['type']}, {about}", "cold" if cold else "warm",
                    us_text(once),
                    us_text(again),
                    ratio_text(ratio(once, again))
                ])
    return table(["kernel", "L2", "once, us", "again, us", "ratio"], "llrrr", rows)


BLOCKS = {  # README: {block: file}
    "gemm/README.md": dict.fromkeys(
        ("gemm_bf16", "gemm_padding", "gemm_revisions", "gemm_f32", "gemm_batched", "gemm_random", "gemm_cold"), "compare_gemm_h200.json"),
    "copy/README.md": {
        **dict.fromkeys(("copy_ladder", "copy_crops", "copy_repack", "copy_batched", "copy_loads"), "compare_copy_h200.json"),
        "copy_torch": TORCH
    },
    "attention/README.md": {
        "attention_peers": TORCH_ATTENTION,
        **dict.fromkeys(("attention_ragged", "attention_decode"), "compare_attention_h200.json")
    },
    "compare/README.md": {"compare_noise": "compare_self_h200.json"},
}
FILES = sorted({file for blocks in BLOCKS.values() for file in blocks.values()})


def make(name, evidence, current=(), tolerant=False):
    """The lines of a block."""
    block = Block(evidence, tolerant)
    function = globals()[name]
    lines = function(block, current) if function is copy_ladder else function(block)
    for failure in block.failures():
        lines += ["", failure]
    lines += ["", block.origin()]
    mark = "**" if len(block.protocols_used()) > 1 else ""
    return [line.replace(HEADLINE_MARK, mark) for line in lines]


def blocks_of(text, readme):
    """{name: (first, last)}: the lines between the marks; text is a list of lines."""
    found, name, first = {}, None, 0
    for i, line in enumerate(text):
        begins = BEGIN.fullmatch(line)
        if begins or line == END:
            if bool(begins) == (name is not None):
                raise Problem(f"{readme}:{i + 1}: {'a block begins in another' if begins else 'a block ends that did not begin'}")
            if begins:
                if begins.group(1) in found:
                    raise Problem(f"{readme}:{i + 1}: the block {begins.group(1)} stands twice")
                name, first = begins.group(1), i + 1
            else:
                found[name], name = (first, i), None
    if name is not None:
        raise Problem(f"{readme}:{first}: the block {name} does not end")
    return found


# ---- the scan ----

NUMBER = r"(?<![\w.^])~?\d[\d,]*(?:\.\d+)?"
COUNT = r"(?:two|three|four|five|six|seven|eight|nine|ten|twenty|fifty|a hundred|several|many)"
PEERS = r"(?:cuBLAS\w*|cublas\w*|cudaMemcpy\w*|PyTorch|torch|CUTLASS|CUB|[a-z.` ]*ceiling|[a-z ]*peak|[a-z ]*neighbour)"
UNITS = (r"(?:[munµμ]?s|sec(?:ond)?s?|(?:milli|micro|nano)seconds?|[KMGTP]?i?B/s|[KMGTP]B per second|[MGTP]?FLOP/?[sS]?|[GTP]F|TOPS|"
         r"[MG]Hz)")
FIGURES = [
    re.compile(pattern) for pattern in (
        NUMBER + r"(?:[ -]*|\s*\n\s*)" + UNITS + r"(?![\w/])",
        NUMBER + r"\s+times\b",
        r"(?i)\b" + COUNT + r"(?: times (?:as|faster|slower|more|less|the|that)|fold)\b",
        r"(?i)\btwice (?:as (?:fast|slow)|the (?:speed|rate|time|throughput))",
        NUMBER + r"(?:x(?!\w)|\s?×(?!\s?\d)|\s[x×]\s+(?:as|faster|slower|of|over|the)\b)",
        NUMBER + r"x?\s+(?:of|over)\s+(?:(?:the|our|its|a|better)\s+)*`?" + PEERS,
        r"(?<![\w.])\d{1,2}\.\d{2,}(?![\w]|\.\d)",
        NUMBER + r"\s*(?:%|per\s?cent\b)",
    )
]
# What may stand outside a block nevertheless: (a piece of text, why). {headline[...]} and {sweep[...]} come from compare/record.h.
ALLOWED = [
    ("nine batches of {headline[batch_ms]:g} ms", "the protocol"),
    ("batches of {headline[batch_ms]:g} ms", "the protocol"),
    ("{headline[warm_up_ms]:g} ms of warm-up", "the protocol"),
    ("warm-up of {headline[warm_up_ms]:g} ms", "the protocol"),
    ("rounds of one batch of {sweep[batch_ms]:g} ms", "the protocol"),
    ("CMake 3.25", "a version"),
]


def outside(text):
    """The text with blocks and fenced code blanked, line by line."""
    lines, fence, block = text.split("\n"), None, False
    for i, line in enumerate(lines):
        mark = re.match(r" {0,3}(```+|~~~+)", line)
        if fence is None and BEGIN.fullmatch(line):
            block = True
        elif block:
            block = line != END
        elif fence is None and mark:
            fence = mark.group(1)
        elif fence is not None:
            if re.fullmatch(r" {0,3}" + re.escape(fence[0]) + "{" + str(len(fence)) + r",}\s*", line):
                fence = None
        else:
            continue
        lines[i] = ""
    return "\n".join(lines)


def own_cells(text):
    """The cells of the block copy_ladder that are the README's own, each in its line."""
    lines = text.split("\n")
    first, last = blocks_of(lines, "")["copy_ladder"]
    kept = [line.rsplit("|", 2)[0] if first <= i < last and line.startswith("|") else "" for i, line in enumerate(lines)]
    return "\n".join(kept)


def scan(text, name):
    """['README:line: ...'] for each figure of speed in what was written by hand."""
    for piece, _ in ALLOWED:
        words = re.escape(piece.format(**PROTOCOLS)).split(r"\ ")
        text = re.sub(r"(?<![\w.])" + r"\s+".join(words) + r"(?![\w])", lambda match: re.sub(r"\S", "_", match.group(0)), text)
    found = {}
    for pattern in FIGURES:
        for match in pattern.finditer(text):
            found.setdefault(text.count("\n", 0, match.start()) + 1, " ".join(match.group(0).split()))
    lines = text.split("\n")
    for i, (line, below) in enumerate(zip(lines, lines[1:]), 1):
        unit = re.search(r"(?<!\w)(?:[munµμ]s|[MGTP]B/s|[MGTP]FLOP/s|[MG]Hz)(?!\w)", line)
        if unit and re.fullmatch(r"\|[-:| ]+\|", below):
            found.setdefault(i, f"a table of {unit.group(0)}")
    return [f"{name}:{line}: '{what}' is a figure outside the generated blocks" for line, what in sorted(found.items())]


def readmes():
    return sorted([ROOT / "README.md", *ROOT.glob("*/README.md")])


def scan_readme(path):
    text, name = path.read_text(encoding="utf-8"), str(path.relative_to(ROOT))
    found = scan(outside(text), name)
    if "copy_ladder" in BLOCKS.get(name, {}):
        found += scan(own_cells(text), name)
    return found


# ---- the program ----

def is_empty(readme, name):
    """Whether a block holds no figure: nothing at all, or, of the ladder, an empty last column."""
    text = (ROOT / readme).read_text(encoding="utf-8").split("\n")
    places = blocks_of(text, readme)
    if name not in places:
        return True
    first, last = places[name]
    if name == "copy_ladder":
        return all(not line.split("|")[-2].strip() for line in text[first + 2:last] if line.startswith("|"))
    return not any(line.strip() for line in text[first:last])


def load(path, file):
    try:
        return Evidence(json.loads(path.read_text(encoding="utf-8")), file)
    except (ValueError, KeyError, TypeError) as error:
        raise Problem(f"{file}: it is not what a comparison writes ({type(error).__name__}: {error})") from None


def sample_of(folder, file):
    """Where a development run leaves what becomes a file of tests/evidence."""
    if file == TORCH:
        return folder / "torch.json"
    suite = file.split("_")[1]
    return folder / suite / ("torch_attention_warm.json" if file == TORCH_ATTENTION else "results.json")


def show_samples(folder):
    """Prints what follows from the results of a development run."""
    for readme, blocks in BLOCKS.items():
        text = (ROOT / readme).read_text(encoding="utf-8").split("\n")
        for name, file in blocks.items():
            path = sample_of(folder, file)
            print(f"\n## {readme}: {name}\n")
            if not path.exists():
                print(f"left out: there is no {path}")
                continue
            first, last = blocks_of(text, readme)[name]
            print("\n".join(make(name, load(path, file), text[first:last], tolerant=True)))


def main():
    arguments = sys.argv[1:]
    if len(arguments) == 2 and arguments[0] == "--samples":
        try:
            show_samples(pathlib.Path(arguments[1]))
        except Problem as problem:
            sys.exit(str(problem))
        found = [line for path in readmes() for line in scan_readme(path)]
        sys.exit("\n".join(found) if found else 0)
    if arguments not in ([], ["--write"]):
        sys.exit(f"evidence.py takes nothing, --write, or --samples FOLDER, not {' '.join(arguments)}")
    write, cases, evidence = bool(arguments), Cases("evidence"), {}
    folder = ROOT / "tests/evidence"
    missing = [file for file in FILES if not (folder / file).exists()]
    for file in missing:  # not measured yet: then nothing may be quoted from it
        quoted = [f"{readme}, {name}" for readme, blocks in BLOCKS.items() for name, wanted in blocks.items()
                  if wanted == file and not is_empty(readme, name)]
        name = f"tests/evidence has {file}"
        if quoted or write:
            cases.check(name, f"it is missing, and quoted in {', '.join(quoted)}" if quoted else "it is missing")
        else:
            cases.skip(name, f"{file} is not measured yet, and nothing is quoted from it")
    for file in FILES:
        if file in missing:
            continue
        try:
            evidence[file] = load(folder / file, file)
            cases.check(f"{file} follows from its rounds")
        except Problem as problem:
            cases.check(f"{file} follows from its rounds", str(problem))
    for path in readmes():
        readme = str(path.relative_to(ROOT))
        wanted = BLOCKS.get(readme, {})
        text = path.read_text(encoding="utf-8").split("\n")
        try:
            places = blocks_of(text, readme)
            cases.check(f"{readme} has its blocks", None if places.keys() == wanted.keys() else
                        f"it has {comma(places)}, and {comma(wanted)} are made")
        except Problem as problem:
            cases.check(f"{readme} has its blocks", str(problem))
            continue
        for name in sorted(places.keys() & wanted.keys(), key=lambda n: -places[n][0]):  # from the end: places stay
            if wanted[name] not in evidence:
                continue
            first, last = places[name]
            try:
                lines = make(name, evidence[wanted[name]], text[first:last])
            except Problem as problem:
                cases.check(f"{readme}, {name}", str(problem))
                continue
            different = difflib.unified_diff(text[first:last], lines, readme, wanted[name], lineterm="")
            cases.check(f"{readme}, {name}", None if write else "\n".join(different))
            if write:
                text[first:last] = lines
        if write:
            path.write_text("\n".join(text), encoding="utf-8")
    for path in readmes():
        cases.check(f"{path.relative_to(ROOT)}: figures in blocks only", "\n".join(scan_readme(path)))
    cases.finish()


if __name__ == "__main__":
    main()
