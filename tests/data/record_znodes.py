"""Records the znodes of real clusters into `znodes/<version>/`, byte for byte.

Run it from the repository's root with `PYTHONPATH=include`: `python tests/data/record_znodes.py [VERSION ...]`.
Slashes of the path become dots: `/brokers/topics/moving` is `brokers.topics.moving.json`.
"""

import json
import sys
import time
from pathlib import Path

from kazoo.client import KazooClient

from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.local_cluster.jars.locked_jars import VERSIONS
from kafka_rebalance.model.connection import ZooKeeperConnection
from kafka_rebalance.zookeeper.client import open_client

FOLDER = Path(__file__).parent / "znodes"
MOVING = "/brokers/topics/moving"
REASSIGN = "/admin/reassign_partitions"
RECORDED = (
    "/brokers/ids/1",
    "/brokers/topics/idle",
    "/brokers/topics/idle/partitions/10/state",
    MOVING,
    f"{MOVING}/partitions/0/state",
    "/cluster/id",
    "/config/brokers/1",
    "/config/topics/idle",
    "/config/topics/moving",
    "/controller",
    "/controller_epoch",
    REASSIGN,
)
BROKER_THROTTLE = {"leader.replication.throttled.rate": "1000", "follower.replication.throttled.rate": "1000"}
TOPIC_THROTTLE = {"leader.replication.throttled.replicas": "*", "follower.replication.throttled.replicas": "*"}


def record(version: str) -> None:
    """A cluster with an idle topic of eleven partitions, and one throttled so far down that its move lasts."""
    with LocalCluster(version=version, brokers=4, racks=2) as cluster:
        cluster.create_topic(
            "idle", {partition: (1 + partition % 4, 1 + (partition + 1) % 4) for partition in range(11)}
        )
        cluster.create_topic("moving", {0: (1, 2)}, config={"segment.bytes": 1_048_576, **TOPIC_THROTTLE})
        cluster.produce("moving", {0: 1_000_000})
        with open_client(ZooKeeperConnection(cluster.zookeeper)) as client:
            for broker in cluster.brokers:
                put(client, f"/config/brokers/{broker}", {"version": 1, "config": BROKER_THROTTLE})
                notification = {"version": 2, "entity_path": f"brokers/{broker}"}
                client.create("/config/changes/config_change_", as_json(notification), sequence=True)
            entry = {"topic": "moving", "partition": 0, "replicas": [3, 4]}
            client.create(REASSIGN, as_json({"version": 1, "partitions": [entry]}))
            wait_until_taken_up(client)
            folder = FOLDER / version
            folder.mkdir(parents=True, exist_ok=True)
            for path in RECORDED:
                ending = "txt" if path == "/controller_epoch" else "json"
                (folder / f"{path[1:].replace('/', '.')}.{ending}").write_bytes(client.get(path)[0])


def as_json(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def put(client: KazooClient, path: str, document: object) -> None:
    client.ensure_path(path)
    client.set(path, as_json(document))


def wait_until_taken_up(client: KazooClient) -> None:
    give_up = time.monotonic() + 60
    while len(json.loads(client.get(MOVING)[0])["partitions"]["0"]) < 4:
        if time.monotonic() > give_up:
            raise TimeoutError(f"{MOVING} does not show the move after a minute")
        time.sleep(0.02)


if __name__ == "__main__":
    for wanted in sys.argv[1:] or VERSIONS:
        record(wanted)
        print(f"{FOLDER / wanted}: {len(RECORDED)} znodes")
