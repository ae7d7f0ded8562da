"""Runs a command and prints its time and memory as JSON: `python bench/measured.py COMMAND ARGUMENT …`.

This is a small process of its own, because Linux includes in a command's peak the memory of the process that became the
command. The memory of a large measuring process would count for the command.
"""

from __future__ import annotations

import json
import os
import sys
import time


def main() -> int:
    """The command's exit status."""
    began = time.perf_counter()
    process = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ)
    _, status, used = os.wait4(process, 0)
    seconds = time.perf_counter() - began
    unit = 1 if sys.platform == "darwin" else 1024  # bytes in a unit of ru_maxrss
    taken = {"seconds": seconds, "cpu_seconds": used.ru_utime + used.ru_stime, "peak_bytes": used.ru_maxrss * unit}
    print(json.dumps(taken))
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main())
