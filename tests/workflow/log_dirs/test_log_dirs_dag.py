"""Whole runs of `kafka_log_dirs` in one process (`dag.test()`), on real brokers; the answer alone is simulated."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from kafka_rebalance.admin.log_dirs import read_log_dirs
from kafka_rebalance.dags.kafka_log_dirs_dag import LOG_DIRS_PARAMS
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.log_dirs import copies
from kafka_rebalance.model.connection import KafkaConnection
from support.airflow.answered_dag import Run, defaults_of, read_dag, runs_of
from support.runs.rebalance_run import set_up_airflow

CONNECTION = "kafka_log_dirs_dag"
DEFAULTS = defaults_of(LOG_DIRS_PARAMS)
# `dag.test()` runs have no known requester, so four eyes cannot be shown; other tests do that.
POLICY = "approvers: [uma]\nrequester_may_approve: true\nmax_bytes_share: 1.0\n"
TASKS = ("plan", "approve", "hold_rate", "move", "release_rate", "verify")
MIB = 1024**2


@pytest.fixture(scope="module")
def log_dirs_dag() -> DAG:
    return read_dag("kafka_log_dirs")


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, racks=0, broker_config={"log.dirs": "{data}/a,{data}/b"}) as running:
        running.create_topic("t", {0: [1], 1: [1], 2: [1], 3: [1]})
        running.produce("t", dict.fromkeys(range(4), 4 * MIB))
        yield running


@pytest.fixture
def run(cluster: LocalCluster, log_dirs_dag: DAG, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    set_up_airflow(monkeypatch, tmp_path, cluster, CONNECTION, POLICY)

    return runs_of(log_dirs_dag, CONNECTION, DEFAULTS, monkeypatch)


def held(cluster: LocalCluster) -> dict[str, list[int]]:
    """{log dir: partitions of topic t}"""
    disks = read_log_dirs(KafkaConnection(cluster.bootstrap_servers), [1])
    assert disks.future == {}
    found: dict[str, list[int]] = {one.path: [] for one in disks.log_dirs[1]}
    for tp, by_broker in sorted(disks.paths.items()):
        if tp.topic == "t":
            found[by_broker[1]].append(tp.partition)
    return found


def test_a_drain_that_is_approved_empties_the_log_dir_and_a_rejected_one_moves_nothing(
    run: Run, cluster: LocalCluster, log_dirs_dag: DAG
) -> None:
    log_dirs_dag.get_task("move").stay_seconds = 0  # each look is a trigger's
    before = held(cluster)
    path = max(before, key=lambda one: len(before[one]))
    rejected = run("Reject", job="drain", broker=1, log_dir=path)
    assert [rejected[task] for task in TASKS] == ["success", "success", *["skipped"] * 4]
    assert rejected["run"] == "success"
    assert held(cluster) == before
    states = run("drain", job="drain", broker=1, log_dir=path, throttle_bytes_per_second=4_000_000)
    assert {states[task] for task in TASKS} == {"success"}, states
    assert states["run"] == "success"
    assert held(cluster)[path] == []
    empty = run("drain", job="drain", broker=1, log_dir=path)
    assert [empty[task] for task in TASKS] == ["skipped"] * 6
    assert empty["run"] == "success"


def test_a_move_that_fails_leaves_no_copy_behind_and_fails_the_run(
    run: Run, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, log_dirs_dag: DAG
) -> None:
    log_dirs_dag.get_task("move").stay_seconds = 0
    before = held(cluster)
    path = max(before, key=lambda one: len(before[one]))
    notes = copies.write_progress

    def fail_once_copies_run(*arguments: Any) -> Any:
        notes(*arguments)
        if arguments[2].future:
            raise RuntimeError("simulated: the worker is lost")

    monkeypatch.setattr(copies, "write_progress", fail_once_copies_run)
    log_dirs_dag.get_task("move").stay_seconds = 30
    states = run("drain", job="drain", broker=1, log_dir=path, throttle_bytes_per_second=1_000_000)
    assert [states[task] for task in TASKS] == ["success", "success", "success", "failed", "success", "failed"]
    assert states["run"] == "failed"
    assert held(cluster)[path]  # `held` has also looked for copies


def test_the_approval_stands_before_every_write_and_teardowns_end_every_run(log_dirs_dag: DAG) -> None:
    upstream = {task.task_id: set(task.upstream_task_ids) for task in log_dirs_dag.tasks}
    assert upstream == {
        "plan": set(),
        "approve": {"plan"},
        "hold_rate": {"approve"},
        "move": {"approve", "hold_rate"},
        "release_rate": {"approve", "hold_rate", "move"},
        "verify": {"approve", "hold_rate", "release_rate"},
    }
    assert log_dirs_dag.get_task("hold_rate").is_setup
    for task in map(log_dirs_dag.get_task, ("release_rate", "verify")):
        assert task.is_teardown
        assert task.on_failure_fail_dagrun
