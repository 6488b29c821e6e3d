"""pinned.py CMAKE COMPILER [--library=FILE --current=FILE --program=FILE]: the pinned revision's library (cmake/pinned.cmake).
Where it was built: no symbol of today's namespace is in it, it shares no definition with today's kernels, and the program that links
both holds the kernels of both. Everywhere: where the revision is not to be had, a library that says so is built instead."""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(__file__))
from report import Cases

parser = argparse.ArgumentParser()
parser.add_argument("cmake")
parser.add_argument("compiler")
parser.add_argument("--library", default="")
parser.add_argument("--current", default="")
parser.add_argument("--program", default="")
options = parser.parse_args()
root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
cases = Cases("pinned")
# In mangled names a name follows its length: 5grout is today's namespace, 12grout_pinned the other.
CURRENT, PINNED = re.compile(r"(?<!\d)5grout"), re.compile(r"(?<!\d)12grout_pinned")


def run(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def symbols(path):
    """{name: type} of a library, defined or not, as nm writes them."""
    found = {}
    for line in run("nm", path).stdout.splitlines():
        parts = line.split()
        if len(parts) >= 2 and len(parts[-2]) == 1:
            found[parts[-1]] = parts[-2]
    return found


def check_symbols():
    pinned, current = symbols(options.library), symbols(options.current)
    if not any(PINNED.search(name) for name in pinned) or not any(CURRENT.search(name) for name in current):
        cases.check("nm reads both libraries", f"{len(pinned)} and {len(current)} symbols, without the namespaces expected")
        return
    strangers = [name for name in pinned if CURRENT.search(name)]
    cases.check(f"none of the {len(pinned)} symbols of the pinned library is of today's namespace", ", ".join(strangers[:5]))
    visible, both = ({name for name, kind in of.items() if kind in "TDBRVWu"} for of in (pinned, current))
    both &= visible
    # What the C++ library's templates leave in every object.
    ours = [name for name in both if not re.match(r"_ZN?K?St|_ZZ?N?K?S[tas]|_ZN9__gnu_cxx|DW\.ref\.", name)]
    cases.check(f"none of its {len(visible)} visible definitions is also one of today's kernels'", ", ".join(sorted(ours)[:5]))


def check_program():
    with open(options.program, "rb") as file:
        content = file.read()
    # As they are registered with the runtime: strings that end with the kernel's parameter.
    pinned, current = (set(re.findall(rb"_ZN" + space + rb"15gemm_mma_kernel\w+?EvNS_17GemmMmaParametersIT_EE(?=\0)", content))
                       for space in (b"12grout_pinned", b"5grout"))
    # Three tiles in four layouts, none but the aligned path (the first of GemmPath) of bf16.
    wrong = len(pinned) != 12 or not all(b"4bf16" in name and b"GemmPathE0E" in name for name in pinned) or not current
    cases.check(f"one program holds {len(pinned)} pinned kernels and {len(current)} of today's",
                "12 pinned ones, bf16 and aligned, and some of today's were expected" if wrong else None)


def check_replacement():
    """A build that finds no history: configured, built and linked as ever, and says why at run time."""
    folder = tempfile.mkdtemp()
    try:
        done = run(options.cmake, "-S", root, "-B", folder, "-DGROUT_CUDA=OFF", "-DBUILD_TESTING=OFF",
                   f"-DGROUT_GIT={shutil.which('false')}", f"-DCMAKE_CXX_COMPILER={options.compiler}")
        said = re.search(r"pinned revision (\w+) is not here: git has no such commit", done.stdout)
        if done.returncode or not said:
            return f"the configuration: {done.stdout[-800:]}"
        done = run(options.cmake, "--build", folder, "--target", "grout_pinned")
        if done.returncode:
            return f"the library: {done.stdout[-800:]}"
        source, program = os.path.join(folder, "main.cpp"), os.path.join(folder, "main")
        with open(source, "w", encoding="utf-8") as file:
            file.write('#include <cstdio>\n#include "compare/pinned.h"\nint main() {\n'
                       '  const bool same = pinned::missing() == pinned::gemm({});\n'
                       '  std::printf("%d %s\\n", same, pinned::missing().c_str());\n}\n')
        done = run(options.compiler, "-std=c++20", f"-I{root}", source, os.path.join(folder, "libgrout_pinned.a"), "-o", program)
        if done.returncode:
            return f"a program: {done.stdout[-800:]}"
        done = run(program)
        return None if done.stdout.startswith(f"1 {said.group(0)}") else f"the program said: {done.stdout[-800:]}"
    finally:
        shutil.rmtree(folder)


if options.library and not shutil.which("nm"):
    cases.skip("symbols", "there is no nm (binutils)")
elif options.library:
    check_symbols()
    check_program()
else:
    cases.skip("symbols", "the pinned revision was not built here: there is no CUDA toolkit, or git has no such commit")
cases.check("without history the library says why", check_replacement())
cases.finish()
