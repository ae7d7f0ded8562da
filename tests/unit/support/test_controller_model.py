"""The model of the controller agrees with what real ones were recorded to do (`tests/data/record_moves.py`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.kafka.recordings.recorded_moves import replay

FOLDER = Path(__file__).parents[2] / "data" / "moves"
RECORDINGS = [
    pytest.param(path.stem, recording, id=f"{path.stem} {recording['name']}")
    for path in sorted(FOLDER.glob("*.json"))
    for recording in json.loads(path.read_text())
]


@pytest.mark.parametrize(("version", "recording"), RECORDINGS)
def test_every_write_of_a_real_controller_is_one_that_the_model_makes_then(
    version: str, recording: dict[str, Any]
) -> None:
    replay(recording, "2.0" if version == "2.0.1" else "2.8")


def test_every_version_and_every_kind_of_move_was_recorded() -> None:
    versions = {param.values[0] for param in RECORDINGS}
    assert versions == {"2.0.1", "2.8.2", "3.9.2"}
    assert len(RECORDINGS) == 3 * 12
