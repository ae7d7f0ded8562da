"""What pages say of one candidate's tables: its brokers, a summary of its moves, and its fullest disks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kafka_rebalance.model.proposal import Move
from kafka_rebalance.report.brokers import broker_changes
from kafka_rebalance.report.moves import MovesSummary
from kafka_rebalance.report.values import BrokerChange


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
        moves: MovesSummary | Sequence[Move],
        disks: Sequence[Mapping[str, object]],
        peaks: Mapping[int, int] | None = None,
    ) -> CandidateTables:
        """From rows of the tables `loads` and `disk`; `peaks` are each broker's bytes at most. Raises ArtifactError."""
        summary = moves if isinstance(moves, MovesSummary) else MovesSummary.of(moves)
        return cls(broker_changes(candidate, loads, peaks), summary, tuple(disks))
