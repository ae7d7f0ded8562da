"""Real moves, written down as the order of what ZooKeeper came to hold: the request, the topic, the states.

Each step is a short list: `["request", {partition: replicas}]` or `["request", null]` where the znode was deleted,
`["topic", {partition: replicas}, adding, removing]`, `["state", partition, leader, leader_epoch, isr]`, and
`["controller"]` where another controller took over. Written by the test itself are the first request and, in scenarios
that say so, what `by_hand` names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.connection import ZooKeeperConnection
from kafka_rebalance.zookeeper.client import open_client
from support.waiting import wait
from support.zookeeper.zookeeper_log import Write, read_writes

REASSIGN, CONTROLLER = "/admin/reassign_partitions", "/controller"
Lists = Mapping[int, Sequence[int]]
Step = list[Any]
RATE = {"leader.replication.throttled.rate": "20000", "follower.replication.throttled.rate": "20000"}
EVERY_REPLICA = {"leader.replication.throttled.replicas": "*", "follower.replication.throttled.replicas": "*"}


class Scenario(NamedTuple):
    """One request on one topic of its own. `disturb` is done while it runs."""

    name: str
    before: Lists
    after: Lists
    disturb: str = ""  # "", "dead target", "failover", "deleted"


SCENARIOS = (
    Scenario("grow", {0: (1, 2)}, {0: (1, 2, 3)}),
    Scenario("shrink-keeping-the-leader", {0: (1, 2, 3)}, {0: (1, 3)}),
    Scenario("shrink", {0: (1, 2, 3)}, {0: (3, 2)}),
    Scenario("reorder", {0: (2, 1)}, {0: (1, 2)}),
    Scenario("same", {0: (1, 2)}, {0: (1, 2)}),
    Scenario("replace-one", {0: (1, 2)}, {0: (2, 3)}),
    Scenario("replace-all", {0: (1, 2)}, {0: (3, 4)}),
    Scenario("two-partitions", {0: (1, 2), 1: (3, 2)}, {0: (2, 3), 1: (2, 3)}),
    Scenario("unknown-partition", {0: (1, 2)}, {0: (1, 3), 7: (1, 2)}),
    Scenario("dead-target", {0: (1, 2)}, {0: (1, 4)}, "dead target"),
    Scenario("failover", {0: (1, 2), 1: (2, 1)}, {0: (3, 4), 1: (1, 2)}, "failover"),
    Scenario("deleted", {0: (1, 2)}, {0: (2, 3)}, "deleted"),
)


def record_move(cluster: LocalCluster, scenario: Scenario, topic: str) -> dict[str, Any]:
    """Runs it on a cluster of four brokers and returns what was written, in its order, with what was asked."""
    slow = scenario.disturb in {"failover", "deleted"}
    cluster.create_topic(topic, scenario.before, config=EVERY_REPLICA if slow else {})
    if slow:
        cluster.produce(topic, dict.fromkeys(scenario.before, 5_000_000))
    with open_client(ZooKeeperConnection(cluster.zookeeper)) as client:
        _settle(client, topic, scenario.before)
        if slow:
            _throttle(client, cluster, True)
        if scenario.disturb == "dead target":
            cluster.stop_broker(4)
        begun = _zxid(client)
        entries = [{"topic": topic, "partition": p, "replicas": list(r)} for p, r in scenario.after.items()]
        client.create(REASSIGN, _json({"version": 1, "partitions": entries}))
        if scenario.disturb:
            wait("the move is under way", lambda: _epoch(client, topic, 0) > 0)
        if scenario.disturb == "dead target":
            cluster.start_broker(4)
        elif scenario.disturb == "failover":
            epoch = _epoch(client, topic, 0)
            client.delete(CONTROLLER)
            wait("another controller goes on", lambda: _epoch(client, topic, 0) > epoch)
        elif scenario.disturb == "deleted":
            client.delete(REASSIGN)
        if slow:
            _throttle(client, cluster, False)
        _settle(client, topic, {p: r for p, r in scenario.after.items() if p in scenario.before})
        wait("the request is gone", lambda: client.exists(REASSIGN) is None)
    writes = [write for write in read_writes(cluster.folder / "zookeeper") if write.zxid > begun]
    return {
        "name": scenario.name,
        "before": {str(p): list(r) for p, r in scenario.before.items()},
        "after": {str(p): list(r) for p, r in scenario.after.items()},
        "steps": list(_steps(writes, topic)),
    }


def _steps(writes: Sequence[Write], topic: str) -> Iterator[Step]:
    state = f"/brokers/topics/{topic}/partitions/"
    for write in writes:
        if write.path == REASSIGN:
            asked = json.loads(write.data)["partitions"] if write.call != "delete" else None
            yield ["request", None if asked is None else {str(e["partition"]): e["replicas"] for e in asked}]
        elif write.path == f"/brokers/topics/{topic}":
            document = json.loads(write.data)
            marks = (document.get(name, {}) for name in ("adding_replicas", "removing_replicas"))
            yield ["topic", document["partitions"], *marks]
        elif write.path.startswith(state) and write.path.endswith("/state"):
            now = json.loads(write.data)
            partition = int(write.path.removeprefix(state).removesuffix("/state"))
            yield ["state", partition, now["leader"], now["leader_epoch"], now["isr"]]
        elif (write.call, write.path) == ("create", CONTROLLER):
            yield ["controller"]


def _zxid(client: KazooClient) -> int:
    """Of a write that is made for it."""
    path = client.create("/recording", sequence=True)
    zxid: int = client.exists(path).czxid
    client.delete(path)
    return zxid


def _throttle(client: KazooClient, cluster: LocalCluster, on: bool) -> None:
    for broker in cluster.brokers:
        path = f"/config/brokers/{broker}"
        client.ensure_path(path)
        client.set(path, _json({"version": 1, "config": RATE if on else {}}))
        change = {"version": 2, "entity_path": f"brokers/{broker}"}
        client.create("/config/changes/config_change_", _json(change), sequence=True)


def _epoch(client: KazooClient, topic: str, partition: int) -> int:
    found: int = _read(client, f"/brokers/topics/{topic}/partitions/{partition}/state")["leader_epoch"]
    return found


def _settle(client: KazooClient, topic: str, lists: Lists) -> None:
    """Waits until the lists are these, with every replica in sync and none besides."""

    def settled() -> bool:
        with suppress(NoNodeError):
            now = _read(client, f"/brokers/topics/{topic}")
            states = {p: _read(client, f"/brokers/topics/{topic}/partitions/{p}/state") for p in lists}
            return not any(now.get(name) for name in ("adding_replicas", "removing_replicas")) and all(
                now["partitions"][str(p)] == list(r) and set(states[p]["isr"]) == set(r) for p, r in lists.items()
            )
        return False

    wait(f"{topic} is at {dict(lists)}", settled)


def _read(client: KazooClient, path: str) -> Any:
    return json.loads(client.get(path)[0])


def _json(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
