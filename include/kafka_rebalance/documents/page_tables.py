"""page.json: what the run's page shows of the plan's tables, so that it need not read them. Rows are lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from kafka_rebalance.documents.json_files import PAGE, JsonFile

# replicas, leaders, bytes, bytes a second in and out
LoadCells: TypeAlias = tuple[int, int, int, float | int | None, float | int | None]
# broker, rack, disk capacity, before, after, bytes at most, network in and out
BrokerCells: TypeAlias = tuple[
    int, str | None, int | None, LoadCells, LoadCells, int | None, float | int | None, float | int | None
]
# topic, partition, before, after, bytes, batch, reason, leader
MoveCells: TypeAlias = tuple[str, int, tuple[int, ...], tuple[int, ...], int, int, str, int]


@dataclass(frozen=True, slots=True)
class DiskRow:
    """A row of the table `disk`; batch 0 is the time before the first batch."""

    candidate: str
    batch: int
    broker: int
    peak_bytes: int
    after_bytes: int


@dataclass(frozen=True, slots=True)
class CandidatePage:
    name: str
    digest: str
    brokers: tuple[BrokerCells, ...]
    disks: tuple[DiskRow, ...]
    partitions: int
    most_partitions_in_a_batch: int
    most_leader_changes_in_a_batch: int
    largest_moves: tuple[MoveCells, ...]


@dataclass(frozen=True, slots=True)
class PageTables:
    candidates: tuple[CandidatePage, ...]


PAGE_FILE = JsonFile(PAGE, PageTables)
