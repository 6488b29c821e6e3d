"""Tests of evidence.py with synthetic results: every block, what must fail, and the scan for figures outside the blocks."""
import copy
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(__file__))
import evidence as e
from report import Cases

cases = Cases("evidence_test")
GEMM, COPY, SELF = "compare_gemm_h200.json", "compare_copy_h200.json", "compare_self_h200.json"
ATTENTION = "compare_attention_h200.json"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def equal(name, got, expected):
    cases.check(name, None if got == expected else f"{got!r}, expected {expected!r}")


def holds(name, lines, *pieces):
    text = "\n".join(lines)
    absent = [piece for piece in pieces if piece not in text]
    cases.check(name, f"{absent} is not in:\n{text}" if absent else None)


def fails(name, call, *pieces):
    try:
        call()
    except e.Problem as problem:
        absent = [piece for piece in pieces if piece not in str(problem)]
        cases.check(name, f"'{problem}' does not say {absent}" if absent else None)
    else:
        cases.check(name, "it passed")


# --- Synthetic results: every round a tenth longer than the one before ---------------------------------------------------------

def median(values):
    return statistics.median(values)


US = {
    "grout": 100,
    "grout bounded": 110,
    "pinned": 105,
    "cublasGemmEx": 60,
    "cublasLt": 50,
    "grout padded": 80,
    "cublasGemmEx padded": 55,
    "cublasLt padded": 65,
    "padding of A and B": 30,
    "unpadding of D": 20,
    "transfer of A and B": 500,
    "grout neighbour": 104,
    "mma.sync ceiling": 100,
    "fp32 FMA ceiling": 400,
    "copy ceiling": 200,
    "batch 1": 90,
    "batch 4": 60,
    "batch 16": 40,
    "stream": 40,
    "cudaMemcpy": 50,
    "ring walk": 1000,
    "one word": 2,
    "once": 10,
    "again": 10,
    "repack": 100,
    "grout misaligned": 125,
    "grout unsplit": 300,
    "unfused cublas": 400,
    "read of K and V": 80
}
FLOPS, BYTES = 23e9, 2.3e8


def sample(name, protocol, graph=0):
    us = US.get(name, 80)
    times = [us * (1 + i / 10) for i in range(protocol["rounds"])]
    ceiling = name.endswith("ceiling") or name == "ring walk"
    role = "ceiling" if ceiling else "preparation" if " of " in name else "peer" if name.startswith("cu") else "policy"
    flops = {
        "mma.sync ceiling": 69e9,
        "fp32 FMA ceiling": 46e9,
        "grout neighbour": 24e9
    }.get(name, 0 if name == "copy ceiling" else FLOPS)
    return {
        "name": name,
        "role": role,
        "prepares": "",
        "requested": {
            "policy": name,
            "commit": "a5bc54bb109"
        },
        "realised": {
            "policy": name,
            "batch": "16"
        },
        "flops": flops,
        "bytes": BYTES,
        "graph": graph,
        "settle_ms": 0,
        "elements": 0 if ceiling else 1,
        "validated": 0 if ceiling else protocol["rounds"] + 1,
        "error": 0.0,
        "bound": 0.0,
        "round_us": times,
        "round_wall_us": [t + 1 for t in times],
        "failure": ""
    }


def store(case):
    """Adds what follows from the rounds, by other code than evidence.py's."""
    by_name = {s["name"]: s for s in case["samples"]}
    for s in case["samples"]:
        s.pop("us", None), s.pop("wall_us", None)
        if s["round_us"]:
            s["us"], s["wall_us"] = median(s["round_us"]), median(s["round_wall_us"])
    for pair in case["pairs"]:
        base, candidate = by_name[pair["base"]], by_name[pair["candidate"]]
        for key in set(pair) - {"base", "candidate"}:
            del pair[key]
        if not base["round_us"] or not candidate["round_us"]:
            pair.update(validated_pairs=0, verdict="no figure")
            continue
        ratios = [a / b for a, b in zip(base["round_us"], candidate["round_us"])]
        more = candidate["flops"] / base["flops"] if base["flops"] != candidate["flops"] and 0 not in (base["flops"],
                                                                                                       candidate["flops"]) else 1
        low, high = min(ratios) * more, max(ratios) * more
        pair.update(validated_pairs=min(base["validated"], candidate["validated"]) - 1,
                    verdict="faster" if low > 1 else "slower" if high < 1 else "even", ratio_of="times" if more == 1 else "rates",
                    ratio=median(ratios) * more, low=low, high=high)
    case["counts"] = {
        "validated_pairs": sum(p["validated_pairs"] for p in case["pairs"]),
        "validations": sum(s["validated"] for s in case["samples"]),
        "failures": sum(not s["round_us"] for s in case["samples"])
    }


def case(suite, name, samples, protocol, cold=False, pairs=(), graph=0, shape=None):
    p = {**e.PROTOCOLS[protocol], "cold": cold}
    c = {"suite": suite, "name": name, "run": 0, "shape": shape or {}, "protocol": p, "flops": FLOPS, "bytes": BYTES,
         "samples": [sample(s, p, graph) for s in samples], "pairs": [{"base": a, "candidate": b} for a, b in pairs]}
    store(c)
    return c


