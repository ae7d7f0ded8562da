"""`disks` of verdict.json: how full the disks of a cluster are, and which is full first."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_rebalance.documents.json_files import omitted
from kafka_rebalance.documents.proposals import FirstFull, FullestDisk


@dataclass(frozen=True, slots=True)
class FullestLogDir:
    broker: int
    path: str
    used_bytes: int
    total_bytes: int

    @property
    def used_share(self) -> float:
        return self.used_bytes / self.total_bytes


@dataclass(frozen=True, slots=True)
class Disks:
    """`first_full` None: with `growth_is_known` no disk fills up; else the ledger has too few samples to tell."""

    fullest: FullestDisk | None = None  # by all log dirs of a broker together; None: no size is known
    first_full: FirstFull | None = None
    growth_is_known: bool = False
    fullest_log_dir: FullestLogDir | None = omitted()  # None: no broker tells the sizes of several

    @property
    def worst(self) -> FullestDisk | FullestLogDir | None:
        """The log dir if it is fuller than every disk as a whole, else the fullest disk."""
        known = [one for one in (self.fullest, self.fullest_log_dir) if one is not None]
        return max(known, key=lambda one: one.used_share, default=None)  # the first of equals
