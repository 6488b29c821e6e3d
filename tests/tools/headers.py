"""headers.py COMPILER [--nvcc=PATH]: every header compiles alone, with the C++ compiler (the simulated device) and,
where there is one, with nvcc. A header that only GPU code includes says so: `// Included by GPU code only.`"""
import argparse
import glob
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.dirname(__file__))
from report import Cases

parser = argparse.ArgumentParser()
parser.add_argument("compiler")
parser.add_argument("--nvcc", default="")
options = parser.parse_args()
root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
headers = sorted(os.path.relpath(path, root) for directory in ("common", "common/sim", "common/show", "compare", "copy", "gemm", "attention", "tmem")
                 for end in ("cuh", "h", "hpp") for path in glob.glob(f"{root}/{directory}/*.{end}"))


def with_cxx(header):
    # Through standard input, so that "#pragma once in main file" is no matter.
    return subprocess.run([options.compiler, "-std=c++20", "-Wall", "-Wextra", "-Wno-unknown-pragmas", "-Werror", "-fsyntax-only",
                           f"-I{root}", "-x", "c++", "-"], input=f'#include "{header}"\n#include "{header}"\n',
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def with_nvcc(header):
    return subprocess.run([options.nvcc, "-std=c++20", "--expt-relaxed-constexpr", "-ccbin", options.compiler,
                           "-gencode=arch=compute_90a,code=sm_90a", "-Werror=all-warnings", f"-I{root}", "-x", "cu",
                           "-c", "-o", os.path.join(scratch, header.replace("/", "_") + ".o"), "-"], input=f'#include "{header}"\n#include "{header}"\n',
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def gpu_only(header):
    return "// Included by GPU code only." in open(os.path.join(root, header), encoding="utf-8").read()


scratch = tempfile.mkdtemp()
cases = Cases("headers")
jobs = [("C++", header, with_cxx) for header in headers if not gpu_only(header)]
if options.nvcc:
    jobs += [("nvcc", header, with_nvcc) for header in headers if not header.startswith("common/sim/")]
with ThreadPoolExecutor(os.cpu_count()) as pool:
    for (compiler, header, _), done in zip(jobs, pool.map(lambda job: job[2](job[1]), jobs)):
        cases.check(f"{header} compiles alone with {compiler}", None if done.returncode == 0 else done.stdout[-3000:])
if not options.nvcc:
    cases.skip("with nvcc", "no CUDA toolkit here (./run toolkit fetches one)")
shutil.rmtree(scratch)
cases.finish()
