"""batches.json: when each batch was requested, how it ended, and why no batch followed.

ZooKeeper tells what became of a batch. Only these notes tell that this run requested it. Notes of an unknown version
are neither read nor overwritten: FormatVersionError.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

from kafka_rebalance.clock import now_text
from kafka_rebalance.documents import json_files
from kafka_rebalance.model.candidate import Batch, Move
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.finding import some
from kafka_rebalance.model.lock_owner import Fence
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.rebalance.progress_notes import read_measured
from kafka_rebalance.run.approved_plan import ApprovedPlan
from kafka_rebalance.run.check_result import NotMoved
from kafka_rebalance.run.running_rebalance import ASKED, ASKING, REQUESTING, entries, read_notes
from kafka_rebalance.run.watch_batch import BatchState

SAID = "kafka_said"  # {partition: Kafka's words}, of those that it has refused at once


def note_batch(plan: ApprovedPlan, batch: Batch, state: str, **more: Any) -> None:
    """Notes the state of a batch. The times of its request and its end are noted once."""
    document = read_notes(plan.folder)
    entry = entries(document).setdefault(batch.number, _entry(batch))
    entry.update(state=state, **more)
    if state == BatchState.DONE and not entry["finished_at"]:
        entry["finished_at"] = now_text()
    if state == BatchState.DONE:
        _forget_parts(entry)
    _write(plan, document, entry)


def _entry(batch: Batch) -> dict[str, Any]:
    return {
        "number": batch.number,
        "partitions": len(batch.moves),
        "bytes": sum(move.bytes_to_copy for move in batch.moves),
        "created_at": now_text(),
        "finished_at": None,
    }


def note_requesting(plan: ApprovedPlan, moves: Sequence[Move], fence: Fence) -> None:
    """Notes that these moves, of one or more batches, are about to be requested under this fence, which the request
    raises.

    If others of a batch are noted so already, an earlier try or another worker may have requested them: then no
    generation tells that nobody did.
    """
    document = read_notes(plan.folder)
    noted, changed = entries(document), []
    for batch, these in _by_batch(plan, moves):
        entry = noted.get(batch.number) or _entry(batch) | {ASKED: [], ASKING: []}
        if ASKED not in entry:  # all of it was requested, or was about to be
            asked, asking = (ASKING, ASKED) if entry.get("state") == REQUESTING else (ASKED, ASKING)
            entry |= {asked: [str(move.topic_partition) for move in batch.moves], asking: []}
        tried = set(entry[ASKING])
        generation = None if tried else fence.generation
        changed.append(entry | {"state": REQUESTING, "generation": generation, ASKING: sorted(tried | these)})
    _write(plan, document, *changed)


def note_requested(
    plan: ApprovedPlan, moves: Sequence[Move], refused: Mapping[TopicPartition, str] = MappingProxyType({})
) -> None:
    """Notes that these moves were requested, and with which words Kafka has refused some of them."""
    document = read_notes(plan.folder)
    noted, changed = entries(document), []
    for batch, these in _by_batch(plan, moves):
        entry = noted[batch.number]
        entry[ASKED], entry[ASKING] = sorted({*entry[ASKED], *these}), sorted(set(entry[ASKING]) - these)
        entry["state"] = REQUESTING if entry[ASKING] else BatchState.REQUESTED
        entry[SAID] = {name: words for name, words in entry.get(SAID, {}).items() if name not in these}
        entry[SAID] |= {str(tp): words for tp, words in sorted(refused.items()) if str(tp) in these}
        if not entry[SAID]:
            del entry[SAID]
        if len(entry[ASKED]) == len(batch.moves):
            _forget_parts(entry)
        changed.append(entry)
    _write(plan, document, *changed)


def refusal_words(plan: ApprovedPlan, batches: Iterable[Batch]) -> str:
    """Kafka's own words about what it has refused of these batches; empty if it has refused nothing at once."""
    by_words: dict[str, list[str]] = {}
    for batch in batches:
        for name, words in read_batch_note(plan, batch.number).get(SAID, {}).items():
            by_words.setdefault(words, []).append(name)
    return "; ".join(f"{some(names)}: {words.removesuffix('.')}" for words, names in by_words.items())


