"""configure.py CMAKE [--nvcc=PATH --host-compiler=PATH]: what the configuration says where it must refuse, and that it
needs neither GPU, toolkit, GoogleTest nor network. Each case configures into a folder of its own."""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.dirname(__file__))
from report import Cases

parser = argparse.ArgumentParser()
parser.add_argument("cmake")
parser.add_argument("--nvcc", default="")
parser.add_argument("--host-compiler", default="")
options = parser.parse_args()
root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
cases = Cases("configure")
scratch = tempfile.mkdtemp()

# A host compiler of a version that nvcc refuses: g++ that claims to be far newer.
future = os.path.join(scratch, "g++-future")
with open(future, "w", encoding="utf-8") as file:
    file.write('#!/bin/sh\nexec g++ -U__GNUC__ -D__GNUC__=99 "$@"\n')
os.chmod(future, 0o755)

# Folders that are not the pinned revision's: of another one, and with a header changed.
with open(os.path.join(root, "cmake/pinned.cmake"), encoding="utf-8") as file:
    PINNED = re.search(r"grout_pinned_commit ([0-9a-f]{40})\)", file.read()).group(1)
for name, commit in (("other", "0" * 40), ("changed", PINNED)):
    os.makedirs(os.path.join(scratch, name, "gemm"))
    for path, text in (("PINNED_COMMIT", f"{commit}\n"), ("gemm/gemm.cuh", "// not that one's\n")):
        with open(os.path.join(scratch, name, path), "w", encoding="utf-8") as file:
            file.write(text)

CUDA = [f"-DCMAKE_CUDA_COMPILER={options.nvcc}", f"-DCMAKE_CUDA_HOST_COMPILER={options.host_compiler}"]
# name, arguments, needs nvcc, must it work, patterns that the output must have
table = [
    ("GROUT_CUDA=maybe", ["-DGROUT_CUDA=maybe"], False, False, ["accepted: AUTO, ON, OFF"]),
    ("no toolkit, no tests", ["-DGROUT_CUDA=OFF", "-DBUILD_TESTING=OFF"], False, True, []),
    ("no GoogleTest", ["-DGROUT_CUDA=OFF", "-DCMAKE_DISABLE_FIND_PACKAGE_GTest=ON"], False, True, ["no GoogleTest", "libgtest-dev"]),
    ("no Boost.Context", ["-DGROUT_CUDA=OFF", "-DCMAKE_DISABLE_FIND_PACKAGE_Boost=ON"], False, True,
     ["no Boost.Context", "libboost-context-dev"]),
    ("no fmt", ["-DGROUT_CUDA=OFF", "-DGROUT_FMT_INCLUDE=OFF"], False, True, ["compare needs", "nlohmann-json3-dev libfmt-dev"]),
    ("70", ["-DCMAKE_CUDA_ARCHITECTURES=70"], True, False, ["has 70", "toolkit before 13", "accepted: 80;"]),
    ("75", ["-DCMAKE_CUDA_ARCHITECTURES=75"], True, False, ["has 75", "80 or later", "accepted: 80;"]),
    ("90", ["-DCMAKE_CUDA_ARCHITECTURES=90"], True, False, ["has 90", "use 90a"]),
    ("80;100", ["-DCMAKE_CUDA_ARCHITECTURES=80;100"], True, False, ["has 100", "use 100a"]),
    ("100f", ["-DCMAKE_CUDA_ARCHITECTURES=100f"], True, False, ["has 100f", "use 100a"]),
    ("120", ["-DCMAKE_CUDA_ARCHITECTURES=120"], True, False, ["has 120", "use 120a"]),
    ("80-virtual", ["-DCMAKE_CUDA_ARCHITECTURES=80-virtual"], True, False, ["80-virtual", "not PTX"]),
    ("all", ["-DCMAKE_CUDA_ARCHITECTURES=all"], True, False, ["has all", "accepted: 80;"]),
    ("999", ["-DCMAKE_CUDA_ARCHITECTURES=999"], True, False, ["has 999", "accepted: 80;"]),
    ("every accepted one", ["-DCMAKE_CUDA_ARCHITECTURES=80;86;89;90a;100a;103a;120a;121a"], True, True, []),
    ("an unsupported host compiler", [f"-DCMAKE_CUDA_HOST_COMPILER={future}"], True, False,
     [re.escape(future), "CMAKE_CUDA_HOST_COMPILER", "unsupported GNU version", "g\\+\\+ 12 to 15"]),
    ("no pinned revision", ["-DGROUT_CUDA=OFF", f"-DGROUT_PINNED_SOURCE={scratch}/none"], False, False, ["/none", "PINNED_COMMIT", PINNED]),
    ("another pinned revision", ["-DGROUT_CUDA=OFF", f"-DGROUT_PINNED_SOURCE={scratch}/other"], False, False,
     ["/other", f"revision '{'0' * 40}'", f"{PINNED} is needed"]),
    ("a changed pinned revision", ["-DGROUT_CUDA=OFF", f"-DGROUT_PINNED_SOURCE={scratch}/changed"], False, False,
     ["/changed", "not those of revision", PINNED[:7]]),
    ("no history", ["-DGROUT_CUDA=OFF", f"-DGROUT_GIT={shutil.which('false')}"], False, True, [PINNED[:7], "is not here: git has no such commit"]),
    ("an nvcc that does not run", ["-DCMAKE_CUDA_COMPILER=/nonexistent/nvcc"], False, False, ["/nonexistent/nvcc", "GROUT_CUDA=OFF"]),
]
if not os.path.exists("/dev/nvidia0") and shutil.which("nvidia-smi") is None:
    table += [
        ("native without a GPU", ["-DCMAKE_CUDA_ARCHITECTURES=native"], True, False, ["native", "no GPU", "80;90a", "default list"]),
        ("no GPU and no value", [], True, True, ["no GPU", "default architectures 80;90a"]),
    ]


def configure(case):
    name, arguments, needs_nvcc, _, _ = case
    given = (CUDA if needs_nvcc else []) + arguments
    # A C++ library download would show here: FetchContent is told that there is no network.
    done = subprocess.run([options.cmake, "-S", root, "-B", os.path.join(scratch, re.sub(r"\W", "_", name)),
                           "-DFETCHCONTENT_FULLY_DISCONNECTED=ON", *given],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode == 0, " ".join(done.stdout.split())


runnable = [case for case in table if options.nvcc or not case[2]]
with ThreadPoolExecutor(os.cpu_count()) as pool:
    for (name, _, _, must_work, patterns), (worked, output) in zip(runnable, pool.map(configure, runnable)):
        problem = None
        if worked != must_work:
            problem = f"{'worked' if worked else 'failed'}: {output[-1500:]}"
        else:
            missing = [pattern for pattern in patterns if not re.search(pattern, output)]
            problem = f"does not say {missing}: {output[-1500:]}" if missing else None
        cases.check(name, problem)
if not options.nvcc:
    cases.skip("the architectures", "no CUDA toolkit here (./run toolkit fetches one)")
shutil.rmtree(scratch)
cases.finish()
