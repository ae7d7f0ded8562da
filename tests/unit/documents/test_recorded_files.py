"""Files that recorded runs have left: read and written they are the same, and damaged they are refused by name."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from kafka_rebalance.documents.json_files import JsonFile
from kafka_rebalance.documents.progress import BATCHES_FILE, PROGRESS_FILE
from kafka_rebalance.documents.proposals import PAGE_FILE, PROPOSALS_FILE, REJECTION_FILE
from kafka_rebalance.documents.segments import SEGMENTS_FILE
from kafka_rebalance.documents.snapshot import CONFIGS_FILE, SNAPSHOT_FILE
from kafka_rebalance.documents.throttle_lease import THROTTLE_FILE
from kafka_rebalance.documents.verdict import VERDICT_FILE
from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.run.approval_rules import DECISION_FILE
from kafka_rebalance.run.approved_plan import LEFT_OUT_FILE
from kafka_rebalance.run.check_result import VERIFICATION_FILE
from kafka_rebalance.run.ledger import ESTIMATE_FILE
from kafka_rebalance.run.stop_and_cancel_requests import CANCELLED_FILE, CONTROL_FILE
from kafka_rebalance.throttle.rates import RATES_FILE
from support.documents.as_in_a_file import in_json
from support.golden.records import FOLDER, recorded

FILES: tuple[JsonFile[Any], ...] = (
    BATCHES_FILE,
    CANCELLED_FILE,
    CONTROL_FILE,
    DECISION_FILE,
    ESTIMATE_FILE,
    LEFT_OUT_FILE,
    PAGE_FILE,
    PROGRESS_FILE,
    PROPOSALS_FILE,
    CONFIGS_FILE,
    RATES_FILE,
    REJECTION_FILE,
    SEGMENTS_FILE,
    SNAPSHOT_FILE,
    THROTTLE_FILE,
    VERDICT_FILE,
    VERIFICATION_FILE,
)
OURS = ("format_version", "source_digest")  # of every file: no type has them
# What is in them is kept as it is: digests are of it, or the run that is started with it checks it.
CHECKED_ELSEWHERE = ("settings", "policy", "movement", "conf")
WRONG: tuple[Any, ...] = ({"wrong": {}}, [[{}]], "wrong", -1.5)


def documents(file: JsonFile[Any]) -> dict[str, dict[str, Any]]:
    """All that were recorded, by run and name."""
    found = {}
    for path in sorted(FOLDER.glob("*/*.txt")):
        for name, text in recorded(path.parent.name, path.name).items():
            if name == file.name or name.endswith(f"/{file.name}"):
                found[f"{path.parent.name}: {name}"] = json.loads(text)
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_recorded_file_is_the_same_once_it_is_read_and_written(file: JsonFile[Any]) -> None:
    found = documents(file)
    assert found
    for where, document in found.items():
        kept = {key: document[key] for key in OURS if key in document}
        written = kept | in_json(file.decode(document))
        # The text, since 1 and 1.0 are equal.
        assert json.dumps(written, sort_keys=True) == json.dumps(document, sort_keys=True), where


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every key of the document; of a list its first entry stands for all."""
    if place:
        yield place
    if place[-1:] in {(name,) for name in CHECKED_ELSEWHERE}:
        return
    inner = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, one in inner:
        yield from places(one, (*place, key))


def changed(document: dict[str, Any], place: Sequence[Any], *value: Any) -> dict[str, Any]:
    """With another value there, or without it."""
    spoiled = copy.deepcopy(document)
    holder: Any = spoiled
    for key in place[:-1]:
        holder = holder[key]
    if value:
        holder[place[-1]] = value[0]
    else:
        del holder[place[-1]]
    return spoiled


def told(file: JsonFile[Any], document: dict[str, Any]) -> str:
    """Why it is refused; empty where it is taken."""
    try:
        file.decode(document)
    except ArtifactError as refused:
        return str(refused)
    return ""


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_damaged_file_is_refused_by_its_name_and_place(file: JsonFile[Any]) -> None:
    """A wrong value is told or read as what it is; a missing one is told, or has a default."""
    seen: set[tuple[Any, ...]] = set()
    for document in documents(file).values():
        for place in set(places(document)) - seen:
            seen.add(place)
            reasons = [told(file, changed(document, place, value)) for value in WRONG]
            refused = [reason for reason in reasons if reason]
            where = (f"{file.name}: {place[0]}", f"{file.name}: key in {place[0]}")
            assert all(reason.startswith(where) for reason in refused)
            assert place[0] in OURS or len(refused) > 1, place
            missing = told(file, changed(document, place))
            assert not missing or missing.startswith(f"{file.name}: ")