def results(all_cases, command):
    run = {
        "command": command,
        "date": "",
        "commit": COMMIT,
        "dirty": False,
        "device": "NVIDIA H200",
        "versions": {
            "cublas": "13.1"
        }
    }
    total = {key: sum(c["counts"][key] for c in all_cases) for key in ("validated_pairs", "validations", "failures")}
    return {"format": "grout comparison", "version": 1, "runs": [run], "cases": all_cases, "counts": total}


CUBLAS = ["cublasGemmEx", "cublasLt"]


def gemm_results():
    made = []

    def add(extents, layout, kind, element="bf16", protocol=None, cold=False, launched=False, headline=False):
        names = ["batch 1", "batch 4", "grout", *CUBLAS] if kind == "batched" else ["grout", *CUBLAS]
        pairs = [("cublasGemmEx", "grout"), ("cublasLt", "grout")]
        if element == "bf16" and kind == "aligned":
            names += ["grout bounded", "pinned"]
            pairs.append(("pinned", "grout"))
        if element == "bf16" and kind == "ragged":
            names += [
                "grout padded", "cublasGemmEx padded", "cublasLt padded", "padding of A and B", "unpadding of D",
                "transfer of A and B", "grout neighbour"
            ]
            pairs.append(("grout neighbour", "grout"))
        if kind == "batched":
            pairs.append(("batch 1", "batch 4"))
        names += ["mma.sync ceiling" if element == "bf16" else "fp32 FMA ceiling", "copy ceiling"]
        shape = {"kind": kind, "type": element, "layout": layout, **dict(zip("mnk", map(str, extents)))}
        made.append(
            case("gemm", e.gemm_name(extents, layout, kind, element,
                                     launched), names, protocol or ("headline" if headline and layout == "nn" else "sweep"), cold,
                 pairs, 20 if is_small(extents) and not launched and not cold else 0, shape))
    for layout in e.LAYOUTS:
        for n in (8192, 4096, 2048, 1024):
            add((n, n, n), layout, "aligned", headline=True)
        for n in (8192, 4096):
            for extents in ((n - 1, n, n), (n, n - 1, n), (n, n, n - 1)):
                add(extents, layout, "ragged")
        for extents in ((8191,) * 3, (4095,) * 3, (2047,) * 3, (1023,) * 3, (65, 97, 73)):
            add(extents, layout, "ragged", headline=True)
        for n in (1024, 2048, 4096):
            add((n, n, n), layout, "aligned", "f32", headline=True)
        for extents in ((4095,) * 3, (32,) * 3, (128,) * 3, (127, 193, 61), (513, 257, 129)):
            add(extents, layout, "ragged", "f32", headline=True)
        for element, count in (("bf16", 50), ("f32", 20)):
            for i in range(count):  # a third each below 2^25, between, and 2^30 and more
                add((33 + i, *((32, 32), (1024, 1024), (5000, 7000))[i % 3]), layout, "random", element)
    for extents in ((32,) * 3, (128,) * 3, (127, 193, 61), (513, 257, 129)):
        add(extents, "nn", "ragged", "f32", "headline", launched=True)
    for extents in ((32, ) * 3, (128, ) * 3, (512, ) * 3, (1024, ) * 3, (256, 1024, 128), (1024, 128, 256), (127, 193, 61),
                    (513, 257, 129)):
        add(extents, "nn", "batched", "f32", "headline")
    for n, kind, element in ((8192, "aligned", "bf16"), (1024, "aligned", "bf16"), (8191, "ragged", "bf16"),
                             (1023, "ragged", "bf16"), (4096, "aligned", "f32")):
        add((n, n, n), "nn", kind, element, "headline", cold=True)
    return results(made, "compare gemm /somewhere/out")


def is_small(extents):
    return extents[0] * extents[1] * extents[2] < 2**25


def copy_results():
    made = []
    for cold in (False, True):
        main = "sweep" if cold else "headline"
        for name in ("16384x16384 bf16 at 1,1 of pitch 16387", "16384x16384 bf16 at 64,64 of pitch 16512",
                     "16384x16384 bf16 at 1,8 of pitch 16400", "8192x8192 f32 at 1,1 of pitch 8195",
                     "1000x1000 bf16 at 1,1 of pitch 1003"):
            made.append(
                case("copy", f"crop {name}", ["stream", "bounded", "cudaMemcpy", "copy ceiling"], main, cold,
                     [("cudaMemcpy", "stream")]))
        made.append(
            case("copy", "crop 8192x8192 bf16 at 1,8 of pitch 8200, ladder",
                 ["bounded", "load", "ring", "store", "swizzle", "cluster", "stream", "cudaMemcpy", "copy ceiling"], main, cold))
        for rows, cols in ((8191, 8191), (16383, 8193), (4095, 4095), (2047, 2047)):
            for what in (f" of pitch {cols | 1}", f" transposed of pitch {rows | 1}", f" stride 2 of pitch {cols * 2 | 1}",
                         f" stride 3 of pitch {cols * 3 | 1}"):
                made.append(
                    case("copy", f"repack {rows}x{cols} bf16{what}", ["repack", "cudaMemcpy", "copy ceiling"],
                         main if what.startswith(" of") else "sweep", cold))
        for what in (" of pitch 8191", " stride 2 of pitch 16383", " stride 3 of pitch 24573", " transposed of pitch 8191"):
            made.append(case("copy", f"repack 8191x8191 f32{what}", ["repack", "cudaMemcpy", "copy ceiling"], "sweep", cold))
    for element in ("bf16", "f32"):
        for shape in ("4096x4096 {} at 1,1 of pitch 4099", "4095x4097 {} at 1,1 of pitch 4101",
                      "1000x1000 {} at 1,1 of pitch 1003", "127x193 {} at 1,1 of pitch 197"):
            made.append(
                case("copy",
                     f"crop {shape.format(element)}, batched",
                     ["batch 1", "batch 4", "batch 16", "bounded", "cudaMemcpy", "copy ceiling"],
                     "sweep",
                     pairs=[("batch 1", "batch 4"), ("batch 1", "batch 16")]))
    made.append(
        case("copy", "loads of a GEMM, 8192x8192x8192 in stages of 128x64 + 256x64", ["ring walk", "copy ceiling"], "sweep"))
    made.append(case("copy", "a launch that writes one word", ["one word", "copy ceiling"], "sweep", graph=20))
    made.append(case("copy", "a launch that writes one word, launched", ["one word", "copy ceiling"], "sweep"))
    return results(made, "compare copy /somewhere/out")


