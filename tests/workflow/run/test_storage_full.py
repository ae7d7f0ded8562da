"""Storage that is full or read-only: the error says what was done to the cluster by then, and what to do."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafka_rebalance.errors import StorageError
from kafka_rebalance.model.lock_owner import AirflowState
from kafka_rebalance.rebalance.elect_leaders import elect_leaders
from kafka_rebalance.rebalance.verify import record, verify
from kafka_rebalance.run.run_folder import installation
from kafka_rebalance.throttle.janitor import look_after_cluster, look_after_lease
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.run_step import run_step
from support.runs.rebalance_run import CONNECTION
from support.runs.simulated_cluster import SimulatedCluster, SimulatedRun

REMEDIES = {errno.ENOSPC: "Make room there", errno.EROFS: "Let Airflow's processes read and write"}


@pytest.fixture(params=REMEDIES, ids=["full", "read-only"])
def breaks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Path], bool]], int]:
    """From now on no file is written of which the given question says yes. By the operating system's own calls."""
    number: int = request.param
    opened, made = Path.open, Path.mkdir

    def break_for(broken: Callable[[Path], bool]) -> int:
        def open_(self: Path, mode: str = "r", *args: Any, **more: Any) -> Any:
            if any(letter in mode for letter in "wax+") and broken(self):
                raise OSError(number, os.strerror(number), str(self))
            return opened(self, mode, *args, **more)

        def mkdir(self: Path, *args: Any, **more: Any) -> None:
            if not self.exists() and broken(self):
                raise OSError(number, os.strerror(number), str(self))
            made(self, *args, **more)

        monkeypatch.setattr(Path, "open", open_)
        monkeypatch.setattr(Path, "mkdir", mkdir)
        return number

    return break_for


def said(act: Callable[[], object]) -> str:
    """A StorageError's text: of storage, worth a retry, and of nothing else."""
    with pytest.raises(StorageError) as told:
        act()
    assert "No throttle was changed" not in str(told.value)
    return str(told.value)


def everything(_: Path) -> bool:
    return True


def test_hold_on_full_storage_says_that_it_has_the_lock_and_no_throttle(
    run: SimulatedRun, cluster: SimulatedCluster, breaks: Callable[..., int]
) -> None:
    installation(airflow_deployment())  # by an earlier run
    number = breaks(lambda file: "leases" in file.parts)
    text = said(run.hold)
    assert os.strerror(number) in text
    assert REMEDIES[number] in text
    assert "had taken the cluster's lock. The run holds the lock." in text
    assert cluster.throttles() == {}


def test_release_on_full_storage_says_that_the_throttle_was_put_back(
    run: SimulatedRun, cluster: SimulatedCluster, breaks: Callable[..., int]
) -> None:
    run.hold()
    held = cluster.throttles()
    breaks(everything)
    text = said(run.release)
    assert all(f"{entity}" in text for entity in held)
    assert "had changed the throttle or config of" in text
    assert cluster.throttles() == {}
    assert "/kafka_rebalance/run" in cluster.leftovers(), "kept, as the lease is still open"


def test_the_next_release_after_that_ends_what_was_begun(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch, breaks: Callable[..., int]
) -> None:
    run.hold()
    with monkeypatch.context():
        breaks(everything)
        said(run.release)
        text = said(run.release)
    assert "This try of the task had changed nothing in the cluster." in text


def test_a_batch_that_cannot_be_noted_is_not_requested(
    run: SimulatedRun, cluster: SimulatedCluster, breaks: Callable[..., int]
) -> None:
    run.hold()
    breaks(everything)
    text = said(run.request)
    assert cluster.requests == []
    assert "had changed nothing in the cluster" in text


def test_a_batch_whose_request_cannot_be_noted_goes_on_and_the_error_says_so(
    run: SimulatedRun, cluster: SimulatedCluster, breaks: Callable[..., int]
) -> None:
    run.hold()
    breaks(lambda file: bool(cluster.requests))
    text = said(run.request)
    assert len(cluster.requests) == 1
    assert "had requested a reassignment. Copies that were requested go on by themselves" in text


def test_a_follower_goes_on_without_its_notes_and_says_so(
    run: SimulatedRun, cluster: SimulatedCluster, breaks: Callable[..., int]
) -> None:
    run.hold()
    batch = run.request()
    assert batch is not None
    number = breaks(everything)
    event, lines = run.follow(batch, until=lambda: not (cluster.step() or True))
    assert event is not None
    assert event.state == "done"
    assert [line for line in lines if os.strerror(number) in line and "goes on" in line]


def test_verification_and_record_name_their_file(
    run: SimulatedRun, cluster: SimulatedCluster, breaks: Callable[..., int]
) -> None:
    run.hold()
    run.reassign()
    run_step(elect_leaders, run.dag_run, run.decision)
    run.release()
    number = breaks(everything)
    for act in (
        lambda: run_step(verify, run.dag_run, run.decision),
        lambda: run_step(record, run.dag_run, run.decision),
    ):
        text = said(act)
        assert os.strerror(number) in text
        assert "had changed nothing in the cluster" in text


def test_the_janitor_puts_back_and_says_what_it_could_not_write(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch, breaks: Callable[..., int]
) -> None:
    run.hold()
    monkeypatch.setattr(look_after_lease, "read_standing", lambda *_: AirflowState.GONE)
    breaks(everything)
    text = said(lambda: run_step(look_after_cluster.look_after_cluster, run.dag_run, CONNECTION, {}))
    assert "had changed the throttle or config of" in text
    assert cluster.throttles() == {}


def test_a_plan_on_full_storage_has_no_raw_error(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch, breaks: Callable[..., int]
) -> None:
    run = SimulatedRun(tmp_path, cluster, monkeypatch)
    breaks(lambda file: "runs" in file.parts)
    assert "had changed nothing in the cluster" in said(lambda: run.plan(job="drain", drain=[2]))
