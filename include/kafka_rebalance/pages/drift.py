"""What has changed in the cluster since the snapshot. The run checks the same again before its first write."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class CandidateDrift:
    """One candidate's moves, compared with the cluster. `conflicts` and `changes` hold the first few, in words."""

    name: str
    unchanged: int
    harmless: int
    conflicting: int
    conflicts: tuple[str, ...]
    changes: tuple[str, ...]  # harmless ones


@dataclass(frozen=True, slots=True)
class DriftReport:
    """The cluster at `read_at`. `in_the_way`: what would stop the first write now, for any moves."""

    observed_at: datetime  # the snapshot
    read_at: datetime
    candidates: tuple[CandidateDrift, ...]
    in_the_way: tuple[str, ...]
    states_read: bool  # False: too many partitions, so leaders and in-sync replicas were not read
    aside: tuple[str, ...] = ()  # offered candidates that were not compared: all together have too many moves

    @property
    def age_seconds(self) -> float:
        """How old the snapshot was when the cluster was read."""
        return (self.read_at - self.observed_at).total_seconds()
