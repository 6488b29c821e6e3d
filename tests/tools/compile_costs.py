"""compile_costs.py LOG: no file of the build took more than 4 GiB in one process to compile, or more than 120 seconds of
processor time: that where CI is set, since seconds depend on the machine and on what else it does. The log is written by
measured.py in a build with -DGROUT_MEASURE=ON; the last compilation of a file counts."""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
from report import Cases

SECONDS, MEBIBYTES = 120 if os.environ.get("CI") else float("inf"), 4096
cases = Cases("compile_costs")
root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
latest = {}
if os.path.exists(sys.argv[1]):
    for line in open(sys.argv[1], encoding="utf-8"):
        entry = json.loads(line)
        latest[entry["object"]] = entry
if not latest:
    cases.skip("limits", "nothing was recorded; configure with -DGROUT_MEASURE=ON and build")
over = []
for entry in sorted(latest.values(), key=lambda entry: -entry["cpu_s"]):
    line = (f"{entry['cpu_s']:6.1f} s {entry['peak_mib']:5} MiB  {os.path.relpath(entry['source'], root)} "
            f"({entry['compiler']}, {entry['object']})")
    print(line)
    if entry["cpu_s"] > SECONDS or entry["peak_mib"] > MEBIBYTES:
        over.append(line.strip())
if latest:
    limits = f"{MEBIBYTES} MiB" if SECONDS == float("inf") else f"{SECONDS} s and {MEBIBYTES} MiB"
    cases.check(f"{len(latest)} compilations within {limits}", "over it: " + "; ".join(over) if over else None)
cases.finish()
