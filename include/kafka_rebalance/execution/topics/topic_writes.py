"""What became of a topic that was created or deleted, whichever way the cluster is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_rebalance.model.cluster_writes import Outcome


@dataclass(frozen=True, slots=True)
class Created:
    outcome: Outcome
    orphaned_config: Mapping[str, str] | None = None  # a tool's crash had left it without a topic; it was replaced


@dataclass(frozen=True, slots=True)
class Deletion:
    """How far a deletion is. It ends when assignment, config and marker of the topic are all gone."""

    marked: bool
    topic_left: bool
    config_left: bool
