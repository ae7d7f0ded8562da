"""Runs a command and prints what it took as JSON: `python bench/measured.py python -m kafka_rebalance.planning ...`.

A process of its own, and a small one: Linux counts what a process held before it became the command as the command's
peak, so memory that the measuring side holds would be taken for the command's.
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
    unit = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss, in bytes
    taken = {"seconds": seconds, "cpu_seconds": used.ru_utime + used.ru_stime, "peak_bytes": used.ru_maxrss * unit}
    print(json.dumps(taken))
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main())
