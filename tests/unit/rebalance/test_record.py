"""What `record` takes from the files of the tasks before it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_rebalance.documents.json_files import VERIFICATION
from kafka_rebalance.errors import StorageError
from kafka_rebalance.rebalance.verify import so_far
from kafka_rebalance.run.check_result import VERIFICATION_FILE


def plan(folder: Path) -> Any:
    return SimpleNamespace(folder=folder)


def test_a_file_that_was_never_written_says_nothing(tmp_path: Path) -> None:
    assert so_far(plan(tmp_path), VERIFICATION_FILE) is None


def test_storage_that_is_away_is_no_run_without_a_verification(tmp_path: Path) -> None:
    (tmp_path / VERIFICATION).mkdir()
    with pytest.raises(StorageError):
        so_far(plan(tmp_path), VERIFICATION_FILE)
