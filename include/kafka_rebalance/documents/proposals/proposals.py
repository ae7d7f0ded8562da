"""proposals.json: the candidates of a run, the recommended one, and what is wrong with the cluster.

All figures are in bytes and seconds. Older versions, or infeasible candidates, lack the keys that have a default.
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
    """One candidate without its moves and tables."""

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
    crowded_replicas_before: int | None = None  # replicas of a topic beyond its even share plus one
    crowded_replicas: int | None = None
    makespan_seconds: float | None = None  # copying alone, at the throttle
    makespan_bound_seconds: float | None = None  # likewise; no plan needs less
    peak_disk_fraction: float | None = None
    controller_bytes: int | None = None  # the most that the controller rewrites in znodes for one batch
    less_even: LessEven | None = None
    rack_limits: tuple[str, ...] = ()  # how even the brokers can be within these racks
    groups: tuple[MoveGroup, ...] = ()
    worst_case: WorstCase | None = omitted()
    way_back: WayBack | None = omitted()
    held_up: HeldUp | None = omitted()
    log_dirs: LogDirPeaks | None = omitted()
    timetable: Timetable | None = omitted()
    further_runs: FurtherRuns | None = omitted(NOT_ESTIMATED)  # None: no limit on bytes keeps it outside the tolerance
    stays_behind: tuple[StaysBehind, ...] | None = omitted()
    is_proven: bool = omitted(False)  # that no plan of its kind copies 0.1 % fewer bytes


@dataclass(frozen=True, slots=True)
class Proposals:
    snapshot_digest: str
    settings: Mapping[str, Any]  # in the form that is part of each digest
    recommended: str | None
    candidates: tuple[ProposedCandidate, ...]
    ranking: tuple[str, ...] = ()  # candidates, in the order in which people see them
    recommendation: Recommendation | None = None
    outlook: Diagnosis | None = None
    history: HistoryUsed | None = omitted()  # None: the plan did not use the ledger's samples


PROPOSALS_FILE = JsonFile(PROPOSALS, Proposals)
