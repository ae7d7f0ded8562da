"""Processes that end for certain, and whose ids are never mistaken for another process's."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from kafka_rebalance.local_cluster.errors import LocalClusterError


@dataclass(frozen=True, slots=True)
class ProcessId:
    """One process, also after its pid was given to another one: the start time tells them apart."""

    pid: int
    started: str

    def is_alive(self) -> bool:
        return read_start(self.pid) == self.started

    def send(self, number: signal.Signals) -> None:
        """Signal the process, if it still runs."""
        if self.is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


def read_start(pid: int) -> str | None:
    """The process's start time as the kernel writes it; None if it is gone or a zombie."""
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        try:
            # The name in parentheses may hold spaces. Then come the state, … the start time (proc(5), fields 3 and 22).
            fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] in "ZX" else fields[19]
    answer = subprocess.run(
        ["ps", "-o", "state=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.split(maxsplit=1)
    return None if len(answer) < 2 or answer[0].startswith("Z") else answer[1].strip()


class Guard:
    """Ends all processes of its group, and removes `folders`, when this Python process ends or calls `close`."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(__file__).with_name("guard.py")), *map(str, folders)],
            stdin=subprocess.PIPE,
            process_group=0,
        )

    @property
    def group(self) -> int:
        return self._process.pid

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


class Process:
    """A child of this process, or one that an earlier command started."""

    def __init__(self, identity: ProcessId, child: subprocess.Popen[bytes] | None = None) -> None:
        self.identity = identity
        self._child = child

    @property
    def stdin(self) -> IO[bytes] | None:
        return self._child.stdin if self._child else None

    def is_alive(self) -> bool:
        return self._child.poll() is None if self._child else self.identity.is_alive()

    def end(self, number: signal.Signals, timeout_seconds: float = 30) -> bool:
        """Signal the process and wait until it is gone; False if it still runs after that time."""
        if self._child is None:
            self.identity.send(number)
        elif self._child.poll() is None:
            self._child.send_signal(number)
        return self.wait(timeout_seconds)

    def wait(self, timeout_seconds: float = 30) -> bool:
        """False if the process still runs after that time."""
        give_up = time.monotonic() + timeout_seconds
        while self.is_alive():
            if time.monotonic() > give_up:
                return False
            time.sleep(0.02)
        return True


def start_process(command: Sequence[str], output: Path, guard: Guard | None, *, hold_stdin: bool = False) -> Process:
    """Start a process that writes to `output`, in the guard's group or else in a session that outlives us."""
    with os.fdopen(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:
        try:
            child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE if hold_stdin else subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=guard is None,
                process_group=None if guard is None else guard.group,
            )
        except OSError as error:
            raise LocalClusterError(f"{command[0]} could not be started: {error}. Nothing runs.") from error
    started = read_start(child.pid)
    if started is None:
        child.wait()
        raise LocalClusterError(f"{command[0]} ended immediately. {last_lines(output)}")
    return Process(ProcessId(child.pid, started), child)


def last_lines(log: Path, count: int = 5) -> str:
    """The end of a log, for an error's text."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return f"There is no log {log}."
    telling = [line for line in lines if "ERROR" in line or "FATAL" in line or "Exception" in line] or lines
    return f"{log} says: " + (" | ".join(line[:300] for line in telling[-count:]) or "nothing")
