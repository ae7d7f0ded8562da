"""What pages say of one candidate's tables: its brokers, a summary of its moves, and its fullest disks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.report.candidate.broker_loads import BrokerChange, Load, broker_changes

LARGEST_MOVES = 500  # kept of each candidate: what the self-contained file lists


@dataclass(frozen=True, slots=True)
class MovesSummary:
    """Of all moves of a candidate."""

    partitions: int
    most_partitions_in_a_batch: int
    most_leader_changes_in_a_batch: int
    largest: tuple[Move, ...]  # by bytes to copy, LARGEST_MOVES at most


@dataclass(frozen=True, slots=True)
class CandidateTables:
    """Of a plan that stays as it is, so that it can be read once for many pages."""

    brokers: tuple[BrokerChange, ...]
    moves: MovesSummary
    disks: tuple[Mapping[str, object], ...]  # rows of the table `disk`, of the brokers that get fullest

    @classmethod
    def of(
        cls,
        candidate: str,
        loads: Iterable[Mapping[str, object]],
        moves: MovesSummary,
        disks: Sequence[Mapping[str, object]],
        peaks: Mapping[int, int] | None = None,
    ) -> CandidateTables:
        """From rows of the tables `loads` and `disk`; `peaks` are each broker's bytes at most. Raises ArtifactError."""
        return cls(broker_changes(candidate, loads, peaks), moves, tuple(disks))

    def to_mapping(self) -> dict[str, Any]:
        """As JSON has it; `from_mapping` gives the same back."""
        moves = self.moves
        return {
            "brokers": [astuple(broker) for broker in self.brokers],
            "disks": [dict(row) for row in self.disks],
            "partitions": moves.partitions,
            "most_partitions_in_a_batch": moves.most_partitions_in_a_batch,
            "most_leader_changes_in_a_batch": moves.most_leader_changes_in_a_batch,
            "largest_moves": [
                (*move.topic_partition, move.before, move.after, move.size_bytes, move.batch, move.reason, move.leader)
                for move in moves.largest
            ],
        }

    @classmethod
    def from_mapping(cls, written: Mapping[str, Any], where: str) -> CandidateTables:
        """Raises ArtifactError where it is not what `to_mapping` gives."""
        try:
            brokers = tuple(
                BrokerChange(
                    _int(broker), None if rack is None else str(rack), _int_or_none(capacity), _load(before),
                    _load(after), _int_or_none(peak), _rate(nic_in), _rate(nic_out),
                )
                for broker, rack, capacity, before, after, peak, nic_in, nic_out in written["brokers"]
            )  # fmt: skip
            largest = tuple(
                Move(
                    TopicPartition(str(topic), _int(partition)), tuple(map(_int, before)), tuple(map(_int, after)),
                    _int(size), _int(batch), str(reason or ""), *map(_int, leader),
                )
                for topic, partition, before, after, size, batch, reason, *leader in written["largest_moves"]
            )  # fmt: skip
            moves = MovesSummary(
                _int(written["partitions"]),
                _int(written["most_partitions_in_a_batch"]),
                _int(written["most_leader_changes_in_a_batch"]),
                largest,
            )
            return cls(brokers, moves, tuple(written["disks"]))
        except (KeyError, TypeError, ValueError) as wrong:
            raise ArtifactError(f"{where} is not what was written for the page ({wrong!r}).") from wrong


NO_TABLES = CandidateTables((), MovesSummary(0, 0, 0, ()), ())


def _load(values: Sequence[Any]) -> Load:
    replicas, leaders, size, rate_in, rate_out = values
    return Load(_int(replicas), _int(leaders), _int(size), _rate(rate_in), _rate(rate_out))


def _rate(value: Any) -> float | None:
    return None if value is None else float(value)


def _int(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is not an integer")
    return value


def _int_or_none(value: Any) -> int | None:
    return None if value is None else _int(value)
