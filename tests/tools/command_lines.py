"""command_lines.py BUILD: what the simulated example programs of a build folder make of malformed and extreme requests.
A refusal is one sentence on standard error that holds the value and what is accepted, exit code 2 (77: not possible on this
machine), no result, and no JSON file. Whatever has nothing to do passes at once."""
import glob
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(__file__))
from report import Cases

build = sys.argv[1]
cases = Cases("command_lines")
MOST = 2**63 - 1
folder = tempfile.mkdtemp()
json = os.path.join(folder, "result.json")

# (arguments behind 16 16, exit code, what the sentence says)
EVERY = [
    ("--bogus 1", 2, ["unknown option '--bogus'", "--json", "exist"]),
    ("--type f64", 2, ["'f64'", "exist"]),
    ("--type", 2, ["--type needs a value", "bf16"]),
    ("--kernel nothing", 2, ["'nothing'", "auto"]),
    ("--device nowhere", 2, ["'nowhere'", "gpu, sim, auto"]),
    ("--device gpu", 77, ["--device gpu is not possible"]),
    ("--seed -1", 2, ["--seed is -1", "at least 0"]),
    ("--seed 1e3", 2, ["'1e3'", "integer"]),
    ("--sim-sms 0", 2, ["--sim-sms is 0", "1 to 4096"]),
    ("--sim-sms 1 --sim-sms 2", 2, ["--sim-sms is given twice"]),
    (f"--json {folder}/none/x.json", 2, [f"'{folder}/none'", "existing folder"]),
    (f"--json {folder}", 2, [folder, "is a folder"]),
    ("16 16 16 16", 2, ["unexpected argument '16'", "usage"]),
]
ATTENTION = [
    ("--kernel wgmma", 2, ["--kernel wgmma is not built yet", "auto, mma exist"]),
    ("--type f32", 2, ["'f32'", "bf16, f16 exist"]),
    ("--storage hsbd", 2, ["'hsbd'", "bshd, bhsd exist"]),
    ("--heads 3 --kv-heads 2", 2, ["heads=3", "kv_heads=2"]),
    ("--heads 2 --kv-heads 4", 2, ["heads=2", "kv_heads=4"]),
    ("--heads 0", 2, ["heads=0", "at least 1"]),
    ("--kv-heads 0", 2, ["kv_heads=0", "at least 1"]),
    ("--heads -1", 2, ["heads=-1"]),
    (f"--heads {MOST}", 2, [f"heads={MOST}", "2^31"]),
    ("--dim 0", 2, ["dim=0", "1 to 256"]),
    ("--dim 257", 2, ["dim=257", "1 to 256"]),
    (f"--dim {MOST}", 2, [f"dim={MOST}", "1 to 256"]),
    (f"--dim {-MOST - 1}", 2, [f"dim={-MOST - 1}", "1 to 256"]),
    ("--batch -1", 2, ["--batch is -1", "at least 0"]),
    (f"--batch {MOST}", 2, [f"batch={MOST}", "62-bit"]),
    ("--scale nan", 2, ["'nan'", "finite"]),
    ("--scale 1e39", 2, ["'1e39'", "3.4e38"]),
    ("--scale -3e38", 2, ["scale=-3", "2e38"]),
    ("--splits 129", 2, ["--splits is 129", "0 to 128"]),
    ("--splits -1", 2, ["--splits is -1"]),
    ("--offset -1", 2, ["--offset is -1", "0 to 1048576"]),
    ("--offset-o 1048577", 2, ["--offset-o is 1048577", "0 to 1048576"]),
    ("--causal=yes", 2, ["--causal takes no value"]),
    ("--lengths 3:4", 2, ["--lengths", "SQ=16 SK=16 beside it is refused"]),
    ("--batch 0", 0, []),
    ("--splits 2 --causal --offset-q 1 --offset-k 2 --offset-v 3 --offset-o 4 --storage bhsd --type f16", 0, []),
]
ATTENTION_WHOLE = [
    ("", 2, ["SQ is missing"]),
    ("-1", 2, ["SQ is -1", "0 to 2147483647"]),
    ("3 -1", 2, ["SK is -1", "0 to 2147483647"]),
    ("2147483648", 2, ["SQ is 2147483648"]),
    (f"{MOST + 1}", 2, [f"SQ is {MOST + 1}", "64 bits"]),
    ("x", 2, ["'x'", "integer"]),
    ("5 6 7", 2, ["unexpected argument '7'", "SQ [SK]"]),
    ("2147483647 --heads 2147483647", 2, ["2147483647 queries", "heads=2147483647", "62-bit"]),
    ("1000000 --heads 4096", 77, ["SQ=1000000 SK=1000000", "heads=4096", "GB"]),
    ("--lengths", 2, ["--lengths needs a value", "Q1,Q2,..:K1,K2,.."]),
    ("--lengths 3,4", 2, ["'3,4'", "two lists"]),
    ("--lengths 3:4:5", 2, ["'3:4:5'", "two lists"]),
    ("--lengths 3,4:5", 2, ["'3,4:5'", "lists of 2 and of 1"]),
    ("--lengths 3,-4:5,6", 2, ["-4", "0 to 2147483647"]),
    ("--lengths 3,:5,6", 2, ["number 2 of '3,'", "integer"]),
    ("--lengths 3:5x", 2, ["'5x'", "integer"]),
    ("--lengths 3:2147483648", 2, ["2147483648", "0 to 2147483647"]),
    ("--lengths 2147483647,1:1,1", 2, ["2147483648 queries", "32 bits"]),
    ("--lengths 3:4 --batch 2", 2, ["--lengths", "--batch 2 beside it is refused"]),
    ("--lengths 1000000000,0:1,0 --heads 64", 77, ["1000000000 queries and 1 keys in all", "heads=64", "GB"]),
    ("0", 0, []), ("0 5", 0, []), ("5 0", 0, []), ("0 --batch 7", 0, []), ("1", 0, []),
    ("--lengths 0,0:0,5", 0, []), ("--lengths 3,0,7:0,2,9 --causal --heads 4 --kv-heads 2 --dim 24", 0, []),
]
COPY = [
    ("--ld 8", 2, ["--ld is 8", "at least the 16"]),
    (f"--ld {-MOST - 1}", 2, [f"--ld is {-MOST - 1}", "at least the 16"]),
    ("--ld 1000000000000", 77, ["--ld 1000000000000", "GB"]),
    ("--out-ld 3", 2, ["3", "16"]),
    (f"--out-ld {-MOST - 1}", 2, [str(-MOST - 1), "16"]),
    ("--offset -1", 2, ["--offset is -1", "0 to 1048576"]),
]
CROP = [
    (f"--ld {MOST}", 2, [str(MOST), "62-bit"]),
    (f"--out-ld {MOST}", 2, [str(MOST), "62-bit"]),
    ("--stride 2", 2, ["unknown option '--stride'", "--tile"]),
    ("--transpose", 2, ["unknown option '--transpose'", "--tile"]),
    ("--tile 5", 2, ["'5'", "two integers"]),
    ("--tile 5,", 2, ["--tile, columns, is ''", "integer"]),
    ("--tile 5,6,7", 2, ["'5,6,7'", "two integers"]),
    ("--tile -1,4", 2, ["--tile, rows, is -1", "at least 0"]),
    (f"--tile {MOST},{MOST}", 2, [str(MOST), "exceeds"]),
    (f"--origin {MOST},0", 2, [str(MOST), f"plus the rectangle of 16x16 exceeds {MOST - 4096}"]),
    (f"--origin 0,{-MOST - 1}", 2, [str(-MOST - 1), f"more than {MOST - 4096} before the end"]),
    ("--tile 0,0", 0, []),
    (f"--tile {10**18},0", 0, []),
]
TENSOR = [
    ("--offset 3", 2, ["6 bytes past a multiple of 16", "takes any"]),
    ("--origin 0,-3", 2, ["column -3", "takes any"]),
    ("--origin -2147483648,0", 2, ["-2147483648,0", "32 bits", "takes any"]),
    ("--ld 17", 2, ["strides 17,1", "multiple of 8", "takes any"]),
]
BATCH = [  # of both kernels that copy in batches
    ("--max-copy-batch 0", 2, ["--max-copy-batch is 0", "1 to 16"]),
    ("--max-copy-batch 17", 2, ["--max-copy-batch is 17", "1 to 16"]),
    (f"--max-copy-batch {MOST}", 2, [f"--max-copy-batch is {MOST}", "1 to 16"]),
    ("--max-copy-batch -4", 2, ["--max-copy-batch is -4", "1 to 16"]),
    ("--max-copy-batch four", 2, ["'four'", "integer"]),
    ("--max-copy-batch", 2, ["--max-copy-batch needs a value"]),
    ("--max-copy-batch 16", 0, []),
]
COPY_BATCHED = BATCH + [
    ("--workers 64", 2, ["'64'", "32, 48, 256"]),
    ("--workers 0", 2, ["'0'", "32, 48, 256"]),
    ("--max-copy-batch 16 --workers 48", 0, []),
    ("--max-copy-batch 16 --workers 48 --tile 0,3", 0, []),
]
GEMM_BATCHED = BATCH + [
    ("--tile 32x32x32", 2, ["'32x32x32'", "64x64x32, 64x64x16, 32x64x32"]),
    ("--type bf16", 2, ["bf16", "f32", "mma"]),
    ("--bounds false", 2, ["M=16 N=16 K=16", "64, 64 and 32"]),
    ("--bounds false --tile 64x64x16", 2, ["64x64x32", "pilots"]),
    ("--lda 3", 2, ["lda=3", "16"]),
    ("--tile 32x64x32 --layout tt --alpha 2 --beta -1 --max-copy-batch 3", 0, []),
]
SWIZZLE = [  # checked as the crop of the transposed source, which the sentence says
    (f"--origin {MOST},0", 2, [f"0,{MOST}", "transposed source"]),
    (f"--tile 3,{MOST // 2}", 2, [str(MOST // 2), "transposed source"]),
]
REPACK = [
    ("--tile 3,3", 2, ["unknown option '--tile'", "--stride"]),
    ("--origin 3,3", 2, ["unknown option '--origin'", "--stride"]),
    ("--transpose=1", 2, ["--transpose takes no value"]),
    ("--stride 1025", 2, ["--stride is 1025", "-1024 to 1024"]),
    ("--out-ld 28 --type f32", 0, []),
    ("--out-ld 28", 2, ["--out-ld is 28", "multiple of 8"]),
]
EXTENTS = [  # "ROWS COLS"
    ("", 2, ["ROWS is missing"]),
    ("5", 2, ["COLS is missing"]),
    ("-1 5", 2, ["ROWS is -1", "0"]),
    (f"5 {-MOST - 1}", 2, [f"COLS is {-MOST - 1}", "0"]),
    (f"{MOST + 1} 5", 2, [f"ROWS is {MOST + 1}", "64 bits"]),
    ("3.5 5", 2, ["'3.5'", "integer"]),
    ("x 5", 2, ["'x'", "integer"]),
    (f"{MOST} {MOST}", 2, [str(MOST)]),
    (f"3 {MOST}", 2, [str(MOST)]),
    (f"{MOST} 3", 2, [str(MOST)]),
    ("1000000 1000000", 77, ["1000000", "GB"]),
    ("0 0", 0, []), ("0 5", 0, []), ("5 0", 0, []),
    (f"{10**13} 0", 0, []), (f"0 {10**13}", 0, []),
]
TRANSPOSED = [(f"{10**13} 0 --transpose --stride 1024", 0, []), (f"0 {10**13} --transpose", 0, []),
              (f"3 {10**13} --stride 1024", 77, [str(10**13), "GB"])]


def problem(program, words, code, parts):
    given = "--json" in words
    command = [program, *words.split(), *([] if given else ["--json", json])]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return f"{words}: did not end within a minute"
    lines = done.stderr.splitlines()
    wrong = []
    if done.returncode != code:
        wrong.append(f"exit code {done.returncode}, not {code}")
    if len(lines) != (0 if code == 0 else 1):
        wrong.append(f"{len(lines)} lines on standard error")
    wrong += [f"no '{part}'" for part in parts if part not in done.stderr]
    if ("PASS" in done.stdout) != (code == 0):
        wrong.append("a result, or none")
    if not given and os.path.exists(json) != (code == 0):
        wrong.append("a JSON file, or none")
    if os.path.exists(json):
        os.remove(json)
    return f"{words}: {', '.join(wrong)}; it said: {done.stderr}{done.stdout}" if wrong else None


for program in sorted(path for directory in ("copy", "gemm", "attention") for path in glob.glob(f"{build}/{directory}/{directory}_*_sim")):
    name = os.path.basename(program)[:-len("_sim")]
    extents = "16 16 16" if name.startswith("gemm") else "16 16"
    requests = [(f"{extents} {words}", *rest) for words, *rest in EVERY]
    if name.startswith("copy"):
        more = COPY + (REPACK if name == "copy_repack" else CROP)
        if name not in ("copy_repack", "copy_bounded", "copy_batched", "copy_stream"):
            more = more + TENSOR
        if name == "copy_batched":
            more = more + COPY_BATCHED
        if name == "copy_swizzle":
            more = more + SWIZZLE
        requests += [(f"{extents} {words}", *rest) for words, *rest in more] + EXTENTS
        if name == "copy_repack":
            requests += TRANSPOSED
    if name.startswith("attention"):
        requests += [(f"{extents} {words}", *rest) for words, *rest in ATTENTION] + ATTENTION_WHOLE
    if name == "gemm_batched":
        requests += [(f"{extents} {words}", *rest) for words, *rest in GEMM_BATCHED]
    found = [said for request in requests if (said := problem(program, *request))]
    cases.check(f"{name}, {len(requests)} requests", "\n".join(found))
if not cases.cases:
    cases.skip("programs", "no simulated program is built")
os.rmdir(folder)
cases.finish()
