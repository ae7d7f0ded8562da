"""Approved moves that are not made, because their partitions are no longer as approved and the policy says so.

left_out.json is added to and never taken from: what was left out once stays left out, whatever a retry finds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.execution.check.drift import MoveDrift
from kafka_rebalance.model.candidate import Candidate
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.tables.result_tables import read_candidate
from kafka_rebalance.verification.check_result import Check, CheckName
from kafka_rebalance.workflow.run.folder import RunFolder


@dataclass(frozen=True, slots=True)
class LeftOut:
    """One approved move that is not made."""

    topic_partition: TopicPartition
    why: tuple[str, ...]
    at: str


def read_left_out(folder: RunFolder, candidate: Candidate) -> tuple[LeftOut, ...]:
    """What has been left out of this candidate so far. Raises ArtifactError for a file of another one."""
    document = json_files.read_json_if_there(folder, json_files.LEFT_OUT)
    if document is None:
        return ()
    try:
        found = tuple(
            LeftOut(TopicPartition(one["topic"], one["partition"]), tuple(one["why"]), one["at"])
            for one in document["partitions"]
        )
    except (KeyError, TypeError) as bad:
        raise _unusable(folder, f"lacks or garbles {bad}") from bad
    strange = {one.topic_partition for one in found} - {move.topic_partition for move in candidate.moves}
    if document.get("source_digest") != candidate.digest or strange:
        raise _unusable(folder, f"is not of the approved candidate {candidate.name}")
    return found


def read_remaining(folder: RunFolder, name: str) -> Candidate:
    """The candidate without what was left out of it: what is followed, throttled and verified."""
    candidate = read_candidate(folder, name)
    return without(candidate, read_left_out(folder, candidate))


def without(candidate: Candidate, left_out: Sequence[LeftOut]) -> Candidate:
    """The candidate's other moves, under the digest that was approved."""
    if not left_out:
        return candidate
    gone = {one.topic_partition for one in left_out}
    moves = tuple(move for move in candidate.moves if move.topic_partition not in gone)
    return dataclasses.replace(candidate, moves=moves)


def leave_out(
    folder: RunFolder, approved: Candidate, so_far: Sequence[LeftOut], found: Sequence[MoveDrift], view: ClusterView
) -> tuple[LeftOut, ...]:
    """Writes down that these are left out from now on, with the scores of what remains; returns all that are."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    more = [LeftOut(one.move.topic_partition, tuple(map(str, one.why)), now) for one in found]
    everything = (*so_far, *more)
    moves = {move.topic_partition: move for move in approved.moves}
    json_files.write_json(
        folder,
        json_files.LEFT_OUT,
        {
            "partitions": [
                {
                    "topic": one.topic_partition.topic,
                    "partition": one.topic_partition.partition,
                    "batch": moves[one.topic_partition].batch,
                    "before": list(moves[one.topic_partition].before),
                    "after": list(moves[one.topic_partition].after),
                    "bytes": moves[one.topic_partition].bytes_to_copy,
                    "why": list(one.why),
                    "at": one.at,
                }
                for one in everything
            ],
            "moves_remaining": len(approved.moves) - len(everything),
            "bytes_remaining": sum(move.bytes_to_copy for move in without(approved, everything).moves),
            "scores": _scores(folder, approved, everything, view),
        },
        source_digest=approved.digest,
    )
    return everything


def _scores(
    folder: RunFolder, approved: Candidate, left_out: Sequence[LeftOut], view: ClusterView
) -> dict[str, dict[str, dict[str, float]]]:
    """By planning's own scorer: all of the plan, and what remains of it beside the partitions as they are now."""
    # Here, since the triggerer reads what was left out and scores nothing: 10 MB of modules.
    from kafka_rebalance.planning.evenness.scores import scores_with
    from kafka_rebalance.planning.tables.read_problem import read_problem

    settings = Settings.from_mapping(json_files.read_json(folder, json_files.SETTINGS))
    problem = read_problem(folder / json_files.SNAPSHOT_FOLDER, settings)
    planned = {move.topic_partition: move.after for move in approved.moves}
    kept = {move.topic_partition: move.after for move in without(approved, left_out).moves}
    now = {
        one.topic_partition: view.partitions[one.topic_partition].replicas
        for one in left_out
        if one.topic_partition in view.partitions
    }
    return {
        name: {metric: dataclasses.asdict(score) for metric, score in scores_with(problem, lists).items()}
        for name, lists in (("approved", planned), ("remaining", kept | now))
    }


def check_left_out(left_out: Sequence[LeftOut]) -> tuple[Check, ...]:
    """The verification's results about what was left out: a warning each, with the reason."""
    return tuple(
        Check(
            CheckName.LEFT_OUT,
            str(one.topic_partition),
            "moved as approved, or left out because it was no longer as approved",
            f"left out on purpose: {'; '.join(one.why)}",
            True,
            "warning",
        )
        for one in left_out
    )


def _unusable(folder: RunFolder, why: str) -> ArtifactError:
    return ArtifactError(
        f"{folder / json_files.LEFT_OUT} {why}. Nothing was written to the cluster. Start a new Dag run."
    )
