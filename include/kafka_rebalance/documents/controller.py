"""What snapshot.json and verdict.json say of the controller: who, since when, whether it is settled, what is queued."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime

from kafka_rebalance.documents.json_files import Time
from kafka_rebalance.model.cluster_view import ClusterView, SettledController

NAMES_SHOWN = 10  # of each queue; the rest is counted


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
    """The controller when the snapshot was taken; `epochs_read` are the two by which it was found settled.

    `host` is None where its listeners name none, `since` where the znode has no time.
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
        """Between the two reads."""
        return self.epochs_read[1] - self.epochs_read[0]


def controller_document(view: ClusterView, settled: SettledController) -> ControllerFound | None:
    """The controller as the view has it, and the two epochs by which it was found settled; None: there is none."""
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
            _queue([str(tp) for tp in sorted(view.moving)]),
            _queue([str(tp) for tp in sorted(view.elections or ())]),
            _queue(sorted(view.deletions)),
        ),
    )


def _queue(names: Collection[str]) -> Queue:
    return Queue(len(names), tuple(names)[:NAMES_SHOWN])
