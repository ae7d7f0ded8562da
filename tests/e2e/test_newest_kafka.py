"""What Kafka 4.x added, as a person meets it: through the Dags of a real Airflow, on real brokers of 4.4.0."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from demo.local_airflow import LocalAirflow
from demo.runs import DagRun, trigger, wait_for_dag
from kafka_rebalance.admin.log_dirs import read_log_dirs
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.connection import KafkaConnection
from support.kafka.consuming import consuming
from support.kafka.java.group_members import ShareMember
from support.kafka.java.kafka_classes import KafkaClasses
from support.kafka.streams_member import StreamsMember
from support.runs.watched_cluster import WatchedCluster
from support.waiting import wait

pytestmark = pytest.mark.long
VERSION, CLUSTER = "4.4.0", "kafka_newest"
DEAD, NEW, CORDONED, HALF = 5, 6, 4, 3
GROUPS = ("classics", "moderns", "sharers", "tasks")
SHARED_STATE = "__share_group_state"


@dataclass(frozen=True, slots=True)
class Newest:
    cluster: LocalCluster
    requester: httpx.Client
    approver: httpx.Client

    def replicas(self, topic: str) -> dict[int, tuple[int, ...]]:
        return WatchedCluster(self.cluster).lists(topic)

    def in_dirs(self, broker: int) -> dict[str, set[str]]:
        """The topics in each of its log dirs, by the last part of the path."""
        disks = read_log_dirs(KafkaConnection(self.cluster.bootstrap_servers), [broker])
        found: dict[str, set[str]] = {Path(one.path).name: set() for one in disks.log_dirs[broker]}
        for tp, by_broker in disks.paths.items():
            if broker in by_broker:
                found[Path(by_broker[broker]).name].add(tp.topic)
        return found


def cordon(cluster: LocalCluster, broker: int, dirs: str) -> None:
    entry = ConfigEntry("cordoned.log.dirs", dirs, incremental_operation=AlterConfigOpType.SET)
    asked = ConfigResource(ResourceType.BROKER, str(broker), incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for answer in admin.incremental_alter_configs([asked]).values():
        answer.result()
    kafka = KafkaConnection(cluster.bootstrap_servers)
    count = 2 if dirs == "*" else 1
    wait(
        f"broker {broker} is cordoned",
        lambda: sum(one.cordoned for one in read_log_dirs(kafka, [broker]).log_dirs[broker]) == count,
    )


@pytest.fixture(scope="module")
def newest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Newest]:
    """`orders` is read by groups of four types. Broker 4 is cordoned, and 3 to the half. Broker 5 is dead, and had the
    only replica of `lonely`. Broker 6 is empty.
    """
    home = tmp_path_factory.mktemp("airflow")
    dirs = {"log.dirs": "{data}/a,{data}/b"}
    with ExitStack() as stack:
        cluster = stack.enter_context(
            LocalCluster(VERSION, brokers=5, racks=0, kraft=True, controllers=1, broker_config=dirs)
        )
        cluster.create_topic(
            "orders", {number: ((1, 2), (2, DEAD), (HALF, 1), (DEAD, HALF))[number % 4] for number in range(8)}
        )
        cluster.create_topic("lonely", {0: (DEAD,)})
        cluster.produce("orders", dict.fromkeys(range(8), 300_000))
        cluster.produce("lonely", {0: 100_000})
        kafka, servers = KafkaConnection(cluster.bootstrap_servers), cluster.bootstrap_servers
        classes = stack.enter_context(KafkaClasses(VERSION))
        stack.enter_context(ShareMember(classes, servers, "sharers", "orders"))
        stack.enter_context(consuming(cluster, "classics", "orders"))
        stack.enter_context(consuming(cluster, "moderns", "orders", group_protocol="consumer"))
        stack.enter_context(StreamsMember(kafka, "tasks", "orders"))
        wait("Kafka has made the topic of its share groups", lambda: bool(WatchedCluster(cluster).lists(SHARED_STATE)))
        cluster.add_broker()
        cordon(cluster, CORDONED, "*")
        (first, _) = read_log_dirs(kafka, [HALF]).log_dirs[HALF]
        cordon(cluster, HALF, first.path)
        cluster.stop_broker(DEAD)
        airflow = LocalAirflow(home, connections={CLUSTER: {"conn_type": "kafka_admin_api", "host": servers}})
        airflow.write_policy(CLUSTER, "approvers: [uma]\nmax_bytes_share: 0.9\n")
        stack.enter_context(airflow)
        requester = airflow.login("olive")
        for dag_id in ("kafka_rebalance", "kafka_topics"):
            wait_for_dag(requester, dag_id)
        yield Newest(cluster, requester, airflow.login("uma"))


def carried_out(newest: Newest, **asked: object) -> tuple[DagRun, str]:
    """The run, and the text of its request, which uma has approved."""
    run = trigger(newest.requester, "kafka_rebalance", {"kafka_conn_id": CLUSTER, "reason": "a test", **asked})
    request = run.wait_for_request(timeout=400)
    recommended = json.loads((run.folder() / "proposals.json").read_text())["recommended"]
    (option,) = [one for one in request["options"] if one.startswith(f"{recommended} · ")]
    run.seen_by(newest.approver).answer(option, throttle_bytes_per_second=20_000_000, note="a test").raise_for_status()
    assert run.wait_for_end(timeout=400) == "success", run.failures()
    return run, request["body"]


def test_a_dead_broker_is_replaced_beside_a_lone_replica_and_cordoned_brokers(newest: Newest) -> None:
    state, lying = newest.replicas(SHARED_STATE), newest.in_dirs(HALF)
    run, said = carried_out(newest, job="replace", replace={str(DEAD): NEW}, topics_in=["orders", "lonely"])
    assert "lonely" in said
    lists = newest.replicas("orders")
    assert not {broker for replicas in lists.values() for broker in replicas} & {DEAD, CORDONED}
    assert newest.replicas("lonely") == {0: (DEAD,)}
    assert newest.replicas(SHARED_STATE) == state
    assert newest.in_dirs(HALF)["a"] == lying["a"]
    assert json.loads((run.folder() / "verification.json").read_text())["passed"] is True
    assert WatchedCluster(newest.cluster).leftovers() == []


def test_a_balance_gives_cordoned_brokers_and_dirs_nothing(newest: Newest) -> None:
    state, lying = newest.replicas(SHARED_STATE), newest.in_dirs(HALF)
    carried_out(newest, job="balance", topics_in=["orders"])
    assert not {broker for replicas in newest.replicas("orders").values() for broker in replicas} & {CORDONED}
    assert newest.replicas(SHARED_STATE) == state
    assert newest.in_dirs(HALF)["a"] <= lying["a"]


def test_a_request_to_delete_names_the_groups_of_each_type_and_a_refusal_deletes_nothing(newest: Newest) -> None:
    asked = {"kafka_conn_id": CLUSTER, "reason": "a test", "action": "delete", "topic": "orders"}
    run = trigger(newest.requester, "kafka_topics", asked)
    request = run.wait_for_request(timeout=400)
    assert {name for name in GROUPS if f"`{name}`" in request["body"]} == set(GROUPS)
    refusal = next(one for one in request["options"] if "eject" in one)
    run.seen_by(newest.approver).answer(refusal, note="a test").raise_for_status()
    run.wait_for_end(timeout=200)
    assert newest.replicas("orders")


def test_nobody_is_asked_to_change_the_state_of_share_groups(newest: Newest) -> None:
    asked = {"kafka_conn_id": CLUSTER, "reason": "a test", "action": "delete", "topic": SHARED_STATE}
    run = trigger(newest.requester, "kafka_topics", asked)
    assert run.wait_for_end(timeout=200) == "failed"
    assert "internal topic" in run.failures()
