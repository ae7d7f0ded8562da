"""Storage that does not answer: nothing is decided as if the file that was asked for were not there."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import ObjectStoragePath
from airflow.sdk.io import attach
from fsspec.implementations.memory import MemoryFileSystem

from kafka_rebalance.documents import storage
from kafka_rebalance.errors import StorageError
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.planning.tables.result_tables import read_disk_peaks
from kafka_rebalance.run import checks_before_write, ledger, run_folder, running_rebalance
from kafka_rebalance.throttle import lease_files, run_rates
from kafka_rebalance.topics import keys
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment


class Away(MemoryFileSystem):  # type: ignore[misc]
    """A bucket that does not answer. Its client's error is none of Python's own, as with Azure and Google."""

    def _raise(self, *_: object, **__: object) -> None:
        raise RuntimeError("503 Slow Down")

    info = ls = _open = cat_file = pipe_file = rm_file = _raise


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> ObjectStoragePath:
    attach("memory", "away", fs=Away())
    root = ObjectStoragePath("memory://away@runs")
    monkeypatch.setenv("AIRFLOW__KAFKA_REBALANCE__RUNS_URL", str(root))
    assert not (root / "anything").exists(), "fsspec says of everything that it is not there"
    return root


def plan_in(folder: Any) -> Any:
    return SimpleNamespace(
        folder=folder, approved=SimpleNamespace(name="light", moves=[Move(TopicPartition("t", 0), (1,), (2,), 1)])
    )


ASKED: dict[str, Callable[[Any], object]] = {
    "whether a plan was begun": running_rebalance.check_not_begun,
    "the way back": lambda root: list(checks_before_write._rollback_missing(plan_in(root))),
    "what the last run has moved": lambda root: running_rebalance.find_moved(airflow_deployment(), "kafka", None),
    "what a run has moved": lambda root: running_rebalance.find_moved(airflow_deployment(), "kafka", "one"),
    "the last attempt": lambda root: run_folder.newest_attempt(root, "kafka_rebalance"),
    "whose attempts there are": run_folder.owners_of,
    "the next attempt": lambda root: run_folder.create_run_folder(
        airflow_deployment(), "kafka", SimpleNamespace(dag_id="dag", run_id="one")
    ),
    "the least rates": run_rates.read_rates,
    "the disks' peaks": lambda root: read_disk_peaks(root, "light"),
    "the keys' sample": lambda root: keys.build(
        root,
        SimpleNamespace(topic="t", partitions_before=1, partitions_after=2),  # type: ignore[arg-type]
        SimpleNamespace(),  # type: ignore[arg-type]
    ),
    "the lease": lambda root: lease_files.read(airflow_deployment(), "cluster"),
    "a table of the ledger": lambda root: ledger.read(airflow_deployment(), "metrics", "kafka", 30),
    "a removal": lambda root: storage.remove(root / "lock.json"),
    "a new row of the ledger": lambda root: ledger.append(
        airflow_deployment(), "metrics", "kafka", "one", datetime.now(UTC), []
    ),
}


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED.keys())
def test_a_bucket_that_does_not_answer_is_not_an_empty_one(
    away: ObjectStoragePath, ask: Callable[[Any], object]
) -> None:
    with pytest.raises(StorageError, match="503 Slow Down"):
        ask(away)
