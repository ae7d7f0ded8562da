"""batches.json: when each batch was requested, how it ended, and why no batch followed.

ZooKeeper tells what became of a batch. Only these notes tell that this run requested it. Notes of an unknown version
are neither read nor overwritten: FormatVersionError.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import Any

from kafka_rebalance import clock
from kafka_rebalance.documents.progress import (
    BATCHES_FILE,
    REQUESTING,
    BatchNote,
    BatchNotes,
    Stopped,
    WindowPause,
)
from kafka_rebalance.model.candidate import Batch, Move
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.finding import some
from kafka_rebalance.model.lock_owner import Fence
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.rebalance.progress_notes import read_measured
from kafka_rebalance.run.approved_plan import ApprovedPlan
from kafka_rebalance.run.check_result import NotMoved
from kafka_rebalance.run.running_rebalance import read_notes
from kafka_rebalance.run.watch_batch import BatchState


def note_batch(plan: ApprovedPlan, batch: Batch, state: str, **more: Any) -> None:
    """Notes the state of a batch. The times of its request and its end are noted once."""
    notes = read_notes(plan.folder)
    note = replace(notes.by_number.get(batch.number) or _new(batch), **more, state=state)
    _write(plan, notes, _ended(note) if state == BatchState.DONE else note)


def _new(batch: Batch) -> BatchNote:
    copied = sum(move.bytes_to_copy for move in batch.moves)
    return BatchNote(batch.number, len(batch.moves), copied, REQUESTING, created_at=clock.utc_second())


def _ended(note: BatchNote) -> BatchNote:
    return replace(
        note, state=BatchState.DONE, finished_at=note.finished_at or clock.utc_second(), asked=None, asking=None
    )


def note_requesting(plan: ApprovedPlan, moves: Sequence[Move], fence: Fence) -> None:
    """Notes that these moves, of one or more batches, are about to be requested under this fence, which the request
    raises.

    If others of a batch are noted so already, an earlier try or another worker may have requested them: then no
    generation tells that nobody did.
    """
    notes, changed = read_notes(plan.folder), []
    for batch, names in _by_batch(plan, moves):
        note = notes.by_number.get(batch.number) or replace(_new(batch), asked=(), asking=())
        if note.asked is None:  # all of it was requested, or was about to be
            every = tuple(str(move.topic_partition) for move in batch.moves)
            was_asked = note.state != REQUESTING
            note = replace(note, asked=every if was_asked else (), asking=() if was_asked else every)
        tried = set(note.asking or ())
        generation = None if tried else fence.generation
        changed.append(replace(note, state=REQUESTING, generation=generation, asking=tuple(sorted(tried | names))))
    _write(plan, notes, *changed)


def note_requested(
    plan: ApprovedPlan, moves: Sequence[Move], refused: Mapping[TopicPartition, str] = MappingProxyType({})
) -> None:
    """Notes that these moves were requested, and with which words Kafka has refused some of them."""
    notes, changed = read_notes(plan.folder), []
    for batch, names in _by_batch(plan, moves):
        note = notes.by_number[batch.number]
        asked, asking = sorted({*(note.asked or ()), *names}), sorted(set(note.asking or ()) - names)
        words = {name: words for name, words in (note.kafka_said or {}).items() if name not in names}
        words |= {str(tp): said for tp, said in refused.items() if str(tp) in names}
        is_whole = len(asked) == len(batch.moves)
        changed.append(
            replace(
                note,
                state=REQUESTING if asking else BatchState.REQUESTED,
                asked=None if is_whole else tuple(asked),
                asking=None if is_whole else tuple(asking),
                kafka_said=words or None,
            )
        )
    _write(plan, notes, *changed)


def refusal_words(plan: ApprovedPlan, batches: Iterable[Batch]) -> str:
    """Kafka's own words about what it has refused of these batches; empty if it has refused nothing at once."""
    by_words: dict[str, list[str]] = {}
    for batch in batches:
        for name, words in _kafka_said(plan, batch).items():
            by_words.setdefault(words, []).append(name)
    return "; ".join(f"{some(names)}: {words.removesuffix('.')}" for words, names in by_words.items())