def self_results():
    return results([
        case("self",
             name, ["once", "again", "mma.sync ceiling", "copy ceiling"],
             "headline",
             cold, [("once", "again")],
             shape={
                 "m": "1024",
                 "n": "1024",
                 "k": "1024",
                 "type": "bf16"
             }) for cold in (False, True) for name in ("about 1 ms", "about 1 ms at the power limit", "about 10 us")
    ], "compare self /somewhere/out")


def attention_results():
    made = []
    for protocol, shapes in (("headline", ("4x16x4095x128", "4x16x4097x128", "4x16x1000x128")),
                             ("sweep", ("4x32x1000x64", "4x8x1000x256", "4x16x4096x72", "4x16x4096x96", "4x16x4096x127",
                                        "4x32/8x4000x128", "2x16x1000:5000x128", "1x4x65:97x72", "16x16x3655x128"))):
        for shape in shapes:
            for mask in ("full", "causal"):
                packed = shape.startswith("16x")
                names = ["grout", "grout neighbour", *([] if packed else ["grout misaligned", "unfused cublas"]), "mma.sync ceiling",
                         "copy ceiling"]
                made.append(case("attention", f"{shape} bf16 {mask}{' packed' if packed else ''}", names, protocol,
                                 pairs=[("grout neighbour", "grout")]))
    for cold in (False, True):
        for batch, caches in ((1, (4096, 4095, 16384, 16383, 65536, 65535)), (16, (4096, 4095, 16384))):
            for cache in caches:
                made.append(case("attention", f"{batch}x32/8x1:{cache}x128 bf16 decode",
                                 ["grout", "grout unsplit", "grout misaligned", "read of K and V", "mma.sync ceiling", "copy ceiling"],
                                 "sweep" if cache % 2 else "headline", cold, [("read of K and V", "grout")]))
    return results(made, "compare attention /somewhere/out")


def torch_case(suite, name, flops, times, protocol="headline"):
    rounds = e.PROTOCOLS[protocol]["rounds"]
    policies = [{
        "name": peer,
        "role": "policy" if peer == "grout" else "peer",
        "requested": {},
        "realised": {
            "path": "stream"
        } if peer == "grout" else {},
        "validated": rounds + 1,
        "graph": 0,
        "round_us": [us * (1 + i / 10) for i in range(rounds)],
        "round_wall_us": [us] * rounds,
        "failure": ""
    } for peer, us in times.items()]
    return {"suite": suite, "name": name, "flops": flops, "bytes": 2.3e8, "mode": "warm", "protocol": protocol, "policies": policies}


def torch_results(suite="copy"):
    if suite == "copy":
        made = [torch_case("copy", e.torch_peers.crop_name(*c), 0, {"grout": 100, "torch": 150}) for c in e.torch_peers.COPY_CASES]
    else:
        made = [torch_case("attention", c.name, 0 if c.q == 1 else FLOPS, {"grout": 100, "flash2": 120} if c.lengths else
                           {"grout": 100, "cudnn": 50, "flash2": 120}, "sweep") for c in e.torch_peers.attention_cases()]
    return {
        "command": f"python3 tests/tools/torch_peers.py build --only {suite} --json /somewhere/torch.json",
        "commit": COMMIT,
        "dirty": True,
        "device": "NVIDIA H200",
        "versions": {
            "torch": "2.9"
        },
        "cases": made
    }


DATA = {
    GEMM: gemm_results(),
    COPY: copy_results(),
    SELF: self_results(),
    ATTENTION: attention_results(),
    e.TORCH: torch_results(),
    e.TORCH_ATTENTION: torch_results("attention")
}
LADDER = [
    "| file | idea | architecture | GB/s (of cudaMemcpy) |", "|---|---|---|---:|",
    *(f"| [copy_{kernel}.cuh](copy_{kernel}.cuh) | an idea | sm_90 and later | |"
      for kernel in ("bounded", "load", "ring", "store", "swizzle", "cluster", "stream"))
]


