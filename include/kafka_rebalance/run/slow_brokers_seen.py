"""Which brokers of a cluster are slow again and again, by the ledger's rows of runs and nightly checks."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from kafka_rebalance.documents.progress import OftenSlow
from kafka_rebalance.errors import StorageError
from kafka_rebalance.moves.slow_brokers import Judged, behind, often_slow
from kafka_rebalance.run import ledger
from kafka_rebalance.run.inputs import Deployment
from kafka_rebalance.run.snapshot_reader import Snapshot

log = logging.getLogger(__name__)

DAYS = 28.0  # older runs and checks say nothing of today's disks


def behind_now(taken: Snapshot) -> Judged:
    """The brokers that are up and have replicas out of the ISR."""
    states = [(row["replicas"], row["isr"]) for row in taken.partitions if row["isr"] is not None]
    out_of_isr = {broker for replicas, isr in states for broker in replicas if broker not in isr}
    return behind(out_of_isr, taken.view.brokers)


def slow_so_far(deployment: Deployment, connection_id: str, now: datetime, tonight: Judged) -> tuple[OftenSlow, ...]:
    """By the ledger, and this look at the cluster. A ledger that cannot be read is logged, and names nobody."""
    try:
        runs = _judged(
            ledger.read(deployment, "outcomes", connection_id, DAYS, now=now), "judged_brokers", "slow_brokers"
        )
        nights = _judged(
            ledger.read(deployment, "balance", connection_id, DAYS, now=now), "brokers_up", "brokers_behind"
        )
    except StorageError as unreadable:
        log.warning("%s: which brokers were slow cannot be read: %s", connection_id, unreadable)
        return ()
    return often_slow(runs, [tonight, *nights])


def _judged(found: ledger.Found, judged: str, slow: str) -> list[Judged]:
    """Newest first. Rows of earlier versions, and of runs that could judge nobody, do not count."""
    rows: Sequence[Mapping[str, Any]] = found.rows
    return [Judged(row[slow] or (), row[judged]) for row in rows if row[judged]]
