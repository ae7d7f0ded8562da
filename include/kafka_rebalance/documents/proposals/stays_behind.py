"""What a plan leaves on brokers that are to be emptied, and why: computed by the planner, told before the approval."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Reason(StrEnum):
    """Why replicas stay on a broker that is to be emptied."""

    NOT_SELECTED = "not_selected"  # `topics_in` and `topics_out` of the run, or of the policy, keep the topic out
    INTERNAL = "internal"  # a topic of Kafka's own, and `internal_topics` is not ticked
    PINNED = "pinned"  # `pinned_topics`
    ONLY_REORDERED = "only_reordered"  # the candidate changes no list's brokers
    NOT_MOVED = "not_moved"  # the candidate could have moved it, and does not


@dataclass(frozen=True, slots=True)
class StaysBehind:
    """Replicas on one broker that stay for one reason."""

    broker: int
    reason: Reason
    replicas: int
    size_bytes: int
    topics: tuple[str, ...]  # the first by name
    topic_count: int

    def to_mapping(self) -> dict[str, Any]:
        """An entry of `stays_behind` of a candidate in proposals.json."""
        return {
            "broker": self.broker,
            "reason": self.reason.value,
            "replicas": self.replicas,
            "size_bytes": self.size_bytes,
            "topics": list(self.topics),
            "topic_count": self.topic_count,
        }
