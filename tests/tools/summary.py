"""summary.py RESULTS CTEST_RC: adds up the cases of a test run from ctest's junit file and each test's XML.
A test without XML of its own counts as one case; one that died counts as a failure. The last line is
"N passed, N failed, N skipped". Exit code 0: something ran and nothing failed; 77: everything skipped; else 1."""
import collections
import os
import re
import sys
import xml.etree.ElementTree as ElementTree

results, ctest_rc = sys.argv[1], int(sys.argv[2])
counts = collections.defaultdict(lambda: {"passed": 0, "failed": 0, "skipped": 0})
reasons = collections.Counter()
failed = []


def cases_of(path):
    """(passed, failed, [skip reasons]) of a GoogleTest XML file; None where there is none that can be read."""
    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError):
        return None
    passed = failures = 0
    skips = []
    for case in root.iter("testcase"):
        if case.find("failure") is not None:
            failures += 1
        elif case.get("result") == "skipped" or case.find("skipped") is not None:
            skip = case.find("skipped")
            message = skip.get("message", "") if skip is not None else ""
            # GoogleTest puts "file:line" first.
            lines = [line.strip() for line in message.splitlines() if line.strip() and not re.search(r"^\S+:\d+$", line)]
            skips.append(" ".join(lines) or "no reason given")
        elif case.get("result", case.get("status", "run")) not in ("suppressed", "notrun"):
            passed += 1
    return passed, failures, skips


try:
    tests = ElementTree.parse(os.path.join(results, "ctest.junit")).getroot().findall("testcase")
except (OSError, ElementTree.ParseError) as error:
    sys.exit(f"No results of ctest: {error}")
for test in tests:
    name, status = test.get("name"), test.get("status")  # run, fail, notrun, disabled
    count = counts[name.split(".")[0]]
    skipped = status == "notrun" and test.find("skipped") is not None and (
        "SKIP" in test.find("skipped").get("message", "").upper())
    cases = cases_of(os.path.join(results, name + ".xml"))
    if cases is not None:
        passed, failures, skips = cases
        count["passed"] += passed
        count["failed"] += failures
        count["skipped"] += len(skips)
        for reason in skips:
            reasons[f"{name}: {reason}"] += 1
        if status != "run" and not skipped and not failures:
            failures = 1  # it died after its last case, or was ended
            count["failed"] += 1
        if failures:
            failed.append(name)
    elif status == "run":
        count["passed"] += 1
    elif skipped:
        count["skipped"] += 1
        output = test.findtext("system-out", "").strip().splitlines()
        reasons[f"{name}: {output[-1] if output else 'no reason given'}"] += 1
    else:
        count["failed"] += 1
        failed.append(name)

total = {kind: sum(count[kind] for count in counts.values()) for kind in ("passed", "failed", "skipped")}
print()
print(f"{'':8}{'passed':>8}{'failed':>8}{'skipped':>8}")
for label in sorted(counts, key=["host", "sim", "gpu", "asm", "tools"].index):
    print(f"{label:8}" + "".join(f"{counts[label][kind]:8}" for kind in ("passed", "failed", "skipped")))
for reason, times in sorted(reasons.items()):
    print(f"skipped {times} x {reason}")
for name in failed:
    print(f"FAILED {name}")
executed = total["passed"] + total["failed"]
if not executed:
    print("No test was executed.")
print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
if not executed and total["skipped"] and ctest_rc == 0:
    sys.exit(77)
sys.exit(0 if executed and not total["failed"] and ctest_rc == 0 else 1)