def made(block, data, tolerant=False):
    file = next(blocks[block] for blocks in e.BLOCKS.values() if block in blocks)
    return e.make(block, e.Evidence(data, file), LADDER, tolerant)


def found(data, name, cold=False):
    return next(c for c in data["cases"]
                if c["name"] == name and (c["mode"] == "cold" if "mode" in c else c["protocol"]["cold"]) == cold)


def stored_again(data):
    if "counts" in data:
        for c in data["cases"]:
            store(c)
        data["counts"] = {key: sum(c["counts"][key] for c in data["cases"]) for key in data["counts"]}
    return data


def policy(c, name):
    return next(s for s in c.get("samples", c.get("policies")) if s["name"] == name)


# --- Every block: its cells, and what changes them -------------------------------------------------------------------------------

WARM = "8191x8191x8191 nn bf16 ragged"
FIRST_CROP = e.torch_peers.crop_name(*e.torch_peers.COPY_CASES[0])
# block: (file, a case, cold, a sample of it, what the block says)
EXPECTED = {
    "gemm_bf16": (GEMM, "8192x8192x8192 nn bf16 aligned", False, "grout", [
        "| 8192, 8192, 8192 | aligned | **200 (400)** | 209 (418) | 209 (418) | 209 (418) | 0.333 |  | 0.500 |",
        "| 8191, 8191, 8191 | ragged | **200 (400)** | 209 (418) | 209 (418) | 209 (418) | 0.333 | 0.997 | 0.500 |",
        "| 8192, 8191, 8192 | N ragged | 209 (418) |",
        "The ceiling itself: 600 to 627 TFLOP/s. 65, 97, 73: 110.00 to 115.00 us, cuBLAS 55.00 to 57.50 us, in CUDA graphs of 20 runs.",
        "`./run compare gemm OUT` at commit 0123456789, NVIDIA H200, cublas 13.1; headline (bold): 4 rounds of 9 batches of 40 ms after 200 ms of warm-up; "
        "sweep: 3 rounds of 1 batch of 5 ms after 10 ms of warm-up; L2 warm; [compare_gemm_h200.json](../tests/evidence/compare_gemm_h200.json)"
    ]),
    "gemm_padding": (GEMM, WARM, False, "unpadding of D", [
        "| **8191, 8191, 8191** | 115.0 | 92.00 | 34.50 | 23.00 | 149.5 | 57.50 | 63.25 | 120.8 | 575.0 | 690.0 | 0.800 [0.800, 0.800] |",
        "| 4096, 4096, 4095 | 110.0 |", "| **65, 97, 73** |"
    ]),
    "gemm_revisions": (GEMM, "2048x2048x2048 tt bf16 aligned", False, "pinned", [
        "| 8192, 8192, 8192 | nn | **1.050 [1.050, 1.050]** | **1.100 [1.100, 1.100]** |",
        "| 1024, 1024, 1024 | tt | 1.050 [1.050, 1.050] |", "The earlier revision is a5bc54bb10."
    ]),
    "gemm_f32": (GEMM, "127x193x61 nn f32 ragged launched", False, "grout", [
        "| 4095, 4095, 4095 | ragged | **200.0 (0.500)** | 209.1 (0.500) | 209.1 (0.500) | 209.1 (0.500) | 2.000 |",
        "| 127, 193, 61 | nn | graph of 20 | 115.0 | 116.0 | 57.50 | 58.50 | **0.500 [0.500, 0.500]** |",
        "| 127, 193, 61 | nn | launched | 115.0 | 116.0 | 57.50 | 58.50 | **0.500 [0.500, 0.500]** |",
        "| 32, 32, 32 | tt | graph of 20 | 110.0 |"
    ]),
    "gemm_batched":
    (GEMM, "127x193x61 nn f32 batched", False, "batch 4",
     ["| 127, 193, 61 | 103.5 | 69.00 | 1.500 [1.500, 1.500] | 57.50 |", "64 of 64 validated", "headline: 4 rounds"]),
    "gemm_random": (GEMM, "34x1024x1024 tn bf16 random", False, "grout", [
        "| bf16 | below 2^25 | 17 | 0.50 (", "| bf16 | between | 17 |", "| bf16 | 2^30 and more | 16 |",
        "| f32 | below 2^25 | 7 |", "| 0.50 | 0.50 |"
    ]),
    "gemm_cold": (GEMM, WARM, True, "grout", [
        "| 8191, 8191, 8191 | ragged | bf16 | 115.0 | 116.0 | 57.50 | 58.50 | 0.500 [0.500, 0.500] | 0.500 [0.500, 0.500] |",
        "| 4096, 4096, 4096 | aligned | f32 |", "L2 warm and cold;"
    ]),
    "copy_ladder": (COPY, e.LADDER, False, "load", [
        "| [copy_stream.cuh](copy_stream.cuh) | an idea | sm_90 and later | 5000 (1.25) |",
        "| [copy_load.cuh](copy_load.cuh) | an idea | sm_90 and later | 2500 (0.62) |", "L2 warm;"
    ]),
    "copy_crops": (COPY, "crop 16384x16384 bf16 at 1,8 of pitch 16400", True, "stream", [
        "| stream | 8192x8192 f32 at 1,1 of pitch 8195 | 46.00 | 5000 | **1.250 [1.250, 1.250]** | 1.250 [1.250, 1.250] |",
        "| bounded | 1000x1000 bf16 at 1,1 of pitch 1003 |", "`./run compare copy OUT`", "L2 warm and cold;"
    ]),
    "copy_repack": (COPY, "repack 16383x8193 bf16 stride 3 of pitch 24579", False, "repack", [
        "| 2047x2047 bf16 of pitch 2047 | 115.0 | 2000 | **0.500 [0.500, 0.500]** | 0.500 [0.500, 0.500] |",
        "| 8191x8191 f32 transposed of pitch 8191 | 110.0 | 2091 | 0.500 ["
    ]),
    "copy_batched": (COPY, "crop 127x193 f32 at 1,1 of pitch 197, batched", False, "batch 16", [
        "| 127x193 bf16 at 1,1 of pitch 197 | 99.00 | 66.00 | 44.00 | 1.500 [1.500, 1.500] | 2.250 [2.250, 2.250] | 88.00 | 55.00 |"
    ]),
    "copy_loads": (COPY, "a launch that writes one word, launched", False, "one word",
                   ["| 1100 | 0.21 TB/s |", "in a CUDA graph of 20 | 2.20 |", "launched one by one | 2.20 |"]),
    "copy_torch": (e.TORCH, FIRST_CROP, False, "torch", [
        f"| {FIRST_CROP} | stream | 115.0 | 2000 | 172.5 | 1.500 [1.500, 1.500] |",
        "`python3 tests/tools/torch_peers.py build --only copy --json FILE` at commit 0123456789 and changes to it, NVIDIA H200, torch 2.9; headline: 4 rounds"
    ]),
    "attention_peers": (e.TORCH_ATTENTION, "4x16x4096x128 bf16 causal", False, "grout", [
        "| 4 x 16 x 4096 | 128 | 209 | 1.200 [1.200, 1.200] | 0.500 [0.500, 0.500] | 209 | 1.200 [1.200, 1.200] | 0.500 [0.500, 0.500] |",
        "| 1 x 8 x 16384 | 256 | 209 |", "| 4x16x4095x128 causal | 110.0 | 209 TFLOP/s | 1.200 [1.200, 1.200] | 0.500 [0.500, 0.500] |",
        "| 16x32/8x1:65536x128 decode | 110.0 | 2091 GB/s |", "x128 full packed | 110.0 | 209 TFLOP/s | 1.200 [1.200, 1.200] |  |",
        "sweep: 3 rounds", "[torch_attention_warm_h200.json](../tests/evidence/torch_attention_warm_h200.json)"
    ]),
    "attention_ragged": (ATTENTION, "4x16x4096x127 bf16 causal", False, "grout neighbour", [
        "| 4x16x4095x128 full | 115.0 | **200** | 0.333 | 0.997 [0.997, 0.997] | 0.800 [0.800, 0.800] | 4.000 [4.000, 4.000] |",
        "| 4x32/8x4000x128 causal | 110.0 | 209 |", "x128 causal packed | 110.0 | 209 | 0.333 | 0.997 [0.997, 0.997] |  |  |",
        "`./run compare attention OUT`"
    ]),
    "attention_decode": (ATTENTION, "16x32/8x1:16384x128 bf16 decode", True, "read of K and V", [
        "| 1 | 4096 | warm | 115.0 | 2000 | **0.800 [0.800, 0.800]** | 3.000 [3.000, 3.000] | 0.800 [0.800, 0.800] |",
        "| 1 | 65535 | cold | 110.0 | 2091 | 0.800 [0.800, 0.800] |", "| 16 | 16384 | cold |", "L2 warm and cold;"
    ]),
    "compare_noise":
    (SELF, "about 10 us", True, "again",
     ["| 1024, 1024, 1024 bf16, about 1 ms | warm | 11.50 | 11.50 | 1.000 [1.000, 1.000] |", "about 10 us | cold | 11.50 |"]),
}
# A comparison that was resumed is one command; settling is said of the protocol that settled.
data = copy.deepcopy(DATA[GEMM])
data["runs"].append({**data["runs"][0], "date": "later"})
for i, c in enumerate(data["cases"]):
    c["run"] = i % 2
    if c["protocol"]["name"] == "headline":
        for s in c["samples"]:
            s["settle_ms"] = 100
