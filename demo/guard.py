"""Ends every process of one local Airflow, also if the process that started it was killed.

A guard is a process of its own, `python -m demo.guard MARK`. It reads process groups, one on each line, until its input
ends; the input ends however the parent ends. Then it ends Airflow's daemons, which it finds by these groups. It also
ends what they start in other sessions, such as Spark drivers: these carry the mark in their environment.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path

MARK_VARIABLE = "KAFKA_REBALANCE_LOCAL_MARK"
GRACE_SECONDS = 10.0


class Guard:
    """The guard, as its parent sees it."""

    def __init__(self, mark: str) -> None:
        environment = {key: value for key, value in os.environ.items() if key != MARK_VARIABLE}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "demo.guard", mark],
            stdin=subprocess.PIPE,
            env=environment,
            cwd=Path(__file__).parents[1],
        )

    def add_group(self, group: int) -> None:
        """Adds a process group, which must lead a session of its own."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{group}\n".encode())
        self._process.stdin.flush()

    def end_all(self) -> None:
        """Returns when all these groups and all marked processes have ended."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(4 * GRACE_SECONDS)


def end_all(groups: Collection[int], mark: str) -> None:
    """Sends SIGINT, on which Airflow's daemons end in order, and later SIGKILL to the processes that are left."""
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
    """The ids of the processes that carry the mark."""
    wanted = f"{MARK_VARIABLE}={mark}".encode()
    return [process for process, environ in _read_processes("environ") if wanted in environ.split(b"\0")]


def _is_alive(group: int) -> bool:
    """Whether the group has a process that is not a zombie."""
    stats = (stat.rpartition(b")")[2].split() for _, stat in _read_processes("stat"))
    return any(int(fields[2]) == group and fields[0] not in b"ZX" for fields in stats)


def _read_processes(file: str) -> Iterator[tuple[int, bytes]]:
    """(id, content of that file in /proc) of each process that this user may read."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError):  # it has ended meanwhile, or belongs to another user
                yield int(folder.name), (folder / file).read_bytes()


if __name__ == "__main__":
    os.setsid()
    for ignored in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ignored, signal.SIG_IGN)
    end_all([int(line) for line in sys.stdin], sys.argv[1])
