"""What people do in a real Airflow to a run that moves partitions: cells of docs/evidence/interrupted_runs.md."""

from __future__ import annotations

import json
from collections.abc import Callable

import httpx
import pytest

from demo.local_airflow import LocalAirflow
from demo.runs import DagRun, trigger

SLOW, FAST = 100_000, 40_000_000  # bytes per second: for ever, and at once
REASSIGN, LOCK = "/admin/reassign_partitions", "/kafka_rebalance/run"

ReadZooKeeper = Callable[[], dict[str, tuple[bytes, int]]]


def set_state(run: DagRun, path: str, body: dict[str, str]) -> None:
    run.client.patch(f"{run.path}{path}", json=body).raise_for_status()


def throttled(tree: dict[str, tuple[bytes, int]]) -> list[str]:
    return [path for path, (content, _) in tree.items() if b"throttled" in content]


@pytest.mark.long
def test_a_run_that_is_marked_and_deleted_in_mid_copy_leaves_its_throttle_to_the_janitor(
    airflow: LocalAirflow,
    interrupted: DagRun,
    requester: httpx.Client,
    approver: httpx.Client,
    read_zookeeper: ReadZooKeeper,
) -> None:
    run = interrupted
    option = next(option for option in run.wait_for_request()["options"] if option.startswith("given"))
    before = read_zookeeper()
    run.seen_by(approver).answer(option, throttle_bytes_per_second=SLOW).raise_for_status()
    run.wait(lambda: run.tasks()["reassign"] == "deferred", timeout=120, what="a batch is in flight")

    set_state(run, "/taskInstances/reassign", {"new_state": "failed"})
    run.wait(
        lambda: run.tasks()["release_throttle"] == "up_for_retry", timeout=120, what="release_throttle has failed once"
    )
    assert "Copies are still in flight" in run.log("release_throttle")
    set_state(run, "", {"state": "failed"})
    set_state(run, "/taskInstances/release_throttle", {"new_state": "failed"})
    assert run.wait_for_end(timeout=120) == "failed", "also where Airflow has skipped all that would say so"
    assert "Somebody ended the run by hand" in run.log("check_verified")
    requester.delete(run.path).raise_for_status()

    tree = read_zookeeper()
    assert {REASSIGN, LOCK} <= set(tree)
    held = throttled(tree)
    assert held
    look = trigger(requester, "kafka_throttle_janitor", {"kafka_conn_id": "kafka_slow"})
    look.wait_for_end(timeout=120)  # red, or green where the one of this minute has given the alert
    (alert,) = json.loads((airflow.runs / "janitor" / "kafka_slow.json").read_text())["alerts"]
    assert f"Nobody follows the copies of run kafka_rebalance/{run.run_id} " in alert
    tree = read_zookeeper()
    assert throttled(tree) == held
    assert LOCK in tree

    faster = {"kafka_conn_id": "kafka_slow", "action": "set_throttle", "throttle_bytes_per_second": FAST}
    changed = trigger(requester, "kafka_rebalance_cancel", faster)
    above = changed.seen_by(approver)  # the run was approved with the slow one
    (option, _) = above.wait_for_request(task="approve_rate")["options"]
    above.answer(option, task="approve_rate").raise_for_status()
    assert changed.wait_for_end(timeout=120) == "success", changed.failures()
    changed.wait(lambda: REASSIGN not in read_zookeeper(), timeout=120, what="the copies end")
    look = trigger(requester, "kafka_throttle_janitor", {"kafka_conn_id": "kafka_slow"})
    assert look.wait_for_end(timeout=120) == "success", look.failures()
    tree = read_zookeeper()
    assert not throttled(tree)
    assert LOCK not in tree
    (topic,) = [path for path in tree if path == "/brokers/topics/interrupted"]
    assert json.loads(tree[topic][0])["partitions"] == {"0": [3, 4]}
    assert json.loads(before[topic][0])["partitions"] == {"0": [1, 2]}


@pytest.mark.parametrize("dag_id", ["kafka_rebalance", "kafka_balance_check", "kafka_throttle_janitor"])
def test_a_backfill_is_refused(dag_id: str, requester: httpx.Client) -> None:
    asked = {"dag_id": dag_id, "from_date": "2026-01-01T00:00:00Z", "to_date": "2026-01-03T00:00:00Z"}
    assert requester.post("/api/v2/backfills", json=asked).is_client_error


def test_airflow_has_the_retries_that_each_task_can_make_use_of(requester: httpx.Client) -> None:
    tasks = requester.get("/api/v2/dags/kafka_rebalance/tasks").json()["tasks"]
    found = {task["task_id"]: (task["retries"], task["retry_exponential_backoff"]) for task in tasks}
    assert {task: found[task][0] for task in ("snapshot", "approve", "hold_throttle", "verify")} == {
        "snapshot": 2,
        "approve": 5,
        "hold_throttle": 2,
        "verify": 3,
    }
    assert (found["reassign"], found["release_throttle"]) == ((5, 2), (28, 2))
