"""The znodes of a cluster as Kafka 3 writes them, without any code of the product or of Kafka."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterator
from itertools import groupby, islice
from typing import Any

from kazoo.client import KazooClient

from bench.clusters import Cluster

TOGETHER = 400  # creates in one transaction; a request has at most 1 MB
ROOTS = (
    "/admin/delete_topics",
    "/brokers/ids",
    "/brokers/seqid",
    "/brokers/topics",
    "/cluster",
    "/config/brokers",
    "/config/changes",
    "/config/clients",
    "/config/topics",
    "/config/users",
    "/consumers",
    "/isr_change_notification",
    "/log_dir_event_notification",
)
EPOCH = 7


def write_znodes(client: KazooClient, cluster: Cluster) -> int:
    """Writes all znodes and returns their number. Brokers and controller live as long as the client's session."""
    for root in ROOTS:
        client.ensure_path(root)
    number = 0
    znodes = _znodes(cluster)
    while some := list(islice(znodes, TOGETHER)):
        transaction = client.transaction()
        for path, content, ephemeral in some:
            transaction.create(path, b"" if content is None else _json(content), ephemeral=ephemeral)
        for answer in transaction.commit():
            if isinstance(answer, Exception):
                raise answer
        number += len(some)
    return number


def _znodes(cluster: Cluster) -> Iterator[tuple[str, Any, bool]]:
    """(path, content, whether it is ephemeral); parents first."""
    yield "/cluster/id", {"version": "1", "id": _id("cluster")}, False
    yield "/controller_epoch", EPOCH, False
    first = cluster.brokers[0]["broker"]
    yield "/controller", {"version": 2, "brokerid": first, "timestamp": "1", "kraftControllerEpoch": -1}, True
    for broker in cluster.brokers:
        yield f"/brokers/ids/{broker['broker']}", _registration(broker["broker"], broker["rack"]), True
    for topic, rows in groupby(cluster.partitions, lambda row: str(row["topic"])):
        yield from _topic(topic, list(rows))


def _topic(topic: str, rows: list[dict[str, Any]]) -> Iterator[tuple[str, Any, bool]]:
    yield f"/config/topics/{topic}", {"version": 1, "config": {}}, False
    assignment = {
        "removing_replicas": {},
        "partitions": {str(row["partition"]): row["replicas"] for row in rows},
        "topic_id": _id(topic),
        "adding_replicas": {},
        "version": 3,
    }
    yield f"/brokers/topics/{topic}", assignment, False
    yield f"/brokers/topics/{topic}/partitions", None, False
    for row in rows:
        path = f"/brokers/topics/{topic}/partitions/{row['partition']}"
        yield path, None, False
        state = {
            "controller_epoch": EPOCH,
            "leader": row["replicas"][0],
            "version": 1,
            "leader_epoch": 0,
            "isr": row["replicas"],
        }
        yield f"{path}/state", state, False


def _registration(broker: int, rack: str) -> dict[str, Any]:
    host = f"broker-{broker}.example.net"
    return {
        "features": {},
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
        "endpoints": [f"PLAINTEXT://{host}:9092"],
        "jmx_port": -1,
        "port": 9092,
        "host": host,
        "version": 5,
        "timestamp": "1700000000000",
        "rack": rack,
    }


def _id(name: str) -> str:
    return base64.urlsafe_b64encode(uuid.uuid5(uuid.NAMESPACE_URL, name).bytes).decode().rstrip("=")


def _json(content: Any) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()
