"""Whether another controller would clear a reassignment request that does not end, and what is approved for it.

From 2.4 on, a controller loses sight of a request if its topics are deleted meanwhile, or if somebody has deleted or
set that znode by hand. It also does not end a move that it believes to be copying still: it has lost ZooKeeper's answer
to its write of the ISR (seen on 3.9.2 when ZooKeeper restarts). The next controller reads everything anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.model.cluster_view import ClusterView, Controller
from kafka_rebalance.model.digests import digest_of
from kafka_rebalance.model.finding import Finding, some
from kafka_rebalance.model.partition import PartitionView, TopicPartition

_FIGURES = ("broker", "epoch", "controller_czxid", "request_czxid")


def another_controller(now: Controller | None = None) -> str:
    """How to get one, and what it does. `now`: the present one."""
    which = "" if now is None else f" (broker {now.broker})"
    return (
        f"Restart the broker that is controller{which}, or start kafka_rebalance_cancel with action elect_controller, "
        "which an approver confirms. The next controller reads the request anew"
    )


class EntryState(StrEnum):
    GONE = "gone"  # it does not exist any more
    MADE_AGAIN = "made_again"  # its topic was made after the request
    ENDED = "ended"  # in place and in sync: nothing is left to do
    UNHEARD = "unheard"  # the controller has done nothing for it
    IN_SYNC = "in_sync"  # every copy has caught up, and the controller has not ended the move
    MOVING = "moving"  # the controller works on it, or copies go on


def entry_states(view: ClusterView) -> dict[TopicPartition, EntryState]:
    """The state of every partition that is requested; `view` must have the topics that the request names."""
    return {tp: _state(tp, replicas, view) for tp, replicas in (view.reassignments or {}).items()}


def _state(tp: TopicPartition, target: tuple[int, ...], view: ClusterView) -> EntryState:
    partition = view.partitions.get(tp)
    if partition is None:
        return EntryState.GONE
    if tp in view.requested_again:
        return EntryState.MADE_AGAIN
    if partition.in_motion or _is_interim(partition, target):
        return EntryState.IN_SYNC if set(target) <= set(partition.isr) else EntryState.MOVING
    if partition.replicas != target:
        return EntryState.UNHEARD
    return EntryState.ENDED if set(partition.isr) == set(target) else EntryState.MOVING


def _is_interim(partition: PartitionView, target: tuple[int, ...]) -> bool:
    """Below 2.4 only the union of both lists marks a move. A move that only removes replicas looks so at once."""
    return not partition.marks_moves and set(target) < set(partition.replicas)


def request_of_what_is_gone(view: ClusterView) -> Finding | None:
    """The finding about a request all of whose topics were deleted: from 2.4 on, the controller never ends it.

    None if nothing is requested, or any partition of the request is still there.
    """
    targets = view.reassignments
    if not targets or not view.requested_gone >= targets.keys():
        return None
    again = [f"{tp} to {list(targets[tp])}" for tp in sorted(view.requested_again)]
    moved = f". It moves the new partitions of the topics that were made again: {some(again)}" if again else ""
    return Finding(
        "/admin/reassign_partitions",
        f"it asks only for partitions that are gone, or whose topic was made again ({some(sorted(targets))}): "
        "nothing moves, and the request does not end by itself",
        f"{another_controller(view.controller)} and drops what is gone{moved}. Do not delete the znode: the controller "
        "would not notice any later request",
    )


@dataclass(frozen=True, slots=True)
class ElectionPlan:
    """The election as it is shown and approved: for exactly this controller and exactly this request."""

    cluster_id: str
    broker: int  # the controller
    epoch: int
    controller_czxid: int
    request_czxid: int
    requested: Mapping[TopicPartition, tuple[tuple[int, ...], EntryState]]
    holder: str  # who holds the cluster's lock; empty: nobody

    @property
    def digest(self) -> str:
        return digest_of(self.to_mapping())

    @property
    def consent(self) -> str:
        """The sentence that a person has to repeat word for word."""
        return (
            f"delete /controller of cluster {self.cluster_id} (broker {self.broker}, epoch {self.epoch}) to carry out "
            f"{self.digest[:8]}"
        )

    def is_of(self, view: ClusterView) -> bool:
        """Whether the controller is still the one that was shown."""
        controller = view.controller
        return controller is not None and (controller.broker, controller.epoch) == (self.broker, self.epoch)

    def to_mapping(self) -> dict[str, Any]:
        """Plain JSON values: what the digest is taken of."""
        return {
            "cluster_id": self.cluster_id,
            **{name: getattr(self, name) for name in _FIGURES},
            "requested": [
                [*tp, list(replicas), str(state)] for tp, (replicas, state) in sorted(self.requested.items())
            ],
            "holder": self.holder,
        }

    @classmethod
    def from_mapping(cls, document: Mapping[str, Any]) -> Self:
        """Raises ArtifactError."""
        try:
            requested = {
                TopicPartition(topic, partition): (tuple(replicas), EntryState(state))
                for topic, partition, replicas, state in document["requested"]
            }
            figures = {name: int(document[name]) for name in _FIGURES}
            return cls(str(document["cluster_id"]), requested=requested, holder=str(document["holder"]), **figures)
        except (KeyError, TypeError, ValueError) as bad:
            raise ArtifactError(
                f"The plan of the controller election cannot be read ({type(bad).__name__}: {bad}). "
                "Start a new run of kafka_rebalance_cancel."
            ) from bad
