"""Ends every process that carries one mark in its environment, as soon as the process that started this one is gone.

`python -m demo.guard MARK`: waits for the end of its standard input, which closes however its parent ends, kill -9
included. The mark is an environment variable's value that only one run has, so nothing else on the machine is touched.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

MARK_VARIABLE = "KAFKA_REBALANCE_LOCAL_MARK"
GRACE_SECONDS = 10.0


def marked_processes(mark: str) -> list[int]:
    """Ids of the processes that carry the mark, this one left out."""
    wanted = f"{MARK_VARIABLE}={mark}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal() or int(folder.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):  # it ended meanwhile, or is not ours
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def end_marked(mark: str) -> None:
    """SIGINT first, on which Airflow's processes end in order; SIGKILL for what is left after a while."""
    for number in (signal.SIGINT, signal.SIGKILL):
        deadline = time.monotonic() + GRACE_SECONDS
        for process in marked_processes(mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)
        while marked_processes(mark) and time.monotonic() < deadline:
            time.sleep(0.1)


if __name__ == "__main__":
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    end_marked(sys.argv[1])
