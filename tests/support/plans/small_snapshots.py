"""Snapshots for the planner, written out as replica lists: `[[1, 2, 3], [2, 3, 1]]`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kafka_rebalance.documents.verdict import Measured
from kafka_rebalance.model.candidate import Candidate
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.candidates import propose
from kafka_rebalance.planning.describe.described_candidate import DescribedCandidate
from kafka_rebalance.planning.planner import prepare
from kafka_rebalance.planning.problem.arrays import Problem
from kafka_rebalance.planning.tables.read_problem import write_snapshot

Rows = list[dict[str, Any]]


def broker_rows(ids: Iterable[int], racks: Mapping[int, str] | None = None, **columns: Mapping[int, Any]) -> Rows:
    """One row a broker; `columns` are {column: {broker: value}}."""
    return [
        {"broker": broker, "rack": (racks or {}).get(broker)}
        | {column: values[broker] for column, values in columns.items() if broker in values}
        for broker in ids
    ]


def partition_rows(
    lists: Sequence[Sequence[int]], *, topic: str = "orders", size: int = 1000, **columns: Sequence[Any]
) -> Rows:
    """One row a partition, numbered from 0; `columns` are {column: values by partition}."""
    return [
        {"topic": topic, "partition": number, "replicas": list(replicas), "size_bytes": size}
        | {column: values[number] for column, values in columns.items()}
        for number, replicas in enumerate(lists)
    ]


def problem_of(brokers: Rows, partitions: Rows, **settings: Any) -> Problem:
    """The problem as it is read from written tables, checked."""
    with tempfile.TemporaryDirectory() as folder:
        write_snapshot(Path(folder), brokers, partitions)
        return prepare(Path(folder), Settings.from_mapping(settings))


def with_growth(problem: Problem, by_day: NDArray[np.float64]) -> Problem:
    """The problem, where the replicas of each partition grow by so many bytes a day."""
    return replace(problem, rates=replace(problem.rates, growth_bytes_per_day=by_day, knows_growth=True))


def plan_of(brokers: Rows, partitions: Rows, name: str = "balanced", **settings: Any) -> DescribedCandidate:
    return propose(problem_of(brokers, partitions, **settings), name)


def as_written(plan: DescribedCandidate) -> Candidate:
    """The candidate as the run's files have it, with its notes in words."""
    return replace(plan.candidate, note=plan.note)


def lists_after(plan: DescribedCandidate, partitions: Rows) -> dict[tuple[str, int], tuple[int, ...]]:
    """Every partition's list once the plan has run."""
    lists = {(row["topic"], row["partition"]): tuple(row["replicas"]) for row in partitions}
    return lists | {
        (move.topic_partition.topic, move.topic_partition.partition): move.after for move in plan.candidate.moves
    }


def figures(limit: float, rack_violations: int = 0, **skew: float) -> Measured:
    """What a nightly check has measured."""
    return Measured(
        imbalance=max(skew.values(), default=0.0), skew=skew, rack_violations=rack_violations, limit=limit, text=""
    )
