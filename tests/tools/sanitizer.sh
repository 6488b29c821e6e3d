#!/bin/bash
# sanitizer.sh PROBE PROGRAM...: compute-sanitizer's four tools over the GPU tests. First the probe: the tool must find
# the one wrong write of a known program and be silent on its correct twin. Where it does not, this machine refuses the
# tool: "not run", with what it said, and exit code 77.
# GROUT_TEST_SHORT=1 asks the test programs for their short form: instrumented code is 10 to 100 times slower.
set -u
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
not_run() { echo "compute-sanitizer not run: $*"; exit 77; }

[ $# -gt 1 ] || not_run "no GPU test program was built (no CUDA toolkit, or no test)"
tool=
for candidate in "$(command -v compute-sanitizer)" /usr/local/cuda/bin/compute-sanitizer \
                 "$root/.toolkit/bin/compute-sanitizer"; do
  if [ -n "$candidate" ] && [ -x "$candidate" ]; then tool=$(readlink -f "$candidate"); break; fi
done
[ -n "$tool" ] || not_run "it is not installed (./run toolkit fetches it)"
compgen -G '/dev/nvidia[0-9]*' >/dev/null || nvidia-smi -L >/dev/null 2>&1 || not_run "no GPU on this machine"

options=(--error-exitcode=99 --launch-timeout=120)
# NVIDIA's wheels keep the injection library in lib/, its toolkit beside the tool.
injected=$(dirname "$tool")/../lib
if [ -f "$injected/libInterceptorInjectionTarget.so" ]; then options+=(--injection-path "$injected"); fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export GROUT_TEST_SHORT=1

probe=$1
shift
timeout 120 "$tool" --tool memcheck "${options[@]}" "$probe" >"$log" 2>&1 && grep -q 'ERROR SUMMARY: 0 errors' "$log" || {
  tail -n 8 "$log"
  not_run "the correct probe did not come out clean on this machine"
}
timeout 120 "$tool" --tool memcheck "${options[@]}" "$probe" wrong >"$log" 2>&1
grep -q 'Invalid __global__ write' "$log" || {
  tail -n 8 "$log"
  not_run "it did not find the probe's wrong write on this machine"
}
echo "probe: finds the wrong write, silent on the correct twin"

failed=0
for program in "$@"; do
  for kind in memcheck racecheck initcheck synccheck; do
    timeout 1200 "$tool" --tool $kind "${options[@]}" "$program" >"$log" 2>&1
    rc=$?
    summary=$(grep -E '(ERROR|RACECHECK) SUMMARY' "$log" | tail -n 1 | sed 's/^=* *//')
    if { [ $rc = 0 ] || [ $rc = 77 ]; } && [[ $summary == *'SUMMARY: 0 '* ]]; then
      echo "clean: $kind $(basename "$program"): $summary"
    else
      echo "FAILED: $kind $(basename "$program"), exit code $rc: ${summary:-no summary}"
      grep -A12 -m3 -E '^========= (Invalid|Error|Warning|Uninitialized|Barrier|Program hit)' "$log"
      failed=1
    fi
  done
done
exit $failed
