"""copy_out.py [--nvcc=PATH --host-compiler=PATH]: each kernel directory can be copied out as its README says. The files
listed under "Files to copy", and no others, are copied to an empty folder; what is listed must exist, include only what is
listed, and must not be args, check, bench, program or sim; and each caller that the README shows there must compile with one
nvcc line and the files listed above it.

In the README, the section holds a list of paths in backquotes, then a ```cpp block: the caller, of about 20 lines."""
import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(__file__))
from report import Cases

parser = argparse.ArgumentParser()
parser.add_argument("--nvcc", default="")
parser.add_argument("--host-compiler", default="g++")
options = parser.parse_args()
root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FORBIDDEN = re.compile(r"^common/(args|check|check_gpu|check_attention|check_attention_gpu|attention_reference|bench|verify)\.|^common/sim/|/program\.cuh$")
cases = Cases("copy_out")


def includes_of(path):
    return re.findall(r'^ *# *include "([^"]+)"', open(path, encoding="utf-8").read(), re.M)


def copy_out(directory):
    readme = os.path.join(root, directory, "README.md")
    if not os.path.exists(readme):
        return "has no README.md"
    section = re.search(r"^#+\s*Files to copy\s*$(.*?)(?=^#+\s|\Z)", open(readme, encoding="utf-8").read(), re.M | re.S)
    if not section:
        return "its README.md has no section 'Files to copy'"
    text = section.group(1)
    callers = re.findall(r"^```(?:cpp|cuda|c\+\+)\n(.*?)^```", text, re.M | re.S)
    if not callers:
        return "the section 'Files to copy' shows no ```cpp caller"
    def files_in(prose):
        found = sorted(set(re.findall(r"`([\w./]+\.(?:cuh|h))`", prose)))
        return [path if "/" in path else f"{directory}/{path}" for path in found]

    listed = files_in(re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))
    missing = [path for path in listed if not os.path.isfile(os.path.join(root, path))]
    if missing or not listed:
        return f"lists {missing or 'no file'}, which does not exist"
    wrong = [path for path in listed if FORBIDDEN.search(path) or path.split("/")[0] not in ("common", directory)]
    if wrong:
        return f"lists {wrong}, which a copied kernel must not need"
    unlisted = sorted({include for path in listed for include in includes_of(os.path.join(root, path))
                       if include not in listed and not include.startswith("common/sim/")})
    if unlisted:
        return f"does not list {unlisted}, which the listed files include"
    if not options.nvcc:
        return None
    folder = tempfile.mkdtemp()
    try:
        above = ""
        for number, part in enumerate(re.split(r"^```(?:cpp|cuda|c\+\+)\n(.*?)^```", text, flags=re.M | re.S)):
            if number % 2 == 0:  # prose, then the caller below it
                above += re.sub(r"^```.*?^```", "", part, flags=re.M | re.S)
                continue
            for path in files_in(above):
                os.makedirs(os.path.join(folder, os.path.dirname(path)), exist_ok=True)
                shutil.copy(os.path.join(root, path), os.path.join(folder, path))
            with open(os.path.join(folder, f"caller{number}.cu"), "w", encoding="utf-8") as file:
                file.write(part)
            done = subprocess.run([options.nvcc, "-ccbin", options.host_compiler, "-std=c++20", "--expt-relaxed-constexpr",
                                   "-O3", "-gencode=arch=compute_90a,code=sm_90a", "-I.", f"caller{number}.cu", "-o",
                                   f"caller{number}"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if done.returncode:
                return f"a caller does not compile with the {len(files_in(above))} files listed above it:\n{done.stdout[-3000:]}"
        unused = []
        for path in listed:  # a listed file that the callers do not need is one too many, unless it is a kernel
            if path.startswith("common/"):
                name = os.path.join(folder, path)
                reached = any(f'"{path}"' in open(other, encoding="utf-8").read()
                              for other in glob.glob(f"{folder}/**/*.c*", recursive=True) + glob.glob(f"{folder}/**/*.h", recursive=True)
                              if other != name)
                if not reached:
                    unused.append(path)
        return f"lists {unused}, which nothing copied includes" if unused else None
    finally:
        shutil.rmtree(folder)


for directory in ("copy", "gemm", "attention", "tmem"):
    if not glob.glob(f"{root}/{directory}/*.cuh"):
        continue
    problem = copy_out(directory)
    if problem or options.nvcc:
        cases.check(directory, problem)
    else:
        cases.skip(directory, "the callers: no CUDA toolkit here (./run toolkit fetches one)")
if not cases.cases:
    cases.skip("directories", "there is no kernel directory yet")
cases.finish()
