"""`history` of proposals.json: where a plan has its bytes in from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_rebalance.documents.json_files import Time


@dataclass(frozen=True, slots=True)
class RatesFrom:
    """How many partitions have their bytes in from the ledger, from the snapshot, or by an estimate from others."""

    history: int
    snapshot: int
    topic: int
    cluster: int


@dataclass(frozen=True, slots=True)
class HistoryUsed:
    """How much the ledger's samples cover, how old they are, and what was estimated."""

    digest: str  # of the aggregate's file
    days: float
    samples: int
    first_at: Time | None  # None: there is no sample
    last_at: Time | None
    growth_bytes_per_day: int
    unreadable_files: int
    unreadable_first: tuple[str, ...]
    partitions: RatesFrom
    share_of_partitions: float  # that are measured
    share_of_bytes: float
    estimated_topics: int
    estimated_first: tuple[Mapping[str, str | int], ...]  # topic, partitions, and the source
    at_least: int  # compacted partitions, which may receive more
    expiring_partitions: int
    expiring_bytes: int
