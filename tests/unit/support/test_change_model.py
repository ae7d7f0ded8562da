"""The model of KRaft's controller agrees with recordings of real ones (`tests/data/record_changes.py`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.kraft_model.recorded_changes import replay

FOLDER = Path(__file__).parents[2] / "data" / "changes"
RECORDINGS = [
    pytest.param(path.stem, recording, id=f"{path.stem} {recording['name']}")
    for path in sorted(FOLDER.glob("*.json"))
    for recording in json.loads(path.read_text())
]


@pytest.mark.parametrize(("version", "recording"), RECORDINGS)
def test_every_record_of_a_real_controller_is_one_that_the_model_writes_then(
    version: str, recording: dict[str, Any]
) -> None:
    replay(recording, version)


def test_a_model_of_the_other_version_is_told_apart() -> None:
    """Only 4.4 ends a move while its target is not in sync, and never ends some that are replaced."""
    refused = set()
    for version, recording in [param.values for param in RECORDINGS]:
        try:
            replay(recording, {"3.9.2": "4.4.0", "4.4.0": "3.9.2"}[str(version)])  # type: ignore[arg-type]
        except AssertionError:
            refused.add((version, recording["name"]))  # type: ignore[index,call-overload]
    assert {("4.4.0", "ends-early"), ("4.4.0", "back-as-target")} <= refused


def test_every_version_and_every_kind_of_change_was_recorded() -> None:
    assert {param.values[0] for param in RECORDINGS} == {"3.9.2", "4.4.0"}
    assert len(RECORDINGS) == 2 * 17