origin = made("gemm_bf16", data)[-1]
equal("resumed: the command once", origin.count("`./run compare gemm OUT`"), 1)
equal("settled: said once", origin.count("settling"), 1)
holds("settled: of headlines", [origin], "200 ms of warm-up, 100 ms of settling where the clocks drift; sweep: ")
equal("every block is tested", sorted(EXPECTED), sorted(name for blocks in e.BLOCKS.values() for name in blocks))
for name, (file, case_name, cold, sample_name, pieces) in EXPECTED.items():
    lines = made(name, DATA[file])
    holds(f"{name}: its figures", lines, *pieces)
    equal(f"{name}: one line of origin, at the end", (file in lines[-1], lines[-2]), (True, ""))

    data = copy.deepcopy(DATA[file])
    for i in range(2 if name == "gemm_random" else 1):  # medians of three rounds do not see one
        policy(found(data, case_name, cold), sample_name)["round_us"][i] *= 3
    cases.check(f"{name}: a changed round changes it", "it did not" if made(name, stored_again(data)) == lines else None)

    data = copy.deepcopy(DATA[file])
    s = policy(found(data, case_name, cold), sample_name)
    s.update(round_us=[], round_wall_us=[], failure="element 7 is wrong")
    if e.is_torch(file):
        for other in found(data, case_name, cold)["policies"]:
            other.update(round_us=[], round_wall_us=[])
    if name == "gemm_batched":
        fails(f"{name}: a failed policy is not validated", lambda: made(name, stored_again(data)), "60 of 64 (case, policy, round)")
        holds(f"{name}: a failed sample has no figure, and the block says why", made(name, stored_again(data), tolerant=True),
              "60 of 64 validated", "no figure |", f"No figure: {case_name}, L2 warm, {sample_name}: element 7 is wrong")
    else:
        after = made(name, stored_again(data))
        holds(f"{name}: the block says why a failed sample has no figure", after,
              f"No figure: {case_name}, L2 {'cold' if cold else 'warm'}, {sample_name}: element 7 is wrong")
        if name not in ("gemm_bf16", "gemm_random"):
            holds(f"{name}: a failed sample has no figure", after, "no figure")

    data = copy.deepcopy(DATA[file])
    data["cases"].remove(found(data, case_name, cold))
    fails(f"{name}: a missing case fails", lambda: made(name, stored_again(data)),
          "in four layouts each" if name == "gemm_random" else f"{case_name}, L2 {'cold' if cold else 'warm'}, is missing")
    if name == "gemm_random":  # the other layouts of the shape too
        data["cases"] = [c for c in data["cases"] if c["name"].split()[::2] != case_name.split()[::2]]
        fails(f"{name}: a missing shape fails", lambda: made(name, stored_again(data)), "49 random shapes")
    cases.check(f"{name}: for development, a missing case leaves out its row",
                "it did not" if made(name, stored_again(data), tolerant=True) == lines else None)

