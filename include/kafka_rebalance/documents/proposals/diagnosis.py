"""What is off in the snapshot, and where the cluster is heading: `outlook` of proposals.json."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BrokerShare:
    """A broker's multiple of its fair share; None: a load where none should be."""

    broker: int
    share: float | None


@dataclass(frozen=True, slots=True)
class Off:
    """How many brokers are beyond the tolerance of their share of one resource."""

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
    """The disk that is full first, if its partitions go on growing as they did."""

    broker: int
    days: float
    growth_bytes_per_day: int


@dataclass(frozen=True, slots=True)
class Leaving:
    """Brokers that are to be emptied, and what they hold."""

    brokers: tuple[int, ...]
    replicas: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The cluster before the plan. None: not known, or there is no such thing."""

    tolerance: float
    off: tuple[Off, ...]  # one for each metric that is known
    rack_violations: int
    fullest_disk: FullestDisk | None
    first_full: FirstFull | None
    leaving: Leaving | None
