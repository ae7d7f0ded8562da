"""Whole runs of `kafka_rebalance_cancel` in one process (`dag.test()`); the cluster and the answer are simulated."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG

from kafka_rebalance.dags.kafka_rebalance_cancel_dag import CANCEL_PARAMS
from kafka_rebalance.kafka.reassignment_json import parse_reassignment
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.throttle import lease_files
from support.airflow.parsed_dags import read_dags
from support.runs.cancel_run import BEFORE, begin, cancellable_cluster, lists, lost_request
from support.runs.rebalance_run import CONNECTION, POLICY
from support.runs.simulated_cluster import RATE, SimulatedCluster, SimulatedRun

DEFAULTS = {name: param.value for name, param in CANCEL_PARAMS.items()}  # `dag.test()` leaves a run's params in the Dag
ACTIONS = {
    *("stop", "set_throttle", "approve", "cancel", "verify", "approve_rate", "raise_throttle", "roll_back"),
    *("approve_election", "elect_controller"),
}

Start = Callable[..., dict[str, str]]


@pytest.fixture(scope="module")
def cancel_dag() -> Iterator[DAG]:
    dag: DAG = read_dags()["kafka_rebalance_cancel"]
    for task in dag.tasks:
        task.retries = 0
    yield dag
    for name, value in DEFAULTS.items():
        CANCEL_PARAMS[name].value = value


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    return cancellable_cluster(monkeypatch, "2.0")


@pytest.fixture
def triggered(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What `roll_back` would start `kafka_rebalance` with."""
    confs: list[Any] = []
    monkeypatch.setattr(TriggerDagRunOperator, "execute", lambda operator, context: confs.append(operator.conf))
    return confs


@pytest.fixture
def start(cancel_dag: DAG, run: SimulatedRun, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Runs the Dag and gives the state of each task, and of the run under the key `run`."""

    def answer(operator: HITLOperator, context: Any) -> Any:
        form: dict[str, Any] = {"note": None}
        if operator.task_id in ("approve", "approve_election"):
            assert operator.params["i_consent_to"] is None
            schema = operator.params.get_param("i_consent_to").description
            form["i_consent_to"] = str(schema).partition("word for word: ")[2]
        event = {
            "chosen_options": [next(option for option in operator.options if option != "Reject")],
            "params_input": form,
            "responded_at": datetime.now(UTC),
            "responded_by_user": {"id": "uma", "name": "uma"},
        }
        return operator.execute_complete(context, event)

    def begun(**params: Any) -> dict[str, str]:
        # `dag.test()` runs have no known requester, so four eyes cannot be shown; other tests do that.
        run.policy_file.write_text(POLICY + "partitions_per_batch: 2\nrequester_may_approve: true\n")
        monkeypatch.setattr(HITLOperator, "execute", answer)
        ended = cancel_dag.test(run_conf={**DEFAULTS, "kafka_conn_id": CONNECTION, **params})
        states = {instance.task_id: str(instance.state) for instance in ended.get_task_instances()}
        return {**states, "run": str(ended.state)}

    return begun


def others(states: dict[str, str], *done: str) -> set[str]:
    return {states[task] for task in ACTIONS - set(done)}


def test_stopping_ends_with_its_own_task(run: SimulatedRun, cluster: SimulatedCluster, start: Start) -> None:
    begin(run, cluster)
    states = start(action="stop_after_batch")
    assert (states["request"], states["stop"], states["run"]) == ("success", "success", "success")
    assert others(states, "stop") == {"skipped"}


def test_where_nothing_runs_every_task_is_skipped(start: Start) -> None:
    states = start(action="cancel_now")
    assert (states["request"], states["route"], states["run"]) == ("skipped", "skipped", "success")
    assert others(states) == {"skipped"}


def test_cancelling_goes_from_the_approval_to_the_verification(
    run: SimulatedRun, cluster: SimulatedCluster, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(run, cluster)
    clock = SimpleNamespace(
        time=time.time, monotonic=lambda: 0.0, sleep=lambda _: cluster.step() or _released(run, cluster)
    )
    monkeypatch.setattr("kafka_rebalance.clock.time", clock)
    states = start(action="cancel_now")
    assert (states["approve"], states["cancel"], states["verify"], states["run"]) == ("success",) * 4
    assert others(states, "approve", "cancel", "verify") == {"skipped"}
    assert lists(cluster) == BEFORE
    assert cluster.leftovers() == []


@pytest.mark.parametrize(
    ("rate", "done"), [(RATE - 1, ["set_throttle"]), (RATE + 1, ["approve_rate", "raise_throttle"])]
)
def test_a_lower_rate_asks_nobody_and_a_higher_one_an_approver(
    run: SimulatedRun, cluster: SimulatedCluster, start: Start, rate: int, done: list[str]
) -> None:
    begin(run, cluster)
    states = start(action="set_throttle", throttle_bytes_per_second=rate)
    assert {states[task] for task in (*done, "run")} == {"success"}
    assert others(states, *done) == {"skipped"}
    assert lease_files.rate_in_force(run.folder) == rate


def _released(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    """The cancelled run's own teardown, which the verification waits for."""
    if lists(cluster) == BEFORE:
        run.release()


def test_going_back_starts_a_rebalance_with_the_recorded_lists_and_nothing_else_to_choose(
    run: SimulatedRun, start: Start, triggered: list[Any]
) -> None:
    run.hold()
    run.reassign()
    run.finish()
    states = start(action="roll_back")
    assert (states["roll_back"], states["run"]) == ("success", "success")
    assert others(states, "roll_back") == {"skipped"}
    (conf,) = triggered
    assert conf["candidates"] == []
    recorded = {move.topic_partition: move.before for move in run.candidate.moves}
    assert parse_reassignment(conf["plan"]) == recorded


def test_another_controller_is_elected_after_an_approval_where_no_rebalance_runs(
    cluster: SimulatedCluster, start: Start
) -> None:
    lost_request(cluster, {TopicPartition("gone", 0): (3, 4)})
    states = start(action="elect_controller")
    assert {states[task] for task in ("approve_election", "elect_controller", "run")} == {"success"}
    assert others(states, "approve_election", "elect_controller") == {"skipped"}
    assert cluster.leftovers() == []
