#!/bin/bash
# Runs a GoogleTest program (with a wrapper before it, if any): gtest.sh [WRAPPER] PROGRAM
# Exits as it does, but 77 where every case skipped, and 1 where no case ran: neither is a pass.
set -u
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$@" 2>&1 | tee "$log"
rc=${PIPESTATUS[0]}
[ "$rc" = 0 ] || exit "$rc"
ran=$(sed -n 's/^\[==========\] \([0-9]*\) tests\{0,1\} from .* ran\..*/\1/p' "$log" | tail -n 1)
skipped=$(sed -n 's/^\[  SKIPPED \] \([0-9]*\) tests\{0,1\}.*/\1/p' "$log" | tail -n 1)
if [ "${ran:-0}" = 0 ]; then
  echo "No test was executed: ${*: -1}"
  exit 1
fi
if [ "${skipped:-0}" = "$ran" ]; then
  exit 77
fi
