"""left_out.json: approved moves that are not made, because their partitions are no longer as approved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_rebalance.documents.candidate_figures import Score
from kafka_rebalance.documents.json_files import LEFT_OUT, JsonFile, Time, omitted
from kafka_rebalance.model.partition import TopicPartition


@dataclass(frozen=True, slots=True)
class LeftOut:
    topic: str
    partition: int
    batch: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    bytes: int
    why: tuple[str, ...]
    at: Time

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class LeftOutMoves:
    """All moves that are left out. `scores`: of the approved plan and of what remains, by metric."""

    partitions: tuple[LeftOut, ...]
    scores: Mapping[str, Mapping[str, Score]]
    source_digest: str | None = omitted()  # of the approved candidate


LEFT_OUT_FILE = JsonFile(LEFT_OUT, LeftOutMoves)
