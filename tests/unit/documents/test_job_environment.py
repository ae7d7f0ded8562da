"""What the Spark driver leaves for its task: its error, with its kind and its own words."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_rebalance import errors
from kafka_rebalance.documents.job_environment import (
    ERROR_FILE,
    STORAGE_OPTIONS,
    leave_error,
    left_error,
    storage_options,
)


@pytest.mark.parametrize(
    "error",
    [errors.PlanningError('no "plan"\nfits'), errors.KafkaRuleError("topic is not there", "Name another.")],
    ids=lambda error: type(error).__name__,
)
def test_an_error_that_was_left_is_the_drivers(error: errors.RebalanceError, tmp_path: Path) -> None:
    leave_error({ERROR_FILE: str(tmp_path / "error.json")}, error)
    found = left_error(tmp_path / "error.json")
    assert (type(found), str(found)) == (type(error), str(error))


def test_a_driver_that_nobody_has_asked_leaves_nothing(tmp_path: Path) -> None:
    leave_error({}, errors.PlanningError("no"))
    assert left_error(tmp_path / "error.json") is None
    assert list(tmp_path.iterdir()) == []


def test_without_options_a_buckets_client_finds_its_credentials_itself() -> None:
    assert storage_options({}) == storage_options({STORAGE_OPTIONS: ""}) == {}
    assert storage_options({STORAGE_OPTIONS: '{"key": "a"}'}) == {"key": "a"}
