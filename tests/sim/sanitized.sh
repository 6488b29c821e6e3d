#!/bin/bash
# Runs a ThreadSanitizer program: sanitized.sh PROGRAM ARGUMENTS...
# ThreadSanitizer needs its place in the address space, which wide address randomisation takes from it. So the program runs
# without randomisation (setarch -R); where that is refused and the randomisation is too wide, exits 77 with the remedy.
set -u
if setarch "$(uname -m)" -R true 2>/dev/null; then
  exec setarch "$(uname -m)" -R "$@"
fi
bits=$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 0)
if [ "$bits" -gt 28 ]; then
  echo "ThreadSanitizer cannot run here: vm.mmap_rnd_bits is $bits and setarch -R is refused." \
       "Remedy: sudo sysctl vm.mmap_rnd_bits=28"
  exit 77
fi
exec "$@"
