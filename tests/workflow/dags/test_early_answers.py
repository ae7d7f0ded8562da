"""Answers and events that reach Airflow before its scheduler knows that the task's process has ended.

Airflow 3.3 fails such a task. An answer is asked for again, and an event waits.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from kafka_rebalance.errors import ApprovalError, ApprovalExpiredError
from kafka_rebalance.run.watch_batch import BatchSeen, BatchState
from kafka_rebalance.workflow import triggers
from kafka_rebalance.workflow.hooks import KafkaClusterHook
from kafka_rebalance.workflow.operators.approval import ASKED_AGAIN, ApprovalOperator
from kafka_rebalance.workflow.run_step import run_step
from support.airflow.parsed_dags import read_dags

DAG_RUN = SimpleNamespace(dag_id="kafka_rebalance", run_id="one", triggering_user_name="", run_type="manual", conf={})


def test_every_request_for_an_answer_is_made_again_where_airflow_loses_the_answer() -> None:
    asking = [task for dag in read_dags().values() for task in dag.tasks if isinstance(task, ApprovalOperator)]
    assert len({task.dag_id for task in asking}) == 4
    assert {task.retries for task in asking} == {ASKED_AGAIN}


@pytest.mark.parametrize("ended", [ApprovalError("uma may not approve."), ApprovalExpiredError("Nobody answered.")])
def test_an_answer_that_does_not_count_and_an_expired_request_are_final(ended: Exception) -> None:
    def fails(inputs: object) -> None:
        raise ended

    with pytest.raises(AirflowFailException):
        run_step(fails, DAG_RUN)


@pytest.mark.parametrize(("took", "held_back"), [(0.0, [10.0]), (4.0, [6.0]), (60.0, [])])
def test_an_event_waits_until_its_trigger_is_ten_seconds_old(
    monkeypatch: pytest.MonkeyPatch, took: float, held_back: list[float]
) -> None:
    now, slept = [1000.0], list[float]()

    class Watcher:
        def look(self, at: float, say: object) -> BatchSeen:
            now[0] += took
            return BatchSeen(BatchState.DONE, 1)

        def close(self) -> None:
            pass

    async def connection(connection_id: str) -> Any:
        return None

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(triggers, "time", SimpleNamespace(monotonic=lambda: now[0], time=lambda: now[0]))
    monkeypatch.setattr(triggers, "cluster_connection", lambda found: found)
    monkeypatch.setattr(KafkaClusterHook, "aget_connection", connection)
    monkeypatch.setattr(triggers, "YOUNGEST_EVENT_SECONDS", 10.0)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    trigger = triggers.BatchTrigger(connection_id="kafka", run_folder="folder", candidate="light", batch=1)
    monkeypatch.setattr(trigger, "_watcher", lambda found: Watcher())

    async def fire() -> list[Any]:
        return [event.payload async for event in trigger.run()]

    assert [event["state"] for event in asyncio.run(fire())] == ["done"]
    assert slept == held_back
