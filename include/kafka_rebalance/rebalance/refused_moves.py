"""Moves that the controller dropped after the request, or that somebody else cancelled: none is asked for again."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NoReturn

from kafka_rebalance.errors import RefusedError
from kafka_rebalance.model.candidate import Batch
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.finding import some
from kafka_rebalance.moves.move_stage import Stage, stage_in
from kafka_rebalance.rebalance import batch_notes
from kafka_rebalance.rebalance.progress_notes import read_movement
from kafka_rebalance.rebalance.stalled_copies import begun_in
from kafka_rebalance.run.approved_plan import ApprovedPlan
from kafka_rebalance.run.asked_batches import ASKED
from kafka_rebalance.run.batch_seen import BatchState

log = logging.getLogger(__name__)

NOT_AGAIN = "It is not requested again under this approval. Settle it with the person who cancelled it."


def note_refused(plan: ApprovedPlan, batch: Batch, view: ClusterView, why: str) -> None:
    epoch = view.controller.epoch if view.controller else None
    batch_notes.note_batch(plan, batch, BatchState.REFUSED, why=why, controller_epoch=epoch)


def raise_refused(plan: ApprovedPlan, batch: Batch, view: ClusterView) -> NoReturn:
    """Raises RefusedError with Kafka's own words: it has taken none of these moves."""
    parts = parts_of(batch)
    why = (
        f"Kafka refused all {len(batch.moves)} partitions that were requested of batch {batch.number}. "
        f"{batch_notes.refusal_words(plan, parts)}. They stay as they are."
    )
    for part in parts:
        note_refused(plan, part, view, why)
    raise RefusedError(f"{why} Start a new Dag run, which plans from the current cluster.")


def check_not_refused(plan: ApprovedPlan, batch: Batch, view: ClusterView) -> None:
    """Raises RefusedError if the controller dropped moves of `batch`, or if somebody else cancelled them."""
    for part in parts_of(batch):
        _check_part(plan, part, view)


def _check_part(plan: ApprovedPlan, batch: Batch, view: ClusterView) -> None:
    """Raises RefusedError if the controller dropped this batch, unless there is a new controller since.

    The same controller would drop the same request again; a new one reads everything again.
    """
    note = batch_notes.read_batch_note(plan, batch.number)
    if ASKED in note:
        batch = replace(batch, moves=tuple(m for m in batch.moves if str(m.topic_partition) in note[ASKED]))
    _check_not_taken_back(plan, batch, view, note)
    # Moves of partitions that are gone or were moved since were not dropped: `check_before_write` decides on them.
    found = ((move, view.partitions.get(move.topic_partition)) for move in batch.moves)
    dropped = [move for move, partition in found if partition is not None and partition.replicas == move.before]
    state, why, epoch = note.get("state"), str(note.get("why")), view.controller.epoch if view.controller else None
    if not dropped or state not in (BatchState.REQUESTED, BatchState.REFUSED):
        return
    if state == BatchState.REQUESTED:
        # Requested without a trace: nobody followed it when it was dropped.
        named = ", ".join(str(move.topic_partition) for move in dropped[:10])
        why = (
            f"{len(dropped)} partitions of batch {batch.number} left /admin/reassign_partitions with their "
            f"replicas unchanged: the controller refused them ({named}). Its log says why (KafkaController)."
        )
        if said := batch_notes.refusal_words(plan, [batch]):
            why = f"Kafka refused {len(dropped)} partitions of batch {batch.number}. {said}."
        note_refused(plan, batch, view, why)
    elif epoch not in (None, note.get("controller_epoch")):
        log.info("Batch %d was refused by an earlier controller; asking the one of epoch %d", batch.number, epoch)
        return
    raise RefusedError(
        f"{why} It was not requested again: the same controller would drop it again. Start a new Dag run to plan from "
        "the current cluster, or clear this task after the election of another controller."
    )


def _check_not_taken_back(plan: ApprovedPlan, batch: Batch, view: ClusterView, note: Mapping[str, Any]) -> None:
    """Raises RefusedError if somebody else cancelled this batch in mid-copy: that person wanted it to stop.

    The follower has noted that. If nobody followed the batch, the moves seen under way before tell it.
    """
    stages = {move.topic_partition: stage_in(move, view) for move in batch.moves}
    state, why = note.get("state"), str(note.get("why"))
    if state == BatchState.REQUESTED:
        begun = begun_in(read_movement(plan.folder, batch.number))
        back = [tp for tp, one in stages.items() if one is Stage.TAKEN_BACK or (one is Stage.UNTOUCHED and tp in begun)]
        if not back:
            return
        why = (
            f"Somebody else cancelled batch {batch.number} while it was under way: {len(back)} of its partitions have "
            f"their original replicas again ({some(back)}). What was copied is thrown away. Find out who cancelled it "
            "and why, then start a new Dag run."
        )
        batch_notes.note_batch(plan, batch, BatchState.TAKEN_BACK, why=why)
    elif state != BatchState.TAKEN_BACK or not {Stage.UNTOUCHED, Stage.TAKEN_BACK} & set(stages.values()):
        return
    raise RefusedError(f"{why} {NOT_AGAIN}")


def parts_of(batch: Batch) -> list[Batch]:
    """What is requested at once, by the batches of the plan."""
    numbers = sorted({move.batch for move in batch.moves})
    return [replace(batch, number=n, moves=tuple(m for m in batch.moves if m.batch == n)) for n in numbers]
