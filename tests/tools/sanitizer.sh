#!/bin/bash
# sanitizer.sh PROBE PROGRAM...: compute-sanitizer's four tools over the GPU tests. First the probe: each tool must find the one
# mistake of a known program and be silent on its correct twin. Where it does not, this machine refuses the tool: "not run",
# with what it said, and exit code 77.
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

# What API calls return is for the tests to check: some ask for refusals.
options=(--error-exitcode=99 --launch-timeout=120 --report-api-errors=no)
# NVIDIA's wheels keep the injection library in lib/, its toolkit beside the tool.
injected=$(dirname "$tool")/../lib
if [ -f "$injected/libInterceptorInjectionTarget.so" ]; then options+=(--injection-path "$injected"); fi
logs=$(mktemp -d) || { echo "no folder for temporary files"; exit 1; }
log=$logs/probe.log
trap 'jobs -p | xargs -r kill 2>/dev/null; rm -rf "$logs"' EXIT
export GROUT_TEST_SHORT=1
unset GTEST_OUTPUT  # that file is the whole check's, not each program's

probe=$1
shift
# silent KIND LOG: KIND ended with one summary, of nothing found.
silent() {
  local title=ERROR
  [ "$1" != racecheck ] || title=RACECHECK
  [ "$(grep -c 'SUMMARY:' "$2")" = 1 ] && grep -q "^========= $title SUMMARY: 0 " "$2" && ! grep -q '^========= Error' "$2"
}
# finds KIND MISTAKE WHAT: KIND is silent on the correct probe, and says WHAT of the one with that mistake.
finds() {
  timeout 120 "$tool" --tool "$1" "${options[@]}" "$probe" >"$log" 2>&1 && silent "$1" "$log" || {
    tail -n 8 "$log"
    not_run "the correct probe did not come out clean of $1 on this machine"
  }
  timeout 120 "$tool" --tool "$1" "${options[@]}" "$probe" "$2" >"$log" 2>&1
  grep -q "$3" "$log" || {
    tail -n 8 "$log"
    not_run "$1 did not find the probe's $2 on this machine"
  }
}
finds memcheck overrun 'Invalid __global__ write'
finds racecheck race 'Race reported'
finds initcheck uninitialised 'Uninitialized __global__ memory read'
finds synccheck misnamed 'Barrier error detected'
echo "probe: memcheck finds an overrun, racecheck a race, initcheck a read of what nothing wrote, synccheck a thread at a barrier" \
     "that does not name it; all are silent on the correct twin"

# check KIND PROGRAM: one line on what came out. Returns 0: clean; 77: every case skipped; 1: something was found.
check() {
  local kind=$1 name rc summary details log=$logs/$1.$(basename "$2").log
  name="$kind $(basename "$2")"
  "$root/tests/tools/gtest.sh" timeout 1200 "$tool" --tool "$kind" "${options[@]}" "$2" >"$log" 2>&1
  rc=$?
  summary=$(grep 'SUMMARY:' "$log" | tail -n 1 | sed 's/^=* *//')
  if silent "$kind" "$log"; then
    case $rc in
      0) echo "clean: $name: $summary"; return 0 ;;
      77) echo "nothing to check: $name: every case skips on this GPU"; return 77 ;;
    esac
  fi
  details=$(grep -A12 -m3 -E '^========= (Invalid|Error|Warning|Uninitialized|Barrier|Program hit)|: Failure$' "$log")
  echo "FAILED: $name, exit code $rc: ${summary:-no summary}"$'\n'"$details"
  return 1
}

# A few at a time: most of the time goes to the host side of one thread.
most=$(($(nproc) < 6 ? $(nproc) : 6))
running=0 clean=0 failed=0
reap() {
  local rc
  wait -n
  rc=$?
  running=$((running - 1))
  case $rc in
    0) clean=$((clean + 1)) ;;
    77) ;;
    *) failed=1 ;;
  esac
}
for program in "$@"; do
  for kind in memcheck racecheck initcheck synccheck; do
    [ $running -lt $most ] || reap
    check $kind "$program" &
    running=$((running + 1))
  done
done
while [ $running -gt 0 ]; do reap; done
[ $failed = 0 ] || exit 1
[ $clean -gt 0 ] || not_run "every case of every program skips on this GPU"
