"""What Kafka and this project write, the one form of what is requested, and errors that are our own."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from kafka_rebalance.documents.throttle_lease import RateChange, ThrottleLease
from kafka_rebalance.errors import RebalanceError
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.zookeeper import znodes
from support.kafka.small_clusters import DIGEST

SEED = 20_261_121
INT_MAX = 2**31 - 1
REQUEST = re.compile(
    rb'\{"version":1,"partitions":\[(\{"topic":"[a-zA-Z0-9._-]{1,249}","partition":[0-9]{1,10},'
    rb'"replicas":\[[0-9]{1,10}(,[0-9]{1,10})*\]\},?)+\]\}'
)
ELECTION = re.compile(
    rb'\{"version":1,"partitions":\[(\{"topic":"[a-zA-Z0-9._-]{1,249}","partition":[0-9]{1,10}\},?)+\]\}'
)

ENTRY = {"topic": "orders", "partition": 0, "replicas": [1, 2, 3]}
PLAN = {"version": 1, "partitions": [ENTRY, {**ENTRY, "partition": 1, "log_dirs": ["any", "any", "any"]}]}
REASSIGNMENT = {"version": 1, "partitions": [ENTRY, {**ENTRY, "partition": 1}]}
TOPICS = {"version": 1, "topics": [{"topic": "orders"}, {"topic": "audit"}]}
TOPIC = {
    "version": 3,
    "topic_id": "orders0000000000000000",
    "partitions": {"0": [1, 2], "1": [2, 3, 1]},
    "adding_replicas": {"1": [3]},
    "removing_replicas": {"1": [1]},
}
STATE = {"version": 1, "leader": 1, "leader_epoch": 4, "controller_epoch": 2, "isr": [1, 2]}
BROKER = {
    "version": 5,
    "host": "b1",
    "port": 9092,
    "jmx_port": -1,
    "timestamp": "1529210278988",
    "endpoints": ["PLAINTEXT://b1:9092", "SSL://[::1]:9093"],
    "rack": "r1",
    "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT", "SSL": "SSL"},
    "features": {},
}
CONTROLLER = {"version": 2, "brokerid": 1, "timestamp": "1529210278988", "kraftControllerEpoch": -1}
CLUSTER = {"version": "1", "id": "bXktY2x1c3Rlci1pZC0wMQ"}
CONFIG = {"version": 1, "config": {"retention.ms": "1000", "leader.replication.throttled.replicas": "0:1,1:2"}}
OWNER = {"version": 1, "run": "kafka_rebalance/one", "digest": DIGEST, "owner": "http://airflow", "acquired_at": "now"}
SETTINGS = {**Settings(job="drain", drain=(1,), max_bytes=5).to_mapping(), "replace": {"7": 8}, "format_version": 1}
POLICY = Policy.from_mapping({"approvers": ["uma", {"id": "7", "name": "vera"}], "brokers_out": [3]}, "").to_mapping()
RATES = {"leader.replication.throttled.rate": "1000", "follower.replication.throttled.rate": "1000"}
LISTS = {"leader.replication.throttled.replicas": "0:1,0:2", "follower.replication.throttled.replicas": "0:3"}
LEASE = ThrottleLease(
    "kafka_rebalance/one",
    DIGEST,
    1000,
    {"topics/orders": LISTS, "brokers/1": RATES},
    {
        "topics/orders": dict(zip(LISTS, ("5:1", None), strict=True)),
        "brokers/1": {"leader.replication.throttled.rate": None, "follower.replication.throttled.rate": "77"},
    },
    cluster_id="bXktY2x1c3Rlci1pZC0wMQ",
    first_bytes_per_second=2000,
    rate_changes=(RateChange(1000, "uma", "2026-11-21T00:00:00+00:00"),),
).to_mapping()  # fmt: skip


class Refused(Exception):
    """One of our own errors, as it must be."""


def use(act: Callable[[], Any]) -> Any:
    """The result; our own errors as `Refused`, every other as it is, and so the end of the test."""
    try:
        return act()
    except RebalanceError as own:
        if not str(own):
            raise AssertionError("an error without a word") from own
        raise Refused from own


def check_request(assignment: Mapping[TopicPartition, Any]) -> None:
    """What the encoder takes is exactly what a controller can read, and says what was asked."""
    data = znodes.encode_reassignment(assignment)
    assert REQUEST.fullmatch(data), data
    entries = json.loads(data)["partitions"]
    assert {(e["topic"], e["partition"]): tuple(e["replicas"]) for e in entries} == {
        tuple(key): tuple(replicas) for key, replicas in assignment.items()
    }
    assert all(len(set(e["replicas"])) == len(e["replicas"]) for e in entries)
    assert all(value <= INT_MAX for e in entries for value in (e["partition"], *e["replicas"]))


def check_election(data: bytes) -> None:
    found = znodes.decode_election(data)
    written = znodes.encode_election(found)
    assert ELECTION.fullmatch(written), written
    assert znodes.decode_election(written) == found
