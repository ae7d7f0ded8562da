"""Somebody edits a file of a run that cancels, moves replicas between log dirs, or changes a topic."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from airflow.sdk.exceptions import AirflowFailException

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.key_sample import REQUEST, OffsetRange
from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.model.consumer_groups import TopicGroups
from kafka_rebalance.topics import keys
from kafka_rebalance.workflow.operators.approval import ApprovalOperator
from kafka_rebalance.workflow.run_step import step_inputs
from support.runs.asked_run import AskedRun
from support.runs.cancel_run import CancelRun, begin, cancellable_cluster
from support.runs.log_dir_run import LogDirRun
from support.runs.simulated_cluster import RACKS, TOPICS, SimulatedCluster, batched_run
from support.runs.simulated_log_dirs import DRAIN, SimulatedLogDirs
from support.runs.topic_run import TopicRun


class Waiting(NamedTuple):
    """A run whose people have been asked."""

    run: AskedRun
    operator: ApprovalOperator

    def answer(self, choice: str) -> None:
        event = {
            "chosen_options": [next(one for one in self.operator.options if one.startswith(choice))],
            "params_input": {"note": None},
            "responded_at": datetime.now(UTC),
            "responded_by_user": {"id": "uma", "name": "uma"},
        }
        self.operator.execute_complete(self.run._context, event)


def cancel(folder: Path, patch: pytest.MonkeyPatch) -> Waiting:
    cluster = cancellable_cluster(patch, "2.8")
    begin(batched_run(folder, cluster, patch), cluster)
    run = CancelRun(patch)
    run.request("cancel_now")
    return Waiting(run, run.ask())


def move_log_dirs(folder: Path, patch: pytest.MonkeyPatch) -> Waiting:
    cluster = SimulatedCluster(patch, TOPICS)
    SimulatedLogDirs(patch, cluster)
    patch.setattr("kafka_rebalance.run.snapshot_reader.STORM_PAUSE_SECONDS", 0)
    run = LogDirRun(folder, cluster, patch)  # type: ignore[arg-type]
    run.plan(**DRAIN)
    return Waiting(run, run.ask())


def topic_run(folder: Path, patch: pytest.MonkeyPatch) -> TopicRun:
    cluster = SimulatedCluster(patch, TOPICS)
    cluster.broker_settings = {broker: {"delete.topic.enable": "true"} for broker in RACKS}
    patch.setattr("kafka_rebalance.topics.keys.read_groups", lambda *_: TopicGroups(()))
    return TopicRun(folder, cluster, patch)  # type: ignore[arg-type]


def expand(folder: Path, patch: pytest.MonkeyPatch) -> Waiting:
    run = topic_run(folder, patch)
    run.request(topic="orders", action="alter", partitions=5)
    return Waiting(run, run.ask())


def edit(file: Path) -> None:
    """One more key, which readers pass over: so only the bytes tell."""
    file.write_text(json.dumps({**json.loads(file.read_text()), "more": 1}))


@pytest.fixture
def waiting(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Waiting:
    begun: Callable[..., Waiting] = request.param
    return begun(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("waiting", "name", "choice"),
    [
        (cancel, json_files.CANCEL, "cancel_now"),
        (move_log_dirs, json_files.LOG_DIRS, "drain"),
        (expand, json_files.TOPIC, "alter"),
        (expand, json_files.FORECAST, "alter"),
    ],
    ids=["cancel", "log dirs", "topic", "forecast"],
    indirect=["waiting"],
)
def test_an_answer_to_a_request_that_somebody_has_edited_does_not_count(
    waiting: Waiting, name: str, choice: str
) -> None:
    file = waiting.run.folder / name
    shown = file.read_bytes()
    edit(file)
    with pytest.raises(AirflowFailException, match=f"{name} is not as it was when people were asked"):
        waiting.answer(choice)
    assert "decision" not in waiting.run.xcom
    file.write_bytes(shown)
    waiting.answer(choice)
    assert "decision" in waiting.run.xcom


def test_a_sample_that_somebody_has_edited_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = topic_run(tmp_path, monkeypatch)
    monkeypatch.setattr(keys, "read_offset_ranges", lambda *_, **__: (OffsetRange(0, 0, 10),))
    run.request(topic="orders", action="alter", partitions=5, sample_rows=10)
    file, nonce = run.folder / REQUEST, run.xcom["nonce"]
    places = ["--sample", str(file), "--out", str(run.folder)]
    submit: Any = SimpleNamespace(application_args=[*places, "--expect-nonce", nonce], py_files=None)
    inputs = step_inputs(run.dag_run)
    keys.begin_sample(inputs, str(run.folder), submit)
    edit(file)
    with pytest.raises(ArtifactError, match=r"sample\.json is not as the task request wrote it"):
        keys.begin_sample(inputs, str(run.folder), submit)