def _kafka_said(plan: ApprovedPlan, batch: Batch) -> Mapping[str, str]:
    note = read_batch_note(plan, batch.number)
    return (note.kafka_said if note is not None else None) or {}


def _by_batch(plan: ApprovedPlan, moves: Sequence[Move]) -> list[tuple[Batch, set[str]]]:
    """The batches of these moves, each with the names of its partitions among them."""
    wanted = {move.topic_partition for move in moves}
    named = [
        (batch, {str(move.topic_partition) for move in batch.moves if move.topic_partition in wanted})
        for batch in plan.candidate.batches
    ]
    return [(batch, names) for batch, names in named if names]


def note_done(plan: ApprovedPlan, numbers: Collection[int]) -> None:
    """Notes the end of these requested batches, which have ended by what ZooKeeper shows.

    `measured_bytes` are those of their new replicas, None if nobody measured them.
    """
    notes = read_notes(plan.folder)
    unseen = [note for note in notes.batches if note.number in numbers and note.finished_at is None]
    ended = [replace(_ended(note), measured_bytes=read_measured(plan.folder, note.number)) for note in unseen]
    if ended:
        _write(plan, notes, *ended)


def note_stop(plan: ApprovedPlan, why: str) -> None:
    _write(plan, replace(read_notes(plan.folder), stopped=Stopped(clock.utc_second(), why)))


def note_pause(plan: ApprovedPlan, until: datetime | None) -> None:
    """Notes that the run waits for a window. A pause that is noted already goes on, even if into another window."""
    notes = read_notes(plan.folder)
    *earlier, last = [*(notes.pauses or ()), *([] if is_paused(plan) else [WindowPause(clock.utc_second())])]
    last = replace(last, until=None if until is None else until.replace(microsecond=0))
    _write(plan, replace(notes, pauses=(*earlier, last)))


def is_paused(plan: ApprovedPlan) -> bool:
    """Whether a pause is noted, and no request since."""
    pauses = read_notes(plan.folder).pauses
    return pauses[-1].ended_at is None if pauses else False


def note_going_on(plan: ApprovedPlan) -> None:
    """Removes the note of `note_stop`, and ends the one of `note_pause`: nothing holds the run back any more."""
    notes = read_notes(plan.folder)
    pauses = notes.pauses
    if pauses and pauses[-1].ended_at is None:
        pauses = (*pauses[:-1], replace(pauses[-1], ended_at=clock.utc_second()))
    if notes != (going_on := replace(notes, stopped=None, pauses=pauses)):
        _write(plan, going_on)


def read_batch_note(plan: ApprovedPlan, number: int) -> BatchNote | None:
    return read_notes(plan.folder).by_number.get(number)


def not_moved(plan: ApprovedPlan, view: ClusterView) -> NotMoved | None:
    """The approved partitions that were not moved because the run was stopped, and why; None: it was not stopped."""
    stopped = read_notes(plan.folder).stopped
    if stopped is None:
        return None
    moving = view.moving  # it looks at all partitions of the view
    left = [
        move.topic_partition
        for move in plan.candidate.moves
        if (partition := view.partitions.get(move.topic_partition)) is not None
        and partition.replicas == move.before != move.after
        and move.topic_partition not in moving
    ]
    return NotMoved(stopped.why, tuple(map(str, sorted(left))))


def _write(plan: ApprovedPlan, notes: BatchNotes, *changed: BatchNote) -> None:
    by_number = notes.by_number | {note.number: note for note in changed}
    BATCHES_FILE.write(plan.folder, replace(notes, batches=tuple(by_number[number] for number in sorted(by_number))))
