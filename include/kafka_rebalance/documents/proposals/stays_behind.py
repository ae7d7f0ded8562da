"""What a plan leaves on brokers that are to be emptied, and why: computed by the planner, told before the approval."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
