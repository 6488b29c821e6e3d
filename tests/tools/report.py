"""Cases of a script test: printed, written as GoogleTest's XML where GTEST_OUTPUT=xml:FILE asks, and turned into an
exit code: 0 passed, 1 failed (or no case ran), 77 every case skipped."""
import os
import sys
from xml.sax.saxutils import quoteattr


class Cases:
    def __init__(self, suite):
        self.suite = suite
        self.cases = []  # (name, "passed" | "failed" | "skipped", message)

    def check(self, name, problem=None):
        """One case: it failed if `problem` says something."""
        self._add(name, "failed" if problem else "passed", problem or "")

    def skip(self, name, reason):
        self._add(name, "skipped", reason)

    def _add(self, name, outcome, message):
        self.cases.append((name, outcome, message))
        print(f"[{outcome:^8}] {self.suite}: {name}" + (f": {message}" if message else ""), flush=True)

    def finish(self):
        outcomes = [outcome for _, outcome, _ in self.cases]
        target = os.environ.get("GTEST_OUTPUT", "")
        if target.startswith("xml:"):
            os.makedirs(os.path.dirname(target[4:]) or ".", exist_ok=True)
            with open(target[4:], "w", encoding="utf-8") as file:
                file.write(f'<testsuites tests="{len(outcomes)}" failures="{outcomes.count("failed")}">\n'
                           f'<testsuite name={quoteattr(self.suite)}>\n')
                for name, outcome, message in self.cases:
                    inner = {"passed": "", "failed": f"<failure message={quoteattr(message)}/>",
                             "skipped": f"<skipped message={quoteattr(message)}/>"}[outcome]
                    file.write(f'<testcase name={quoteattr(name)} '
                               f'result="{"skipped" if outcome == "skipped" else "completed"}">{inner}</testcase>\n')
                file.write("</testsuite></testsuites>\n")
        if not outcomes:
            print(f"{self.suite}: no case ran")
            sys.exit(1)
        sys.exit(1 if "failed" in outcomes else 77 if set(outcomes) == {"skipped"} else 0)
