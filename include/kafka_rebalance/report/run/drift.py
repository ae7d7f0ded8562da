"""What has changed in the cluster since the snapshot, as values: read now, and read again before the first write."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class CandidateDrift:
    """One candidate's moves held against the cluster. `conflicts` and `changes` are named, the first ones."""

    name: str
    unchanged: int
    harmless: int
    conflicting: int
    conflicts: tuple[str, ...]
    changes: tuple[str, ...]  # that do no harm


@dataclass(frozen=True, slots=True)
class DriftReport:
    """The cluster at `read_at`. `in_the_way`: what would stop the first write now, whatever the moves."""

    observed_at: datetime  # the snapshot
    read_at: datetime
    candidates: tuple[CandidateDrift, ...]
    in_the_way: tuple[str, ...]
    states_read: bool  # False: so many partitions that leaders and in-sync replicas were not read
    aside: tuple[str, ...] = ()  # candidates that are offered too, and were not compared: these are many moves already

    @property
    def age_seconds(self) -> float:
        """Of the snapshot, when the cluster was read."""
        return (self.read_at - self.observed_at).total_seconds()
