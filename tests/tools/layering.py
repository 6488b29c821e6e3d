"""The rules of the tree, read off the files:
- an include points only down: kernels -> operations and instructions -> descriptions; kernel directories do not include
  one another; kernel headers include neither args, check, bench, show, program, the C interfaces nor sim; layout.cuh includes
  nothing of ours, and what C includes (*_c.h, c_abi.h) nothing but c_abi.h;
  compare/ may include anything, and only tests include it;
- layout.cuh is shorter than 400 lines, what kernels can include of common/ than 4,300: about 3,600 were there before fragments
  computed, which took 500 (all of it is printed);
- conditional compilation only in numeric.cuh, ptx.cuh, ptx_sm90.cuh, launch.cuh, sim/ and, for programs, verify.cuh and c_abi.h, which
  no kernel includes; inline assembly only in ptx.cuh and ptx_sm90.cuh; no static __shared__; includes are by path from the root; headers begin with
  #pragma once."""
import glob
import os
import re
import sys

sys.path.insert(0, os.path.dirname(__file__))
from report import Cases

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KERNEL_DIRS = ("copy", "gemm", "attention", "tmem")
DESCRIPTIONS = {"layout.cuh", "ownership.cuh", "ownership_algebra.cuh", "numeric.cuh", "span.cuh"}
OPERATIONS = {"fragment.cuh", "copy.cuh", "batch.cuh", "store.cuh", "ring.cuh", "repack.cuh", "walk.cuh", "operand_reader.cuh", "element_walk.cuh", "vectors.cuh", "tmem.cuh", "ptx.cuh",
              "ptx_sm90.cuh", "tensor_map.cuh", "launch.cuh"}
C_HEADERS = {"c_abi.h", *(f"{directory}_c.h" for directory in KERNEL_DIRS)}
PROGRAMS_ONLY = {"args.h", "check.cuh", "check_gpu.cuh", "check_attention.cuh", "check_attention_gpu.cuh",
                 "attention_reference.cuh", "bench.cuh", "statistics.h", "verify.cuh", "program.cuh", "c_abi.cuh", *C_HEADERS}
CONDITIONALS = {"common/numeric.cuh", "common/ptx.cuh", "common/ptx_sm90.cuh", "common/launch.cuh", "common/verify.cuh", "common/c_abi.h"}
COMMON_LINES, LAYOUT_LINES = 4300, 400


def files(*patterns):
    found = []
    for pattern in patterns:
        found += [os.path.relpath(path, root) for path in glob.glob(os.path.join(root, pattern), recursive=True)]
    return sorted(path for path in set(found) if os.path.isfile(os.path.join(root, path)))


def read(path):
    return open(os.path.join(root, path), encoding="utf-8").read()


