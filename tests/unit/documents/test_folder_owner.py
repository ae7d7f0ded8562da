"""Whose a run's folder is: by its own record, or in the folders of older versions by what else names the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.folder_owner import FolderOwner, check_own_folder, read_folder_owner
from kafka_rebalance.errors import ArtifactError, RunFolderError

NAMED = {"dag_id": "kafka_rebalance", "run_id": "one", "connection_id": "kafka_eu"}
OWNER = FolderOwner("kafka_rebalance", "one", "kafka_eu", 2)


def test_a_folder_is_the_runs_that_its_record_names(tmp_path: Path) -> None:
    json_files.write_json(tmp_path, json_files.NONCE, {"nonce": "x", "owner": OWNER})
    assert read_folder_owner(tmp_path) == OWNER
    assert check_own_folder(tmp_path, "kafka_rebalance", "one") == OWNER


@pytest.mark.parametrize(("dag_id", "run_id"), [("kafka_rebalance", "two"), ("kafka_topics", "one")])
def test_the_folder_of_another_run_is_refused(tmp_path: Path, dag_id: str, run_id: str) -> None:
    json_files.write_json(tmp_path, json_files.NONCE, {"nonce": "x", "owner": OWNER})
    with pytest.raises(RunFolderError, match=f"belongs to run kafka_rebalance/one, but this is run {dag_id}/{run_id}"):
        check_own_folder(tmp_path, dag_id, run_id)


@pytest.mark.parametrize("name", [json_files.SNAPSHOT, json_files.TOPIC])
def test_an_older_folder_is_the_runs_that_its_snapshot_or_topic_names(tmp_path: Path, name: str) -> None:
    json_files.write_json(tmp_path, json_files.NONCE, {"nonce": "x"})
    with pytest.raises(ArtifactError, match="An earlier version wrote"):
        read_folder_owner(tmp_path)
    json_files.write_json(tmp_path, name, {**NAMED, "more": 1})
    assert read_folder_owner(tmp_path) == FolderOwner("kafka_rebalance", "one", "kafka_eu")


@pytest.mark.parametrize(
    "given",
    [None, [], {**NAMED, "run_id": ""}, {**NAMED, "dag_id": 5}, {**NAMED, "attempt": -1}, {**NAMED, "attempt": True}],
)
def test_a_record_that_names_no_run_is_refused(given: Any) -> None:
    with pytest.raises(ArtifactError, match=r"^the file: "):
        json_files.decode(FolderOwner, given, "the file")
