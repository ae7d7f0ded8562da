"""Ends every process of one local Airflow, also when the process that started it was killed.

A guard is a process of its own, `python -m demo.guard MARK`. It reads process groups, one a line, and acts when its
input ends, which it does however its parent ends. Airflow's daemons are found by their groups; what they start in
sessions of their own (Spark drivers, for one) carries the mark in its environment. Nothing else is touched.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path

MARK_VARIABLE = "KAFKA_REBALANCE_LOCAL_MARK"
GRACE_SECONDS = 10.0


class Guard:
    """The guard's parent's side."""

    def __init__(self, mark: str) -> None:
        environment = {key: value for key, value in os.environ.items() if key != MARK_VARIABLE}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "demo.guard", mark],
            stdin=subprocess.PIPE,
            env=environment,
            cwd=Path(__file__).parents[1],
        )

    def add_group(self, group: int) -> None:
        """Puts one process group, which has to lead a session of its own, into the guard's care."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{group}\n".encode())
        self._process.stdin.flush()

    def end_all(self) -> None:
        """Returns when everything in the guard's care has ended."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(4 * GRACE_SECONDS)


def end_all(groups: Collection[int], mark: str) -> None:
    """SIGINT first, on which Airflow's daemons end in order; SIGKILL for what is left after a while."""
    for number in (signal.SIGINT, signal.SIGKILL):
        deadline = time.monotonic() + GRACE_SECONDS
        for group in groups:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, number)
        for process in _marked(mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)
        while (_marked(mark) or any(map(_is_alive, groups))) and time.monotonic() < deadline:
            time.sleep(0.1)


def _marked(mark: str) -> list[int]:
    """Ids of the processes that carry the mark."""
    wanted = f"{MARK_VARIABLE}={mark}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError):  # it ended meanwhile, or is not ours
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
    return found


def _is_alive(group: int) -> bool:
    """Whether the group has a process that is not just waiting to be reaped."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError):
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                if int(fields[2]) == group and fields[0] not in "ZX":
                    return True
    return False


if __name__ == "__main__":
    os.setsid()
    for ignored in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ignored, signal.SIG_IGN)
    end_all([int(line) for line in sys.stdin], sys.argv[1])
