"""proposals.json: the candidates of a run, which one is recommended, and what is wrong with the cluster.

Bytes and seconds throughout. A key with a default is one that some version, or a candidate that is not possible, lacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka_rebalance.documents.json_files import PROPOSALS, JsonFile, omitted
from kafka_rebalance.documents.proposals.candidate_figures import (
    FurtherRuns,
    HeldUp,
    LessEven,
    MoveGroup,
    Scores,
    StaysBehind,
    Timetable,
    WayBack,
    WorstCase,
)
from kafka_rebalance.documents.proposals.diagnosis import Diagnosis
from kafka_rebalance.documents.proposals.history_used import HistoryUsed
from kafka_rebalance.documents.proposals.log_dir_peaks import LogDirPeaks
from kafka_rebalance.documents.proposals.recommendation import Recommendation

NOT_ESTIMATED = FurtherRuns(0, 0)


@dataclass(frozen=True, slots=True)
class ProposedCandidate:
    """One candidate, without its moves and tables."""

    name: str
    digest: str
    status: str
    moved_bytes: int
    moved_replicas: int
    leader_changes: int
    batches: int
    scores: Scores
    note: str = ""
    moved_bytes_bound: int | None = None
    cross_rack_bytes: int | None = None
    rack_violations: int | None = None
    crowded_replicas_before: int | None = None  # of a topic, beyond its even spread and one
    crowded_replicas: int | None = None
    makespan_seconds: float | None = None  # copying alone, at the throttle
    makespan_bound_seconds: float | None = None  # likewise; no plan copies for less
    peak_disk_fraction: float | None = None
    controller_bytes: int | None = None  # of znodes that the controller rewrites for one batch, at most
    less_even: LessEven | None = None
    rack_limits: tuple[str, ...] = ()  # how even the racks let brokers be
    groups: tuple[MoveGroup, ...] = ()
    worst_case: WorstCase | None = omitted()
    way_back: WayBack | None = omitted()
    held_up: HeldUp | None = omitted()
    log_dirs: LogDirPeaks | None = omitted()
    timetable: Timetable | None = omitted()
    further_runs: FurtherRuns | None = omitted(NOT_ESTIMATED)  # None: no limit on bytes stops it short of the tolerance
    stays_behind: tuple[StaysBehind, ...] | None = omitted()
    is_proven: bool = omitted(False)  # that no plan of its kind copies fewer bytes, to a thousandth


@dataclass(frozen=True, slots=True)
class Proposals:
    snapshot_digest: str
    settings: Mapping[str, Any]  # as they are part of each digest
    recommended: str | None
    candidates: tuple[ProposedCandidate, ...]
    ranking: tuple[str, ...] = ()  # candidates, in the order in which they are offered
    recommendation: Recommendation | None = None
    outlook: Diagnosis | None = None
    history: HistoryUsed | None = omitted()  # None: planned without the ledger's samples


PROPOSALS_FILE = JsonFile(PROPOSALS, Proposals)
