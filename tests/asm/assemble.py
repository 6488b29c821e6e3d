"""assemble.py SOURCE --nvcc=PATH [--program=BUILT]: what the compiler makes of a kernel.

SOURCE instantiates one kernel and states what its assembly must be, in comments:
    // kernel: NAME              the kernel's name, part of the symbols of its instantiations
    // registers: N              at most N registers a thread
    // expect: LDSM, HMMA.16816  instructions that every instantiation must hold: the name, and modifiers in order,
    //                           so LDGSTS.E.128 matches LDGSTS.E.BYPASS.LTC128B.128
    // forbid: DFMA              instructions that none may hold; LDL and STL (local memory) always
    // order PART: LDG x4, STS x4    of instantiations whose symbols match PART, a regular expression without blanks: their
    //                           LDG and STS, from first to last, are four LDG, then four STS, and no others, unless
    //                           the last item is "..."; one instantiation must match
    // same: PART PART           of two instantiations whose symbols match, regular expressions without blanks: every
    //                           instruction occurs in one as often as in the other
    // stack PART: 24 on sm_80, sm_86    instantiations whose symbols match PART may have that many bytes of stack on those targets, and
    //                           spill them: LDL and STL; on all others none
    // targets: sm_90a           instead of the list below; of a program, only what it has for these
    // since: sm_90              instructions are expected from this architecture on; before it the kernel only traps
It is assembled for each target; registers, stack frame and spills are read from ptxas, instructions from the
disassembly. With --program, the same is asked of every instantiation in that program, for the architectures it has."""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(root, "tests", "tools"))
from report import Cases
from listing import difference, instructions_of, order_problems, total

TARGETS = ["sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a", "sm_121a"]
NO_DISASSEMBLER = "no cuobjdump and nvdisasm here (./run toolkit fetches them)"

parser = argparse.ArgumentParser()
parser.add_argument("source")
parser.add_argument("--nvcc", default="")
parser.add_argument("--host-compiler", default="g++")
parser.add_argument("--program", default="")
options = parser.parse_args()


def stated(key):
    values = re.findall(rf"^// {key}:[ \t]*(.+?)[ \t]*$", open(options.source, encoding="utf-8").read(), re.M)
    return [item.strip() for value in values for item in value.split(",") if item.strip()]


def tool(name):
    folders = [os.path.dirname(options.nvcc) if options.nvcc else "", os.path.join(root, ".toolkit", "bin")]
    return shutil.which(name) or next((os.path.join(folder, name) for folder in folders
                                       if folder and os.access(os.path.join(folder, name), os.X_OK)), None)


def run(*command):
    # cuobjdump calls nvdisasm by name.
    environment = dict(os.environ)
    if tool("nvdisasm"):
        environment["PATH"] = environment.get("PATH", "") + os.pathsep + os.path.dirname(tool("nvdisasm"))
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    return done.returncode, done.stdout


kernel, registers = stated("kernel"), stated("registers")
assert len(kernel) == 1 and len(registers) == 1, f"{options.source} must state '// kernel:' and '// registers:', once each"
kernel, limit = kernel[0], int(registers[0])
expected, forbidden = stated("expect"), ["LDL", "STL", *stated("forbid")]


stacks = [(part, int(most), re.split(r",[ \t]*", where)) for part, most, where in
          re.findall(r"^// stack (\S+):[ \t]*(\d+) on (.+?)[ \t]*$", open(options.source, encoding="utf-8").read(), re.M)]
orders = re.findall(r"^// order (\S+):[ \t]*(.+?)[ \t]*$", open(options.source, encoding="utf-8").read(), re.M)
pairs = re.findall(r"^// same: (\S+) (\S+)[ \t]*$", open(options.source, encoding="utf-8").read(), re.M)
ordered = set()  # the parts that matched an instantiation


def architecture(target):
    return int(re.match(r"sm_(\d+)", target).group(1))


targets = stated("targets") or TARGETS
since = max(map(architecture, stated("since")), default=0)
name = os.path.splitext(os.path.basename(options.source))[0]
cases = Cases(f"asm.{name}" + (".program" if options.program else ""))


def allowed_stack(target, symbol):
    return max((most for part, most, where in stacks if re.search(part, symbol) and target in where), default=0)


def resource_problems(usage, stack):
    """`usage`: registers, stack bytes, spill bytes; `stack`: bytes of it that are accepted, for spills."""
    problems = []
    if usage["registers"] > limit:
        problems.append(f"{usage['registers']} registers, stated at most {limit}")
    if usage["stack"] > stack:
        problems.append(f"a stack frame of {usage['stack']} bytes")
    if usage["spill"] and not stack:
        problems.append(f"{usage['spill']} bytes spilled")
    return problems


def instruction_problems(symbol, instructions, stack):
    problems = [f"no {wanted}" for wanted in expected if not total(instructions, wanted)]
    problems += [f"{total(instructions, bad)} x {bad}" for bad in forbidden if total(instructions, bad) and not (stack and bad in ("LDL", "STL"))]
    for part, order in orders:
        if re.search(part, symbol):
            ordered.add(part)
            problems += order_problems(instructions, order)
    return problems


