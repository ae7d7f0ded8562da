"""log_dirs.json: read as it was written, and refused by name if it is damaged."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from kafka_rebalance.documents.log_dir_plan import LOG_DIRS_FILE
from kafka_rebalance.errors import ArtifactError
from support.documents.log_dir_sample import WRITTEN


def test_it_is_read_as_it_was_written_with_the_same_digest(tmp_path: Path) -> None:
    LOG_DIRS_FILE.write(tmp_path, WRITTEN)
    read = LOG_DIRS_FILE.read(tmp_path)
    assert read == WRITTEN
    assert read.plan.digest == read.digest


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        (("plan", "moves", 0, "broker"), "1"),
        (("plan", "moves", 0, "after"), None),
        (("plan", "throttle_bytes_per_second"), 1.5),
        (("plan",), []),
        (("dirs", 0, "peak_bytes"), {}),
        (("observed_at",), "2026-01-01"),
    ],
)
def test_a_damaged_one_is_refused_by_its_name(tmp_path: Path, place: tuple[Any, ...], wrong: Any) -> None:
    LOG_DIRS_FILE.write(tmp_path, WRITTEN)
    document = copy.deepcopy(json.loads((tmp_path / "log_dirs.json").read_text()))
    within = document
    for key in place[:-1]:
        within = within[key]
    within[place[-1]] = wrong
    with pytest.raises(ArtifactError, match=r"log_dirs\.json"):
        LOG_DIRS_FILE.decode(document)
