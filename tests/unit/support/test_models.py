"""The models of both kinds of controller agree with what real ones were recorded to do.

`tests/data/record_moves.py` and `tests/data/record_changes.py` record.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.kafka.recordings import recorded_moves
from support.kraft_model import recorded_changes

Recording = dict[str, Any]


def recordings(folder: str) -> Iterator[tuple[str, Recording]]:
    """Each with the version of its brokers."""
    for path in sorted((Path(__file__).parents[2] / "data" / folder).glob("*.json")):
        for recording in json.loads(path.read_text()):
            yield path.stem, recording


MOVES, CHANGES = list(recordings("moves")), list(recordings("changes"))


def name_of(value: str | Recording) -> str:
    return value if isinstance(value, str) else str(value["name"])


@pytest.mark.parametrize(("version", "recording"), MOVES, ids=name_of)
def test_every_write_of_a_controller_of_zookeeper_is_one_that_the_model_makes_then(
    version: str, recording: Recording
) -> None:
    recorded_moves.replay(recording, "2.0" if version == "2.0.1" else "2.8")


@pytest.mark.parametrize(("version", "recording"), CHANGES, ids=name_of)
def test_every_record_of_a_kraft_controller_is_one_that_the_model_writes_then(
    version: str, recording: Recording
) -> None:
    recorded_changes.replay(recording, version)


def test_a_model_of_the_other_version_is_told_apart() -> None:
    """Only 4.4 ends a move while its target is not in sync, and never ends some that are replaced."""
    refused = set()
    for version, recording in CHANGES:
        try:
            recorded_changes.replay(recording, {"3.9.2": "4.4.0", "4.4.0": "3.9.2"}[version])
        except AssertionError:
            refused.add((version, recording["name"]))
    assert {("4.4.0", "ends-early"), ("4.4.0", "back-as-target")} <= refused


def test_every_version_and_every_kind_of_move_and_change_was_recorded() -> None:
    assert Counter(version for version, _ in MOVES) == dict.fromkeys(("2.0.1", "2.8.2", "3.9.2"), 12)
    assert Counter(version for version, _ in CHANGES) == dict.fromkeys(("3.9.2", "4.4.0"), 17)