def code_of(text):
    """The text with comments and string contents blanked, line by line."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match.group(0)), text)


def includes_of(path):
    return re.findall(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', read(path), re.M)


def is_kernel_header(path):
    return path.split("/")[0] in KERNEL_DIRS and path.endswith((".cuh", ".h")) and os.path.basename(path) not in PROGRAMS_ONLY


def layer_of(path):
    parts = path.split("/")
    name = parts[-1]
    if parts[0] in KERNEL_DIRS:
        return 3
    if path.startswith("common/show/"):
        return 0
    if path.startswith("common/sim/"):
        return None  # the simulated device: below the operations, outside the ladder
    if parts[0] == "common":
        return {**dict.fromkeys(DESCRIPTIONS, 1), **dict.fromkeys(OPERATIONS, 2)}.get(name, 0 if name in PROGRAMS_ONLY else None)
    return None


cases = Cases("layering")
sources = files(*(f"{directory}/*.{end}" for directory in ("common", "common/show", "compare", *KERNEL_DIRS) for end in ("cuh", "cu", "h", "cpp")))
headers = [path for path in sources if path.endswith((".cuh", ".h"))]
problems = []

for path in sources:
    for include in includes_of(path):
        where = f"{path} includes {include}"
        if not os.path.exists(os.path.join(root, include)):
            problems.append(f"{where}, which is no path from the root")
            continue
        mine, theirs = layer_of(path), layer_of(include)
        name = os.path.basename(include)
        own, other = path.split("/")[0], include.split("/")[0]
        if own in KERNEL_DIRS and other in KERNEL_DIRS and own != other:
            problems.append(f"{where}: kernel directories do not include one another")
        if other == "compare" and own != "compare":
            problems.append(f"{where}: only tests include compare/")
        if own == "common" and other in KERNEL_DIRS and path in headers:
            problems.append(f"{where}: common/ does not know the kernels")
        if is_kernel_header(path) and (name in PROGRAMS_ONLY or include.startswith(("common/sim/", "common/show/"))):
            problems.append(f"{where}: kernel files use neither args, check, bench, show, program, the C interfaces nor sim")
        if os.path.basename(path) in C_HEADERS and include != "common/c_abi.h":
            problems.append(f"{where}: it is read by C, and everything else of ours is C++")
        if mine in (1, 2) and theirs is not None and (theirs > mine or theirs == 0):
            problems.append(f"{where}: an include may only point down")
        if include.startswith("common/sim/") and own == "common" and path in headers and \
                path not in ("common/ptx.cuh", "common/ptx_sm90.cuh", "common/launch.cuh") and name != "sim.h":
            problems.append(f"{where}: the simulated device is reached through ptx.cuh, launch.cuh and sim/sim.h")
        if path == "common/layout.cuh":
            problems.append(f"{where}: layout.cuh includes nothing of ours")
cases.check("includes point down", "; ".join(problems))

unplaced = [path for path in headers if path.startswith("common/") and layer_of(path) is None]
cases.check("every header of common/ has a layer", f"name them in {os.path.basename(__file__)}: {unplaced}" if unplaced else None)

cases.check("headers begin with #pragma once", "; ".join(
    path for path in headers + files("common/sim/*.h", "common/sim/*.hpp", "common/sim/*.cuh")
    if not re.search(r"^#pragma once$", read(path), re.M)))

conditional = [f"{path}:{number}" for path in sources if path not in CONDITIONALS
               for number, line in enumerate(code_of(read(path)).splitlines(), 1)
               if re.match(r"\s*#\s*(if|ifdef|ifndef|elif|else)\b", line)]
cases.check("no #if outside numeric.cuh, ptx.cuh, ptx_sm90.cuh, launch.cuh, verify.cuh, c_abi.h and sim/", ", ".join(conditional))

assembly = [f"{path}:{number}" for path in sources if path not in ("common/ptx.cuh", "common/ptx_sm90.cuh")
            for number, line in enumerate(code_of(read(path)).splitlines(), 1) if re.search(r"\b(asm|__asm__)\b", line)]
cases.check("no inline assembly outside ptx.cuh and ptx_sm90.cuh", ", ".join(assembly))

static = [f"{path}:{number}" for path in sources
          for number, line in enumerate(code_of(read(path)).splitlines(), 1)
          if re.search(r"\b__shared__\b", line) and not re.search(r"\bextern\b", line)]
cases.check("no static __shared__", ", ".join(static))

layout = len(read("common/layout.cuh").splitlines())
cases.check(f"common/layout.cuh: {layout} lines", f"limit {LAYOUT_LINES}" if layout >= LAYOUT_LINES else None)
lines = {path: len(read(path).splitlines()) for path in sources if path.startswith("common/")}
kernel_side = {path: count for path, count in lines.items() if layer_of(path) in (1, 2)}
for path, count in lines.items():
    print(f"{count:6} {path}{'' if path in kernel_side else '  (programs and tests only)'}")
total = sum(kernel_side.values())
cases.check(f"common/ without sim/: {sum(lines.values())} lines, {total} that kernels can include",
            f"limit {COMMON_LINES}" if total >= COMMON_LINES else None)
cases.finish()
