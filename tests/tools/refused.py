"""refused.py COMPILER FILE: each `#if CASE == n  // expect: message` of FILE must not compile, and the compiler must
print the message; CASE 0, the file without any of them, must compile."""
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.dirname(__file__))
from report import Cases

compiler, path = sys.argv[1:]
root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
expected = {}
for line in open(path, encoding="utf-8"):
    match = re.match(r"\s*#\s*(?:el)?if\s+CASE\s*==\s*(\d+)\s*//\s*expect:\s*(.*\S)", line)
    if match:
        number = int(match.group(1))
        assert number not in expected, f"{path}: CASE {number} appears twice"
        expected[number] = match.group(2)
    else:
        assert not re.match(r"\s*#\s*(?:el)?if\s+CASE\b", line), f"{path}: a case without '// expect: message': {line}"


def compiles(number):
    done = subprocess.run([compiler, "-std=c++20", "-fsyntax-only", "-x", "c++", f"-DCASE={number}", f"-I{root}", path],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode == 0, done.stdout


cases = Cases("refused." + os.path.splitext(os.path.basename(path))[0])
numbers = [0, *sorted(expected)]
with ThreadPoolExecutor(os.cpu_count()) as pool:
    for number, (compiled, output) in zip(numbers, pool.map(compiles, numbers)):
        if number == 0:
            cases.check("the accepted forms compile", None if compiled else output)
        elif compiled:
            cases.check(f"case {number}", f"compiles, but must be refused with: {expected[number]}")
        else:
            # A message may be wrapped or quoted by the compiler, so compare without runs of blanks.
            plain = " ".join(output.split())
            wanted = " ".join(expected[number].split())
            cases.check(f"case {number}", None if wanted in plain else f"does not say '{wanted}', but:\n{output}")
if not expected:
    cases.check("there are cases", f"{path} has no '#if CASE == n  // expect: message'")
cases.finish()
