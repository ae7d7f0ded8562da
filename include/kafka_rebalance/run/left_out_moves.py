"""Approved moves that the run does not make: their partitions have changed, and the policy lets the run leave them out.

A move that was left out once stays in left_out.json, whatever a retry finds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from kafka_rebalance import clock
from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.candidate_figures import Score
from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.model.candidate import Candidate
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.tables.result_tables import read_candidate
from kafka_rebalance.run.check_result import Check, CheckName
from kafka_rebalance.run.checks.drift import MoveDrift
from kafka_rebalance.run.left_out import LEFT_OUT_FILE, LeftOut, LeftOutMoves
from kafka_rebalance.run.run_folder import RunFolder


def read_left_out(folder: RunFolder, candidate: Candidate) -> tuple[LeftOut, ...]:
    """The moves left out of this candidate so far. Raises ArtifactError if the file is of another candidate."""
    found = LEFT_OUT_FILE.read_if_there(folder)
    if found is None:
        return ()
    strange = {one.topic_partition for one in found.partitions} - {move.topic_partition for move in candidate.moves}
    if found.source_digest != candidate.digest or strange:
        raise ArtifactError(
            f"{folder / json_files.LEFT_OUT} is not of the approved candidate {candidate.name}. Start a new Dag run."
        )
    return found.partitions


def read_remaining(folder: RunFolder, name: str) -> Candidate:
    """The candidate without the moves left out: what the run follows, throttles and verifies."""
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
    """Notes that these are left out from now on, and the scores of what remains; returns all that are left out."""
    now = clock.utc_now().replace(microsecond=0)
    moves = {move.topic_partition: move for move in approved.moves}
    more = [
        LeftOut(
            *name, moves[name].batch, moves[name].before, moves[name].after, moves[name].bytes_to_copy,
            tuple(map(str, one.why)), now,
        )
        for one in found for name in [one.move.topic_partition]
    ]  # fmt: skip
    everything = (*so_far, *more)
    remaining = LeftOutMoves(everything, _scores(folder, approved, everything, view))
    LEFT_OUT_FILE.write(folder, remaining, source_digest=approved.digest)
    return everything


def _scores(
    folder: RunFolder, approved: Candidate, left_out: Sequence[LeftOut], view: ClusterView
) -> Mapping[str, Mapping[str, Score]]:
    # Imported here: 10 MB of modules that the triggerer, which reads left_out.json, does not need.
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
    return {"approved": scores_with(problem, planned), "remaining": scores_with(problem, kept | now)}


def check_left_out(left_out: Sequence[LeftOut]) -> tuple[Check, ...]:
    """The verification's results: a warning for each, with the reason."""
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
