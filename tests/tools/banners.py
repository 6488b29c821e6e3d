"""Each file of tests/gpu begins with its banner, // TEST_TARGET: sm_XX, and its cases can skip, naming the target."""
import glob
import os
import re
import sys

sys.path.insert(0, os.path.dirname(__file__))
from report import Cases

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
cases = Cases("banners")
for path in sorted(glob.glob(f"{root}/tests/gpu/*.cu")):
    text = open(path, encoding="utf-8").read()
    problem = None
    if not re.match(r"// TEST_TARGET: sm_\d+a?\n", text):
        problem = "the first line is not a banner such as // TEST_TARGET: sm_80"
    elif "GTEST_SKIP" not in text and not re.search(r'#include "tests/gpu/.*"', text):
        problem = "nothing in it can skip where the device is another one"
    cases.check(os.path.relpath(path, root), problem)
if not cases.cases:
    cases.skip("banners", "there is no file in tests/gpu")
cases.finish()
