"""How what a step does ends an Airflow task."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from kafka_rebalance.errors import NothingToDoError, ReadError, StorageError, VerificationError
from kafka_rebalance.run.inputs import StartedRun, StepInputs
from kafka_rebalance.workflow.run_step import run_step

DAG_RUN = SimpleNamespace(
    dag_id="kafka_topics",
    run_id="one",
    triggering_user_name="",
    run_type=SimpleNamespace(value="scheduled"),
    conf={"a": 1},
)


def fails(inputs: StepInputs, error: Exception) -> None:
    raise error


def test_a_step_gets_the_run_what_the_dag_hands_over_and_a_way_to_tell() -> None:
    told: dict[str, Any] = {}

    def step(inputs: StepInputs, more: int) -> int:
        assert inputs.run == StartedRun("kafka_topics", "one", None, "scheduled", {"a": 1})
        inputs.tell("nonce", "n")
        return more + 1

    assert run_step(step, DAG_RUN, 1, ti=SimpleNamespace(xcom_push=told.__setitem__)) == 2
    assert told == {"nonce": "n"}
    with pytest.raises(TypeError, match="The step pushes the XCom nonce"):
        run_step(step, DAG_RUN, 1)


@pytest.mark.parametrize(
    ("error", "ends", "text"),
    [
        (VerificationError("Not there."), AirflowFailException, "VerificationError: Not there."),
        (NothingToDoError("Nothing runs."), AirflowSkipException, "Nothing runs."),
        (ReadError("Away."), ReadError, "Away. This try of the task had changed nothing in the cluster."),
        (KeyError("a"), KeyError, "'a'"),
    ],
)
def test_what_no_retry_mends_fails_for_good_and_what_there_is_not_is_skipped(
    error: Exception, ends: type[Exception], text: str
) -> None:
    with pytest.raises(ends) as ended:
        run_step(fails, DAG_RUN, error)
    assert str(ended.value) == text
    assert ended.value is error or ended.value.__cause__ is error


def test_storage_that_is_away_is_tried_again_and_says_what_the_cluster_is_like() -> None:
    with pytest.raises(StorageError, match=r"^Away\. This try of the task had changed nothing in the cluster\.$"):
        run_step(fails, DAG_RUN, StorageError("Away."))
