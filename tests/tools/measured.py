"""measured.py LOG COMPILER ARGUMENTS...: compiles, and appends one JSON line to LOG: the source, the seconds (wall and
processor) and the peak memory in MiB of the largest process. The exit code is the compiler's."""
import json
import os
import resource
import subprocess
import sys
import time

log, command = sys.argv[1], sys.argv[2:]
start = time.monotonic()
code = subprocess.call(command)
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
source = command[command.index("-c") + 1] if "-c" in command[:-1] else None
target = command[command.index("-o") + 1] if "-o" in command[:-1] else None
if source and code == 0:
    line = json.dumps({"source": source, "object": target, "compiler": os.path.basename(command[0]),
                       "wall_s": round(time.monotonic() - start, 2),
                       "cpu_s": round(usage.ru_utime + usage.ru_stime, 2),
                       "peak_mib": usage.ru_maxrss // 1024})
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(descriptor, (line + "\n").encode())
    os.close(descriptor)
sys.exit(code if code >= 0 else 1)
