"""mutated.py COMPILER LIBRARY...: bugs put into the attention's asynchronous patterns are found on the simulated device.
Each mutant is the kernel with one piece of its text replaced, run on the cases of tests/mutated in every mode: in some of
them its results must be wrong, or a rule reported. The kernel as it is must be right in all. LIBRARY: the simulated device
and what it needs."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.dirname(__file__))
from report import Cases

compiler, *libraries = sys.argv[1:]
root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KERNEL, STORE, TILES = (f"attention/attention_{part}.cuh" for part in ("mma", "store", "tiles"))
WAIT, BARRIER = "wait_copies<Tile::stages - 2>();", "__syncthreads();"

# Name, file, text, what stands there instead, and how often the text must occur. A blank stands for any.
MUTANTS = [
    ("no wait for the first tile", KERNEL, f"{WAIT} {BARRIER} if (", f"{BARRIER} if (", 1),
    ("no barrier after that wait", KERNEL, f"{WAIT} {BARRIER} if (", f"{WAIT} if (", 1),
    ("no wait for the next tile", KERNEL, f"{WAIT} {BARRIER} }};", f"{BARRIER} }};", 1),
    ("no barrier between tiles", KERNEL, f"{WAIT} {BARRIER} }};", f"{WAIT} }};", 1),
    ("a wait that leaves the next tile's copies", KERNEL, WAIT, "wait_copies<Tile::stages - 1>();", 2),
    ("a stage filled a tile too early", KERNEL, "stage == 0 ? kAhead : stage - 1", "stage", 1),
    ("copies that are not committed", KERNEL, "commit_copies();", "", 2),
    ("no barrier after Q changes its sign", KERNEL, f"{BARRIER} }} if constexpr (Tile::holds_q)",
     "} if constexpr (Tile::holds_q)", 1),
    ("Q's sign changed by every key warp", KERNEL, "active && first_key == 0", "active", 1),
    ("rows behind the last key copied", TILES, "thread, tile).template copy<Edge::zeros>",
     "thread, tile).template copy<Edge::along_zeros>", 1),
    ("scores behind the last key kept", KERNEL,
     "s[j] = select(coordinate<Scores, 1>(lane) + 16 * j < visible, s[j], -INFINITY);", ";", 1),
    ("no barrier between the key warps' parts", STORE, BARRIER, "", 1),
    ("no barrier between the lanes' rows of O", STORE, "__syncwarp();", "", 1),
]


def mutate(name, file, old, new, count):
    with open(os.path.join(root, file), encoding="utf-8") as kernel:
        changed, found = re.subn(r"\s+".join(map(re.escape, old.split())), lambda match: new, kernel.read())
    return changed, None if found == count else f"{file} has changed: '{old}' occurs {found} times, not {count}"


def compiled(folder, source):
    result = os.path.join(folder, source + ".o")
    command = [compiler, "-std=c++20", "-O1", "-Wno-unknown-pragmas", f"-I{folder}", f"-I{root}", "-c", "-o", result,
               os.path.join(root, "tests", "mutated", source)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-4000:]}"
    return result


def build(folder):
    """The program, with the files in `folder` instead of those of that name."""
    program = os.path.join(folder, "program")
    objects = [cases_object, compiled(folder, "attention_kernels.cpp")]
    subprocess.run([compiler, "-o", program, *objects, *libraries, "-pthread"], check=True)
    return program


def problem(number):
    """What is wrong with one mutant, or with the kernel as it is where there is no number."""
    folder = os.path.join(scratch, str(number))
    os.makedirs(os.path.join(folder, "attention"))
    if number is not None:
        text, missing = mutate(*MUTANTS[number])
        if missing:
            return missing
        with open(os.path.join(folder, MUTANTS[number][1]), "w", encoding="utf-8") as copy:
            copy.write(text)
    done = subprocess.run([build(folder)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    found = re.findall(r"^\w+ \w+: (right|wrong|report)\b", done.stdout, re.M)
    if done.returncode or len(found) != 10:
        return f"not 10 modes, but exit code {done.returncode}:\n{done.stdout[-2000:]}"
    if number is None:
        return None if found == ["right"] * 10 else done.stdout
    print(f"{MUTANTS[number][0]}: {found.count('wrong')} modes of 10 wrong, {found.count('report')} reported")
    return None if set(found) != {"right"} else "no mode found it"


scratch = tempfile.mkdtemp()
cases = Cases("mutated")
try:
    cases_object = compiled(scratch, "attention_cases.cpp")
    numbers = [None, *range(len(MUTANTS))]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for number, wrong in zip(numbers, pool.map(problem, numbers)):
            cases.check("the kernel is right in every mode" if number is None else
                        f"attention with {MUTANTS[number][0]} is found", wrong)
finally:
    shutil.rmtree(scratch)
cases.finish()
