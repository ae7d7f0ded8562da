"""What snapshot.json and verdict.json say of the controller: who, since when, whether settled, which requests wait."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime

from kafka_rebalance.documents.json_files import Time
from kafka_rebalance.model.cluster_view import ClusterView, SettledController
from kafka_rebalance.model.partition import TopicPartition

NAMES_SHOWN = 10  # of each queue; the rest is only counted


@dataclass(frozen=True, slots=True)
class Queue:
    """Requests of one kind that wait for the controller: how many, and the names of the first."""

    count: int
    first: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Queues:
    reassignments: Queue
    elections: Queue
    deletions: Queue


@dataclass(frozen=True, slots=True)
class ControllerFound:
    """The controller when the snapshot was taken; `epochs_read` are the epochs of the two reads that found it settled.

    `host` is None if its listeners name none, `since` if the znode has no time.
    """

    broker: int
    host: str | None
    since: Time | None
    epoch: int
    kraft_epoch: int
    epochs_read: tuple[int, int]
    queued: Queues

    @property
    def elections(self) -> int:
        """How many there were between the two reads."""
        return self.epochs_read[1] - self.epochs_read[0]


def controller_document(view: ClusterView, settled: SettledController) -> ControllerFound | None:
    """None: there is no controller."""
    controller = view.controller
    if controller is None:
        return None
    registration = view.brokers.get(controller.broker)
    hosts = [endpoint.host for endpoint in registration.endpoints if endpoint.host] if registration else []
    since = controller.since_ms
    return ControllerFound(
        controller.broker,
        hosts[0] if hosts else None,
        None if since is None else datetime.fromtimestamp(since // 1000, UTC),
        controller.epoch,
        controller.kraft_epoch,
        settled.epochs,
        Queues(
            _queue(view.moving),
            _queue(view.elections or ()),
            _queue(view.deletions),
        ),
    )


def _queue(named: Collection[TopicPartition] | Collection[str]) -> Queue:
    return Queue(len(named), tuple(map(str, sorted(named)[:NAMES_SHOWN])))
