"""compile_costs.py LOG: no file of the build took more than 120 seconds of processor time or 4 GiB in one process to
compile. The log is written by measured.py in a build with -DGROUT_MEASURE=ON; the last compilation of a file counts."""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
from report import Cases

SECONDS, MEBIBYTES = 120, 4096
cases = Cases("compile_costs")
root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
latest = {}
if os.path.exists(sys.argv[1]):
    for line in open(sys.argv[1], encoding="utf-8"):
        entry = json.loads(line)
        latest[entry["object"]] = entry
if not latest:
    cases.skip("limits", "nothing was recorded; configure with -DGROUT_MEASURE=ON and build")
for entry in sorted(latest.values(), key=lambda entry: -entry["cpu_s"]):
    costs = f"{entry['cpu_s']:.1f} s, {entry['peak_mib']} MiB"
    over = entry["cpu_s"] > SECONDS or entry["peak_mib"] > MEBIBYTES
    name = f"{os.path.relpath(entry['source'], root)} ({entry['compiler']}, {entry['object']}): {costs}"
    cases.check(name, f"over the limit of {SECONDS} s and {MEBIBYTES} MiB" if over else None)
cases.finish()