holds(
    "gemm_bf16: a cell without a figure",
    made(
        "gemm_bf16",
        stored_again((lambda data: (policy(found(data, "8192x8192x8192 nn bf16 aligned"), "grout").update(
            round_us=[], round_wall_us=[], failure="x"), data)[1])(copy.deepcopy(DATA[GEMM])))), "**no figure (400)**")
data = copy.deepcopy(DATA[GEMM])
for peer in CUBLAS:
    policy(found(data, WARM), peer).update(round_us=[], round_wall_us=[], failure="refused")
holds("no cuBLAS has a figure: then no ratio has one", made("gemm_bf16", stored_again(data)), "**200 (no figure)**",
      "cublasGemmEx: refused", "cublasLt: refused")
policy(found(data, WARM), "cublasGemmEx").update(copy.deepcopy(policy(found(DATA[GEMM], WARM), "cublasGemmEx")))
holds("one of the two has: it is the better one", made("gemm_bf16", stored_again(data)), "**200 (333)**", "cublasLt: refused")

data = copy.deepcopy(DATA[GEMM])
for suite_case in data["cases"]:
    if suite_case["name"].endswith("random") and suite_case["name"].startswith("34x"):
        policy(suite_case, "grout")["round_us"] = [25, 25, 25]  # theirs 50, 55, 60
holds("gemm_random: the best of a class", made("gemm_random", stored_again(data)), "| bf16 | between | 17 | 0.50 (",
      "| 0.50 | 2.20 |")
fails("copy_ladder: a kernel that was not measured",
      lambda: e.make("copy_ladder", e.Evidence(DATA[COPY], COPY), [*LADDER, LADDER[-1].replace("stream", "other")]), "other")
fails("copy_ladder: a kernel that the table lacks", lambda: e.make("copy_ladder", e.Evidence(DATA[COPY], COPY), LADDER[:-1]),
      "stream")

# --- Files that do not follow from their rounds -------------------------------------------------------------------------------------

def tampered(name, change, *pieces, file=GEMM):
    data = copy.deepcopy(DATA[file])
    change(data)
    fails(f"tampered: {name}", lambda: e.Evidence(data, file), file, *pieces)


def first_pair(data):
    return data["cases"][0]["pairs"][0]


def change_sample(key, value):
    return lambda data: data["cases"][0]["samples"][0].update({key: value})


tampered("a time", change_sample("us", 100.0), "grout", "times do not follow")
tampered("a wall time", change_sample("wall_us", 100.0), "times do not follow")
tampered("a round", lambda data: data["cases"][0]["samples"][0]["round_us"].__setitem__(0, 107.0), "not follow from the rounds")
for key, value in (("ratio", 1.5), ("low", 0.1), ("high", 2.0), ("verdict", "faster"), ("ratio_of", "rates"), ("validated_pairs",
                                                                                                               7)):
    tampered(f"a pair's {key}", lambda data: first_pair(data).update({key: value}), "grout over cublasGemmEx",
             "ratio does not follow")
