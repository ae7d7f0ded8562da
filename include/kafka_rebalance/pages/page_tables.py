"""What pages show of one candidate's tables: its brokers, a summary of its moves, and its fullest disks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass

from kafka_rebalance.documents.json_files import decode
from kafka_rebalance.documents.page_tables import CandidatePage, DiskRow
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.pages.broker_loads import BrokerChange, Load, broker_changes

LARGEST_MOVES = 500  # of each candidate; the self-contained file lists them


@dataclass(frozen=True, slots=True)
class MovesSummary:
    """Of all moves of a candidate."""

    partitions: int
    most_partitions_in_a_batch: int
    most_leader_changes_in_a_batch: int
    largest: tuple[Move, ...]  # by bytes to copy, LARGEST_MOVES at most


@dataclass(frozen=True, slots=True)
class CandidateTables:
    """A plan does not change, so this is read once for many pages."""

    brokers: tuple[BrokerChange, ...]
    moves: MovesSummary
    disks: tuple[DiskRow, ...]  # of the brokers that get fullest

    @classmethod
    def of(
        cls,
        candidate: str,
        loads: Iterable[Mapping[str, object]],
        moves: MovesSummary,
        disks: Sequence[Mapping[str, object]],
        peaks: Mapping[int, int] | None = None,
    ) -> CandidateTables:
        """From rows of the tables `loads` and `disk`; `peaks` is each broker's most bytes. Raises ArtifactError."""
        fullest = decode(tuple[DiskRow, ...], disks, f"disk of {candidate}")
        return cls(broker_changes(candidate, loads, peaks), moves, fullest)

    def for_file(self, name: str, digest: str) -> CandidatePage:
        """The candidate's part of page.json, which `from_file` reads."""
        moves = self.moves
        return CandidatePage(
            name,
            digest,
            tuple(astuple(broker) for broker in self.brokers),
            self.disks,
            moves.partitions,
            moves.most_partitions_in_a_batch,
            moves.most_leader_changes_in_a_batch,
            tuple(
                (*move.topic_partition, move.before, move.after, move.size_bytes, move.batch, move.reason, move.leader)
                for move in moves.largest
            ),
        )

    @classmethod
    def from_file(cls, page: CandidatePage) -> CandidateTables:
        brokers = tuple(
            BrokerChange(broker, rack, capacity, Load(*before), Load(*after), peak, nic_in, nic_out)
            for broker, rack, capacity, before, after, peak, nic_in, nic_out in page.brokers
        )
        largest = tuple(Move(TopicPartition(*row[:2]), *row[2:]) for row in page.largest_moves)
        most = page.most_partitions_in_a_batch, page.most_leader_changes_in_a_batch
        return cls(brokers, MovesSummary(page.partitions, *most, largest), page.disks)


NO_TABLES = CandidateTables((), MovesSummary(0, 0, 0, ()), ())
