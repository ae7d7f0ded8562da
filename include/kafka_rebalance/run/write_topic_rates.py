"""What the connection's metrics server measured, beside the snapshot's tables. A server that is away stops no run."""

from __future__ import annotations

import logging
from collections.abc import Collection
from datetime import datetime

from kafka_rebalance.documents.storage import Folder
from kafka_rebalance.errors import ReadError
from kafka_rebalance.metrics_server.hourly_rates import read_hourly_rates
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.planning.tables import topic_rates
from kafka_rebalance.planning.tables.sample_aggregates import DAYS

log = logging.getLogger(__name__)


def write_topic_rates(
    connection: ClusterConnection, topics: Collection[str], snapshot_folder: Folder, now: datetime
) -> bool:
    """Writes `topic_rates.parquet`, also if the server cannot be read: then with the reason. False: it cannot be read.

    Writes nothing if the connection names no server.
    """
    if connection.metrics is None:
        return True
    try:
        found = read_hourly_rates(connection.metrics, topics, now, DAYS)
    except ReadError as unread:
        log.warning("%s: the plan uses the ledger's samples alone. %s", connection.connection_id, unread)
        topic_rates.write_unread(snapshot_folder, str(unread))
        return False
    topic_rates.write_topic_rates(snapshot_folder, found)
    log.info(
        "%s: the metrics server gives the bytes in of %d of %d topics. Left out: %s",
        *(connection.connection_id, len(found.topics), len(topics), found.left_out),
    )
    return True