tampered("a case's counts", lambda data: data["cases"][0]["counts"].update(failures=1), "counts do not follow from the samples")
tampered("the counts", lambda data: data["counts"].update(validations=1), "counts do not follow from the cases")
tampered("fewer validations", change_sample("validated", 3), "validated 3 times")
tampered("an error above its bound", change_sample("error", 1.0), "exceeds the bound")
tampered("a round of no time", lambda data: data["cases"][0]["samples"][0]["round_us"].__setitem__(0, 0.0), "positive times")
tampered("a round less", lambda data: data["cases"][0]["samples"][0]["round_us"].pop(), "rounds of positive times")
tampered("figures and a failure", change_sample("failure", "wrong"), "figures and a failure, or neither")
tampered("a shorter protocol", lambda data: data["cases"][0]["protocol"].update(batch_ms=1.0),
         "is not the headline of compare/record.h")
tampered("a case that stands twice", lambda data: data["cases"].append(data["cases"][0]), "stands twice")
tampered("no commit", lambda data: data["runs"][0].update(commit="unknown"), "which command at which commit")
tampered("another format", lambda data: data.update(version=2), "version 1")
tampered("PyTorch: no command", lambda data: data.pop("command"), "command", file=e.TORCH)
tampered("PyTorch: fewer validations",
         lambda data: data["cases"][0]["policies"][0].update(validated=4),
         "validated 4 times",
         file=e.TORCH)
tampered("a figure of which nothing was compared", lambda data: data["cases"][0]["samples"][0].update(elements=0), "nothing was compared")
tampered("a settling of its own", lambda data: data["cases"][0]["samples"][0].update(settle_ms=5000), "it settled for 5000 ms; 0 and")
tampered("a run that is not there", lambda data: data["cases"][0].update(run=7), "its run is 7, and there are 1")
tampered("PyTorch: a failure beside a peer's figure",
         lambda data: data["cases"][0]["policies"][0].update(round_us=[], round_wall_us=[], failure="wrong"),
         "figures and a failure",
         file=e.TORCH)
tampered("PyTorch: a refusal beside a figure",
         lambda data: data["cases"][0]["policies"][1].update(refused="it cannot"),
         "figures and a failure",
         file=e.TORCH)
refusing = copy.deepcopy(DATA[e.TORCH])
refusing["cases"][0]["policies"][1].update(refused="it cannot", round_us=[], round_wall_us=[], validated=0)
cases.check("PyTorch: a peer that refuses has no figure, the others have", None if e.Evidence(refusing, e.TORCH).cases else "no cases")

refusing = copy.deepcopy(DATA[e.TORCH_ATTENTION])
policy(found(refusing, "4x16x4096x128 bf16 full"), "cudnn").update(refused="it cannot", round_us=[], round_wall_us=[], validated=0)
holds("attention_peers: a peer that refuses", made("attention_peers", refusing),
      "| 4 x 16 x 4096 | 128 | 209 | 1.200 [1.200, 1.200] | refused | 209 | 1.200 [1.200, 1.200] | 0.500 [0.500, 0.500] |")
equal("where a development run leaves them", [str(e.sample_of(pathlib.Path("x"), file)) for file in DATA], [
    "x/gemm/results.json", "x/copy/results.json", "x/self/results.json", "x/attention/results.json", "x/torch.json",
    "x/attention/torch_attention_warm.json"
])

SOURCE = (e.ROOT / "compare/record.h").read_text(encoding="utf-8")
equal("the protocols of record.h",
      e.protocols(SOURCE)["headline"], {
          "name": "headline",
          "rounds": 4,
          "batches": 9,
          "batch_ms": 40,
          "warm_up_ms": 200,
          "settle_ms": 100
      })
fails("a record.h without protocols", lambda: e.protocols(SOURCE.replace('"sweep", 3', "3")), "record.h")


# --- The scan -------------------------------------------------------------------------------------------------------------------------

def scanned(text):
    return [line.split("'")[0].strip() for line in e.scan(e.outside(text), "README.md")]


for text in ("an empty launch takes 0.6 us", "It takes 3 ms.", "within 2 s", "433 TFLOP/s", "4.1 TB/s", "4016 GB/s", "480 TF",
             "at 1.98 GHz", "2 times as fast", "three times faster", "twice as fast", "0.59 of cuBLAS", "1 of cudaMemcpy",
             "0.8x of the ceiling", "a ratio of `0.987`", "1.01x", "2x", "3 x faster", "1.3× of it", "98% of peak", "98 per cent",
             "12\nus", "**4016 GB/s**", "(0.6 us)", "| x | 4.45 us |", "1,234 us", "10 microseconds", "a 5-ms batch", "0.83.",
             "fp32 at 40 TFLOPS"):
    equal(f"caught: {text!r}", scanned(f"First.\n\n{text}\n"), ["README.md:3:"])
for text in ("a 64 x 32 tile of bf16", "sm_90 and CUDA 13.0", "`./run gemm 65 97 73`", "32 KiB and 2 MB", "2^27 multiply-adds",
             "CMake 3.25", "9472 = 16 * 592", "prints `tensor` three times", "four rounds, nine batches of 40 ms each",
             "three rounds of one batch of 5\nms", "A for 200 ms of warm-up", "128x256x64", "65x97x73 nn", "`mma.m16n8k16`",
             "`Swizzle<3, 3, 3>`"):
    equal(f"left alone: {text!r}", scanned(text), [])
