"""Processes end when they should, and only those."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_rebalance.local_cluster import LocalClusterError
from kafka_rebalance.local_cluster.machine.processes import Guard, ProcessId, last_lines, read_start, start_process
from support.waiting import wait

PARENT = """
import sys
from pathlib import Path
from kafka_rebalance.local_cluster.machine.processes import Guard, start_process
folder = Path(sys.argv[1])
guard = Guard([folder])
child = start_process(["sleep", "600"], folder / "out", guard)
print(child.identity.pid, child.identity.started, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_when_python_is_ended_its_processes_and_folder_are_gone(tmp_path: Path, number: signal.Signals) -> None:
    folder = tmp_path / "cluster"
    folder.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid, started = parent.stdout.readline().split()
        child = ProcessId(int(pid), started)
        assert child.is_alive()
        parent.send_signal(number)
    wait("process and folder are gone", lambda: not child.is_alive() and not folder.exists(), 20)


def test_a_pid_given_to_another_process_is_not_signalled(sleeper: subprocess.Popen[bytes]) -> None:
    ProcessId(sleeper.pid, "the start of an earlier process").send(signal.SIGKILL)
    assert sleeper.poll() is None
    started = read_start(sleeper.pid)
    assert started is not None
    ProcessId(sleeper.pid, started).send(signal.SIGKILL)
    assert sleeper.wait(10) == -signal.SIGKILL
    assert not ProcessId(sleeper.pid, started).is_alive()


def test_closing_a_guard_leaves_no_process_of_its_group(tmp_path: Path) -> None:
    guard = Guard([])
    child = start_process(["sleep", "600"], tmp_path / "out", guard)
    guard.close()
    wait("the process has ended", lambda: not child.is_alive(), 20)


def test_without_a_guard_a_process_is_in_a_session_of_its_own(tmp_path: Path) -> None:
    child = start_process(["sleep", "600"], tmp_path / "out", None)
    try:
        assert os.getsid(child.identity.pid) == child.identity.pid
    finally:
        assert child.end(signal.SIGKILL)


def test_a_program_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LocalClusterError, match="no-such-java could not be started"):
        start_process(["no-such-java"], tmp_path / "out", None)


def test_the_telling_lines_of_a_log_are_shown(tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    log.write_text("INFO starting\nERROR Address already in use\nINFO shutting down\n")
    assert last_lines(log) == f"{log} says: ERROR Address already in use"