def check_pairs(target, listed):
    for parts in pairs:
        found = [[symbol for symbol in listed if kernel in symbol and re.search(part, symbol)] for part in parts]
        problem = "each must match one instantiation" if [len(symbols) for symbols in found] != [1, 1] else \
            difference(listed[found[0][0]], listed[found[1][0]])
        cases.check(f"{target} {parts[0]} has the instructions of {parts[1]}", problem)


def summary(usage, instructions):
    text = f"{usage['registers']} registers"
    if instructions:
        text += "".join(f", {total(instructions, wanted)} {wanted}" for wanted in expected)
    return text


def demangled(symbol):
    """The kernel with its template arguments, as far as c++filt is there."""
    if not shutil.which("c++filt"):
        return symbol
    text = run("c++filt", symbol)[1].strip()
    return re.sub(r"\bgrout::(detail::)?|\((bool|int)\)|^void |\([^()]*\)$", "", text)


def assemble(target):
    cubin = os.path.join(scratch, f"{name}.{target}.cubin")
    code, output = run(options.nvcc, "-ccbin", options.host_compiler, "-std=c++20", "--expt-relaxed-constexpr", "-O3",
                       "-lineinfo", f"-I{root}", f"-gencode=arch={target.replace('sm_', 'compute_')},code={target}",
                       "-Xptxas=-v", "-cubin", "-o", cubin, options.source)
    if code:
        return target, None, output[-4000:], {}
    usages = {}
    for entry in re.finditer(r"Compiling entry function '(\S+)' for '\S+'(.*?)Used (\d+) registers", output, re.S):
        if kernel not in entry.group(1):
            continue
        numbers = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", entry.group(2))
        stack, stores, loads = map(int, numbers.groups())
        usages[entry.group(1)] = {"registers": int(entry.group(3)), "stack": stack, "spill": stores + loads}
    listing = ""
    if tool("cuobjdump") and tool("nvdisasm"):
        code, listing = run(tool("cuobjdump"), "-sass", cubin)
        if code:
            return target, None, listing[-2000:], {}
    return target, usages, output, instructions_of(listing)


def check(target, symbol, usage, instructions):
    if architecture(target) < since:
        instructions = None
    stack = allowed_stack(target, symbol)
    problems = instruction_problems(symbol, instructions, stack) if instructions is not None else []
    cases.check(f"{target} {demangled(symbol)}: {summary(usage, instructions)}",
                "; ".join(resource_problems(usage, stack) + problems))


def check_targets():
    if not options.nvcc:
        cases.skip("assembly", "no CUDA toolkit here (./run toolkit fetches one)")
        return
    disassembled = tool("cuobjdump") and tool("nvdisasm")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for target, usages, output, listed in pool.map(assemble, targets):
            if usages is None:
                cases.check(f"{target} assembles", output)
            elif not usages:
                cases.check(f"{target} assembles", f"{options.source} instantiates no kernel named {kernel}")
            for symbol, usage in (usages or {}).items():
                check(target, symbol, usage, listed.get(symbol, []) if disassembled else None)
            if usages and disassembled and architecture(target) >= since:
                check_pairs(target, listed)
    if not disassembled:
        cases.skip("instructions", NO_DISASSEMBLER)
        return
    for part in sorted({part for part, _ in orders} - ordered):
        cases.check(f"order {part}", "matches no instantiation")


def check_program():
    """Every instantiation in a built program, of which cuobjdump tells registers and stack (spills use the stack)."""
    if not (tool("cuobjdump") and tool("nvdisasm")):
        cases.skip("instructions", NO_DISASSEMBLER)
        return
    code, usage_text = run(tool("cuobjdump"), "-res-usage", options.program)
    assert code == 0, usage_text
    code, listing = run(tool("cuobjdump"), "-sass", options.program)
    assert code == 0, listing[-2000:]
    # One part of each listing for every architecture in the program.
    def by_arch(text):
        parts = re.split(r"^arch = (sm_\w+)$", text, flags=re.M)
        return [(parts[i], parts[i + 1]) for i in range(1, len(parts), 2)]
    listed = {}
    for arch, text in by_arch(listing):
        for symbol, instructions in instructions_of(text).items():
            listed[arch, symbol] = instructions
    found = {}
    for arch, text in by_arch(usage_text):
        for symbol, line in re.findall(r"Function (\S+):\s*\n\s*(REG:.*)", text):
            numbers = {key: int(value) for key, value in re.findall(r"([A-Z]+)(?:\[\d+\])?:(\d+)", line)}
            found[arch, symbol] = {"registers": numbers["REG"], "stack": numbers["STACK"], "spill": numbers.get("LOCAL", 0)}
    for (arch, symbol), usage in found.items():
        if kernel in symbol and architecture(arch) in map(architecture, targets):
            check(arch, symbol, usage, listed.get((arch, symbol), []))
    if not cases.cases:
        cases.check("instantiations", f"{options.program} has no kernel named {kernel}")


scratch = tempfile.mkdtemp()
try:
    check_program() if options.program else check_targets()
finally:
    shutil.rmtree(scratch)
cases.finish()
