"""What snapshot.json and verdict.json say of the controller: who, since when, whether it is settled, what is queued."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

from kafka_rebalance.model.cluster_view import ClusterView, SettledController

NAMES_SHOWN = 10  # of each queue; the rest is counted


def controller_document(view: ClusterView, settled: SettledController) -> dict[str, Any] | None:
    """The controller as the view has it, with the two epochs by which it was found settled before.

    `host` is None where its listeners name none, `since` where the znode has no time. None: there is no controller.
    """
    controller = view.controller
    if controller is None:
        return None
    registration = view.brokers.get(controller.broker)
    hosts = [endpoint.host for endpoint in registration.endpoints if endpoint.host] if registration else []
    since = controller.since_ms
    return {
        "broker": controller.broker,
        "host": hosts[0] if hosts else None,
        "since": None if since is None else datetime.fromtimestamp(since / 1000, UTC).isoformat(timespec="seconds"),
        "epoch": controller.epoch,
        "kraft_epoch": controller.kraft_epoch,
        "epochs_read": list(settled.epochs),
        "queued": {
            "reassignments": _queue([str(tp) for tp in sorted(view.moving)]),
            "elections": _queue([str(tp) for tp in sorted(view.elections or ())]),
            "deletions": _queue(sorted(view.deletions)),
        },
    }


def _queue(names: Collection[str]) -> dict[str, Any]:
    return {"count": len(names), "first": list(names)[:NAMES_SHOWN]}