def _by_batch(plan: ApprovedPlan, moves: Sequence[Move]) -> list[tuple[Batch, set[str]]]:
    """The batches of these moves, each with the names of its partitions among them."""
    wanted = {move.topic_partition for move in moves}
    found = [
        (batch, {str(move.topic_partition) for move in batch.moves if move.topic_partition in wanted})
        for batch in plan.candidate.batches
    ]
    return [(batch, these) for batch, these in found if these]


def _forget_parts(entry: dict[str, Any]) -> None:
    for part in (ASKED, ASKING):
        entry.pop(part, None)


def note_done(plan: ApprovedPlan, numbers: Collection[int]) -> None:
    """Notes the end of these requested batches, which have ended by what ZooKeeper shows.

    `measured_bytes` are those of their new replicas, None if nobody measured them.
    """
    document = read_notes(plan.folder)
    noted = entries(document)
    unseen = [noted[number] for number in numbers if number in noted and not noted[number].get("finished_at")]
    for entry in unseen:
        _forget_parts(entry)
        entry.update(
            state=BatchState.DONE, finished_at=now_text(), measured_bytes=read_measured(plan.folder, entry["number"])
        )
    if unseen:
        _write(plan, document, *unseen)


def note_stop(plan: ApprovedPlan, why: str) -> None:
    document = read_notes(plan.folder)
    document["stopped"] = {"at": now_text(), "why": why}
    _write(plan, document)


def note_pause(plan: ApprovedPlan, until: datetime | None) -> None:
    """Notes that the run waits for a window. A pause that is noted already goes on, even if into another window."""
    document = read_notes(plan.folder)
    pauses = [dict(pause) for pause in document.get("pauses", ())]
    if not pauses or pauses[-1]["ended_at"] is not None:
        pauses.append({"at": now_text(), "ended_at": None})
    pauses[-1]["until"] = None if until is None else until.isoformat(timespec="seconds")
    _write(plan, {**document, "pauses": pauses})


def is_paused(plan: ApprovedPlan) -> bool:
    """Whether a pause is noted, and no request since."""
    pauses = read_notes(plan.folder).get("pauses") or [{"ended_at": ""}]
    return pauses[-1]["ended_at"] is None


def note_going_on(plan: ApprovedPlan) -> None:
    """Removes the note of `note_stop`, and ends the one of `note_pause`: nothing holds the run back any more."""
    document = read_notes(plan.folder)
    stopped, paused = document.pop("stopped", None), is_paused(plan)
    if paused:
        *earlier, last = document["pauses"]
        document["pauses"] = [*earlier, {**last, "ended_at": now_text()}]
    if paused or stopped is not None:
        _write(plan, document)


def read_batch_note(plan: ApprovedPlan, number: int) -> Mapping[str, Any]:
    return entries(read_notes(plan.folder)).get(number, {})


def not_moved(plan: ApprovedPlan, view: ClusterView) -> NotMoved | None:
    """The approved partitions that were not moved because the run was stopped, and why; None: it was not stopped."""
    stopped = read_notes(plan.folder).get("stopped")
    if not isinstance(stopped, Mapping):
        return None
    left = [
        move.topic_partition
        for move in plan.candidate.moves
        if (partition := view.partitions.get(move.topic_partition)) is not None
        and partition.replicas == move.before != move.after
        and move.topic_partition not in view.moving
    ]
    return NotMoved(str(stopped.get("why")), tuple(map(str, sorted(left))))


def _write(plan: ApprovedPlan, document: Mapping[str, Any], *changed: dict[str, Any]) -> None:
    noted = entries(document) | {entry["number"]: entry for entry in changed}
    json_files.write_json(
        plan.folder, json_files.BATCHES, {**document, "batches": [noted[number] for number in sorted(noted)]}
    )
