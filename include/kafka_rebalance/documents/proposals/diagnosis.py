"""`outlook` of proposals.json: what is uneven in the snapshot, and what the cluster will come to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BrokerShare:
    """A broker's load as a multiple of its share; None: it has a load, but its share is zero."""

    broker: int
    share: float | None


@dataclass(frozen=True, slots=True)
class Off:
    """How many brokers are outside the band, in one metric."""

    metric: str
    above: int
    below: int
    highest: BrokerShare
    lowest: BrokerShare


@dataclass(frozen=True, slots=True)
class FullestDisk:
    broker: int
    used_bytes: int
    capacity_bytes: int


@dataclass(frozen=True, slots=True)
class FirstFull:
    """The disk that is full first, if its partitions keep growing as before."""

    broker: int
    days: float
    growth_bytes_per_day: int


@dataclass(frozen=True, slots=True)
class Leaving:
    """The brokers that the job should empty, and what they hold."""

    brokers: tuple[int, ...]
    replicas: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The cluster before the plan. None: unknown, or there is none."""

    tolerance: float
    off: tuple[Off, ...]  # one for each known metric
    rack_violations: int
    fullest_disk: FullestDisk | None
    first_full: FirstFull | None
    leaving: Leaving | None