equal("other constants than the protocol's are caught", scanned("nine batches of 41 ms"), ["README.md:1:"])
equal("a fence is not scanned", scanned("a\n```\n0.6 us\n```\nb\n~~~~\n```\n2x\n~~~~\n0.7 us"), ["README.md:10:"])
equal("a block is not scanned, what follows is",
      scanned("<!-- figures: gemm_bf16 -->\n| 0.6 us |\n<!-- end of figures -->\n0.7 us"), ["README.md:4:"])
equal("a table with a unit for its header", scanned("a\n| M | TFLOP/s |\n|---|---:|\n| 8192 | 433 |"), ["README.md:2:"])
equal("each line once, in order", scanned("1 us, 2 us\n3 us"), ["README.md:1:", "README.md:2:"])
ladder = "\n".join([
    "<!-- figures: copy_ladder -->", *LADDER[:2], "| [copy_load.cuh](copy_load.cuh) | saves 3 us | sm_90 | 2500 (0.62) |",
    "<!-- end of figures -->"
])
equal("the ladder's own cells are scanned", [line.split("'")[0] for line in e.scan(e.own_cells(ladder), "copy/README.md")],
      ["copy/README.md:4: "])
for text, what in (("<!-- figures: a -->\nx", "does not end"), ("<!-- end of figures -->", "did not begin"),
                   ("<!-- figures: a -->\n<!-- figures: b -->",
                    "begins in another"), ("<!-- figures: a -->\n<!-- end of figures -->\n" * 2, "stands twice")):
    fails(f"marks: a block {what}", lambda: e.blocks_of(text.split("\n"), "README.md"), what)
equal("marks: the lines between", e.blocks_of(["x", "<!-- figures: a -->", "y", "z", "<!-- end of figures -->"], "README.md"),
      {"a": (2, 4)})

# --- The program, in a tree of its own ------------------------------------------------------------------------------------------------

with tempfile.TemporaryDirectory() as folder:
    root = pathlib.Path(folder)
    for name in ("README.md", *e.BLOCKS, "compare/record.h", *(f"tests/tools/{tool}.py"
                                                               for tool in ("evidence", "report", "torch_peers", "grout_c"))):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(e.ROOT / name, root / name)

    def program(name, code, *pieces, arguments=()):
        done = subprocess.run([sys.executable, "tests/tools/evidence.py", *arguments],
                              cwd=root,
                              stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT,
                              text=True,
                              env={
                                  **os.environ, "GTEST_OUTPUT": ""
                              })
        wrong = done.returncode != code or any(piece not in done.stdout for piece in pieces)
        cases.check(f"the program: {name}", f"{done.returncode} {done.stdout[-2000:]}" if wrong else None)

    # As they are before anything is measured.
    for name in e.BLOCKS:
        lines = (root / name).read_text(encoding="utf-8").split("\n")
        for block, (first, last) in sorted(e.blocks_of(lines, name).items(), key=lambda item: item[1], reverse=True):
            table = [line for line in lines[first:last] if line.startswith("|")] if block == "copy_ladder" else []
            lines[first:last] = table[:2] + [re.sub(r"\|[^|]*\|$", "|  |", line) for line in table[2:]]
        (root / name).write_text("\n".join(lines), encoding="utf-8")
    program("without evidence nothing may be quoted", 0, "is not measured yet, and nothing is quoted from it", *DATA)
    program("without evidence nothing can be written", 1, "it is missing", *DATA, arguments=["--write"])
    (root / "tests/evidence").mkdir()
    for file, data in DATA.items():
        (root / "tests/evidence" / file).write_text(json.dumps(data), encoding="utf-8")
    program("blocks of other figures fail", 1, "[ failed ] evidence: gemm/README.md, gemm_bf16", "+| 8192, 8192, 8192 | aligned |")
    program("--write", 0, arguments=["--write"])
    program("then it passes", 0, "[ passed ] evidence: copy/README.md, copy_ladder")
    before = {name: (root / name).read_text(encoding="utf-8") for name in e.BLOCKS}

    def edited(name, readme, old, new, code, *pieces):
        (root / readme).write_text(before[readme].replace(old, new, 1), encoding="utf-8")
        cases.check(f"the program: {name}: edited", None if old in before[readme] else f"{readme} has no {old}")
        program(name, code, *pieces)
        (root / readme).write_text(before[readme], encoding="utf-8")

    edited("a figure that somebody changed", "gemm/README.md", "**200 (400)**", "**201 (400)**", 1,
           "-| 8192, 8192, 8192 | aligned | **201 (400)**")
    edited("a figure in the prose", "compare/README.md", "## The noise", "It takes 3 us.", 1, "compare/README.md:",
           "'3 us' is a figure outside")
    edited("a figure in the ladder's own cells", "copy/README.md", "any source | sm_80", "any source, 3 us | sm_80", 1,
           "copy/README.md:", "'3 us' is a figure outside")
    edited("a block that is gone", "compare/README.md", "<!-- figures: compare_noise -->", "", 1, "did not begin")
    edited("a block that nothing makes", "compare/README.md", "figures: compare_noise", "figures: other", 1,
           "it has other, and compare_noise are made")
    (root / "tests/evidence" / SELF).unlink()
    program("a file that is gone", 1, f"tests/evidence has {SELF}: it is missing, and quoted in compare/README.md, compare_noise")
cases.finish()
