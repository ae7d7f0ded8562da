"""`disks` of verdict.json: how full the disks of a cluster are, and which is full first."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_rebalance.documents.proposals.proposals import FirstFull, FullestDisk


@dataclass(frozen=True, slots=True)
class Disks:
    """`first_full` None: with `growth_is_known` no disk fills up; else the ledger has too few samples to tell."""

    fullest: FullestDisk | None = None  # None: no size is known
    first_full: FirstFull | None = None
    growth_is_known: bool = False
