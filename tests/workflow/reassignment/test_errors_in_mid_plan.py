"""Every error that a task can end with while a batch is in flight: it says how far the run is, and nothing untrue."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException
from kazoo.exceptions import ConnectionLoss, NoAuthError

from kafka_rebalance.errors import RebalanceError
from kafka_rebalance.rebalance.elect_leaders import elect_leaders
from kafka_rebalance.rebalance.verify import record, verify
from kafka_rebalance.workflow.run_step import run_step
from support.runs.rebalance_run import CONNECTION
from support.runs.simulated_cluster import SimulatedCluster, SimulatedRun, batched_run
from support.zookeeper.fake_zookeeper import FakeZooKeeper

SO_FAR = "Batches that this run has requested so far: 1, of which 0 are in place."
# What no text may say while a batch is in flight.
UNTRUE = ("othing was written", "othing was read or written", "othing was changed", "neither before nor now")

Steps = dict[str, Callable[[], object]]


@pytest.fixture
def run(tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> SimulatedRun:
    """One of two batches is requested, and nothing of it is in place: the controller stands still."""
    made = batched_run(tmp_path, cluster, monkeypatch)
    made.dag_run.conf = {"kafka_conn_id": CONNECTION}
    made.hold()
    assert made.request() == 1
    return made


@pytest.fixture
def steps(run: SimulatedRun) -> Steps:
    """The release comes last: it hands the throttle over to the janitor."""
    return {
        "hold_throttle": run.hold,
        "reassign": run.request,
        "elect_leaders": lambda: run_step(elect_leaders, run.dag_run, run.decision),
        "verify": lambda: run_step(verify, run.dag_run, run.decision),
        "record": lambda: run_step(record, run.dag_run, run.decision),
        "release_throttle": run.release,
    }


def error_of(step: Callable[[], object]) -> str | None:
    try:
        step()
    except (RebalanceError, AirflowException) as failed:
        return str(failed)
    return None


def check(text: str) -> None:
    assert not [untrue for untrue in UNTRUE if untrue in text], text
    assert SO_FAR in text, text
    assert "The run has taken its cluster's lock." in text, text
    assert "Its throttle is set." in text, text


@pytest.mark.parametrize("error", [ConnectionLoss, NoAuthError])
def test_whatever_read_or_write_of_the_cluster_fails(
    error: type[Exception], run: SimulatedRun, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    act = FakeZooKeeper._act
    left: list[int] = []
    failed: set[str] = set()

    def fail(self: FakeZooKeeper, name: str, path: str, do: Callable[[], Any]) -> Any:
        left[0] -= 1
        if left[0] == 0:
            failed.add(path)
            raise error
        return act(self, name, path, do)

    monkeypatch.setattr(FakeZooKeeper, "_act", fail)
    monkeypatch.setattr("time.sleep", lambda _: None)
    told = set[str]()
    for name, step in steps.items():
        number = 0
        while not left or left[0] <= 0:  # until no call is left that could fail
            number += 1
            left[:] = [number]
            if (text := error_of(step)) is not None:
                check(text)
                told.add(name)
        left.clear()
    assert told == set(steps)
    assert len(failed) > 5


def edits(path: Path) -> Iterator[bytes]:
    content = path.read_bytes()
    yield content[: len(content) // 2]
    if path.suffix == ".json":
        document = json.loads(content)
        yield json.dumps({**document, "format_version": 7}).encode()
        yield b"{}"


def test_whatever_file_of_the_run_is_damaged_or_gone(run: SimulatedRun, steps: Steps) -> None:
    runs = run.folder.parents[2]
    told = set[str]()
    for path in [path for path in runs.rglob("*") if path.is_file() and "ledger" not in path.parts]:
        content = path.read_bytes()
        for damaged in (*edits(path), None):
            if damaged is None:
                path.unlink()
            else:
                path.write_bytes(damaged)
            for step in (step for name, step in steps.items() if name != "release_throttle"):
                if (text := error_of(step)) is not None:
                    told.add(path.name)
                    assert not [untrue for untrue in UNTRUE if untrue in text], text
                    assert SO_FAR in text or "it may have copies in flight" in text, text
            path.write_bytes(content)
    assert {"decision.json", "batches.json", "snapshot.json", "nonce.json"} <= told


def test_whatever_znode_is_damaged_or_gone(run: SimulatedRun, steps: Steps) -> None:
    """By hand, or by another tool."""
    fake, named = run.cluster.fake, set[str]()
    for path in [path for path, znode in fake.znodes.items() if znode.data and "changes" not in path]:
        for damaged in (b"{}", None):
            kept = copy.deepcopy(fake.znodes)
            if damaged is None:
                del fake.znodes[path]
            else:
                fake.znodes[path].data = damaged
            for step in (step for name, step in steps.items() if name not in ("record", "release_throttle")):
                if (text := error_of(step)) is not None:
                    check(text)
                    named |= {path} if text.startswith(f"{path}: ") else set()
            fake.znodes.clear()
            fake.znodes.update(kept)
    assert {"/kafka_rebalance/run", "/admin/reassign_partitions", "/controller", "/cluster/id"} <= named


def frozen(run: SimulatedRun, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("AIRFLOW_VAR_KAFKA_REBALANCE_FREEZE", "true")


def mistyped_freeze(run: SimulatedRun, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("AIRFLOW_VAR_KAFKA_REBALANCE_FREEZE", "ture")


def another_policy(run: SimulatedRun, patch: pytest.MonkeyPatch) -> None:
    run.policy_file.write_text(run.policy_file.read_text() + "copies_per_broker: 3\n")


def no_policy(run: SimulatedRun, patch: pytest.MonkeyPatch) -> None:
    run.policy_file.unlink()


def unusable_policy(run: SimulatedRun, patch: pytest.MonkeyPatch) -> None:
    run.policy_file.write_text("approvers: [")


def wrong_policy(run: SimulatedRun, patch: pytest.MonkeyPatch) -> None:
    run.policy_file.write_text("max_bytes_share: 7\n")


def another_cluster(run: SimulatedRun, patch: pytest.MonkeyPatch) -> None:
    run.cluster.fake.put_json("/cluster/id", {"version": "1", "id": "another"})


def anothers_lock(run: SimulatedRun, patch: pytest.MonkeyPatch) -> None:
    held = run.cluster.fake.json("/kafka_rebalance/run")
    run.cluster.fake.put_json("/kafka_rebalance/run", {**held, "run": "kafka_rebalance/another"})


def anothers_moves(run: SimulatedRun, patch: pytest.MonkeyPatch) -> None:
    path = "/brokers/topics/idle"
    document = run.cluster.fake.json(path)
    document["partitions"]["0"] = [*document["partitions"]["0"][::-1]]
    run.cluster.fake.put_json(path, document)


def no_connection(run: SimulatedRun, patch: pytest.MonkeyPatch) -> None:
    patch.delenv(f"AIRFLOW_CONN_{CONNECTION.upper()}")


def unusable_connection(run: SimulatedRun, patch: pytest.MonkeyPatch) -> None:
    patch.setenv(f"AIRFLOW_CONN_{CONNECTION.upper()}", json.dumps({"conn_type": "kafka_zookeeper"}))


def no_controller(run: SimulatedRun, patch: pytest.MonkeyPatch) -> None:
    run.cluster.fake.znodes.pop("/controller")


@pytest.mark.parametrize(
    "act",
    [
        frozen, mistyped_freeze, another_policy, no_policy, unusable_policy, wrong_policy, another_cluster,
        anothers_lock, anothers_moves, no_connection, unusable_connection, no_controller,
    ],
    ids=lambda act: act.__name__,
)  # fmt: skip
def test_whatever_people_change_meanwhile(
    act: Callable[[SimulatedRun, pytest.MonkeyPatch], None],
    run: SimulatedRun,
    steps: Steps,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run.cluster.controller.run()  # the next batch is to be requested
    act(run, monkeypatch)
    texts = [text for step in steps.values() if (text := error_of(step)) is not None]
    assert texts
    for text in texts:
        assert not [untrue for untrue in UNTRUE if untrue in text], text
        assert "Batches that this run has requested so far: " in text, text
