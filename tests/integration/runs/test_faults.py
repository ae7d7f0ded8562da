"""A fixed part of the fault matrix (`make faults` has all of it): one cluster of separate JVMs, real records."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from faults.cases import Case, Fault, Moment
from faults.clusters.fault_cluster import FaultCluster
from faults.clusters.file_systems import leave_no_room, own_file_system, resize
from faults.clusters.running_cluster import running
from faults.one_case import run_case
from faults.ours.clock import CLOCK_VARIABLE
from faults.ours.environment import airflow
from faults.ours.processes import ROOT, Triggerer
from kafka_rebalance.local_cluster.machine.processes import read_start
from support.waiting import wait

VERSION = "2.0.1"  # starts fastest, and its controller tells the least about what it does


@dataclass(frozen=True, slots=True)
class Struck:
    """The cluster of these tests, and what our processes are told of it."""

    cluster: FaultCluster
    environment: dict[str, str]


@pytest.fixture(scope="module")
def struck(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Struck]:
    folder = tmp_path_factory.mktemp("faults")
    with running(VERSION, folder / "cluster") as cluster, airflow(folder / "airflow", cluster) as environment:
        yield Struck(cluster, environment)


@pytest.mark.parametrize(
    ("fault", "moment"),
    [
        pytest.param(Fault.TARGET, Moment.MID_COPY, marks=pytest.mark.long),
        (Fault.WORKER, Moment.SUBMIT),
    ],
)
def test_nothing_acknowledged_is_lost_and_the_run_says_what_is_true(
    struck: Struck, tmp_path: Path, fault: Fault, moment: Moment
) -> None:
    case = Case(VERSION, fault, moment, seed=6)
    result = run_case(struck.cluster, struck.environment, case, tmp_path / "case")
    assert result.problems == [], result.line()
    assert result.state == "success", result.line()


@pytest.mark.long
def test_a_matrix_that_is_ended_leaves_no_process_and_no_folder(tmp_path: Path) -> None:
    # `--resume` keeps what an earlier matrix has noted, and no other matrix has this seed.
    command = [sys.executable, "-m", "faults", "--resume", "--seed", "40417"]
    command += ["--versions", VERSION, "--only", f"{VERSION}/{Fault.TARGET}/{Moment.MID_COPY}"]
    path = os.pathsep.join([str(ROOT / "include"), str(ROOT)])
    matrix = subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": path},
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:

        def is_under_way() -> bool:
            assert matrix.poll() is None, "it ended before its case began"
            return any(tmp_path.glob("faults-*/*/*/*.json"))  # a process of ours has ended, others run

        wait("its case has begun", is_under_way, 120)
        started = processes_of(matrix.pid)
        assert len(started) > 8, "three ZooKeepers, four brokers, and our own"
        matrix.terminate()
        matrix.wait(60)
        wait("all that it started has ended", lambda: not processes_of(matrix.pid), 60)
        assert list(tmp_path.iterdir()) == []
    finally:
        for pid in processes_of(matrix.pid):
            os.kill(pid, signal.SIGKILL)


def test_one_process_follows_batches_until_it_is_killed(tmp_path: Path) -> None:
    triggerer = Triggerer()

    def follow(number: int, step: str = "read_retries", clock: str = "0") -> tuple[Any, int | None]:
        outcome = tmp_path / f"{number}.json"
        step_of = triggerer.start((step, {}, str(outcome), {CLOCK_VARIABLE: clock}, None), outcome)
        return step_of.wait(), triggerer.pid

    try:
        first, second = follow(1), follow(2)
        assert first[0]["state"] == second[0]["state"] == "done"
        assert first[1] == second[1]
        assert triggerer.started == 1
        triggerer.end()
        assert follow(3)[1] != first[1]
        shifted = follow(4, clock="3600")
        assert shifted[0]["state"] == "done"
        assert triggerer.started == 3
    finally:
        triggerer.end()


def test_a_file_system_has_no_room_at_once_and_has_it_again(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    with own_file_system(disk, 20_000_000) as mounted:
        if not mounted:
            pytest.skip("this machine allows no mount")
        (disk / "held").write_bytes(bytes(1_000_000))
        whole = shutil.disk_usage(disk).total
        leave_no_room(disk)
        with pytest.raises(OSError, match="No space left"):
            (disk / "more").write_bytes(bytes(100_000))
        assert resize(disk, whole)
        (disk / "more").write_bytes(bytes(100_000))


def processes_of(session: int) -> set[int]:
    """The processes of a session that run."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        pid = int(folder.name)
        with suppress(ProcessLookupError):
            if os.getsid(pid) == session and read_start(pid) is not None:
                found.add(pid)
    return found
