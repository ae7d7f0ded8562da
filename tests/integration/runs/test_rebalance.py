"""Whole rebalances on real brokers of every version: what moves, what is left behind, and what is refused."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from airflow.sdk.exceptions import AirflowFailException
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from kafka_rebalance.cancel.set_throttle import change_rate
from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ExecutionError, ThrottleError
from kafka_rebalance.kafka.throttles import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.planning.tables.read_problem import PARTITIONS
from kafka_rebalance.planning.tables.result_tables import read_candidate
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.zookeeper.config_writes import merge_config
from kafka_rebalance.zookeeper.reader import read_cluster_view
from support.kafka.on_versions import BOTH_KINDS, NEWEST
from support.runs.rebalance_run import InProcessRun
from support.waiting import wait

MEGABYTE = 1_000_000
FAST, SLOW = 50 * MEGABYTE, 1 * MEGABYTE  # bytes per second


@pytest.fixture
def zookeeper(cluster: LocalCluster) -> Iterator[KazooClient]:
    client = KazooClient(cluster.zookeeper)
    client.start()
    yield client
    client.stop()
    client.close()


@pytest.fixture
def topic(
    cluster: LocalCluster, fresh_topic_name: Callable[[], str], zookeeper: KazooClient
) -> Iterator[Callable[..., str]]:
    """Makes a topic with data. Afterwards nothing of any run may be left in ZooKeeper."""

    def make(replicas: dict[int, tuple[int, ...]], size_bytes: int = MEGABYTE) -> str:
        name = fresh_topic_name()
        cluster.create_topic(name, replicas)
        cluster.produce(name, dict.fromkeys(replicas, size_bytes))
        return name

    yield make
    assert zookeeper.exists("/admin/reassign_partitions") is None
    assert zookeeper.exists("/kafka_rebalance/run") is None
    assert throttles(zookeeper) == {}


@pytest.fixture
def run(tmp_path: Path, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> InProcessRun:
    return InProcessRun(tmp_path, cluster, monkeypatch)


def throttles(client: KazooClient) -> dict[str, bytes]:
    """Every config that throttles something."""
    found = {}
    for kind in ("brokers", "topics"):
        for name in client.get_children(f"/config/{kind}"):
            try:
                content = client.get(f"/config/{kind}/{name}")[0]
            except NoNodeError:
                continue
            if b"throttled" in content:
                found[f"{kind}/{name}"] = content
    return found


def partition_table(run: InProcessRun) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(run.folder / json_files.SNAPSHOT_FOLDER / PARTITIONS).to_pylist()
    return rows


def replicas_of(client: KazooClient, name: str) -> dict[int, tuple[int, ...]]:
    view = read_cluster_view(client, [name])
    return {tp.partition: partition.replicas for tp, partition in view.partitions.items()}


def test_a_throttled_move_ends_as_approved(
    run: InProcessRun, topic: Callable[..., str], zookeeper: KazooClient, cluster: LocalCluster
) -> None:
    # Whatever other tests have left there, broker 4 holds the least.
    left = sum(segment.stat().st_size for segment in (cluster.folder / "data-4").glob("**/*.log"))
    name = topic({0: (1, 2), 1: (1, 3), 2: (1, 2), 3: (1, 3)}, 2 * MEGABYTE + left)
    run.plan(topics_in=[name])
    (row, *_) = (row for row in partition_table(run) if row["topic"] == name)
    assert (row["cleanup_policy"], row["retention_ms"], row["segment_bytes"]) == ("delete", 7 * 86_400_000, 1 << 30)
    run.approve("balanced", FAST)
    run.hold()
    held = throttles(zookeeper)
    assert f"topics/{name}" in held
    assert b'"50000000"' in held["brokers/1"]
    assert run.reassign() >= 1
    verification = run.finish()
    assert verification["passed"] is True
    moves = read_candidate(run.folder, "balanced").moves
    assert sum(move.bytes_to_copy for move in moves) > 0
    lists = replicas_of(zookeeper, name)
    assert {move.topic_partition.partition: lists[move.topic_partition.partition] for move in moves} == {
        move.topic_partition.partition: move.after for move in moves
    }
    assert 4 in {broker for replicas in lists.values() for broker in replicas}


@BOTH_KINDS
def test_lowering_the_replication_factor_drops_replicas_and_copies_none(
    run: InProcessRun, topic: Callable[..., str], zookeeper: KazooClient
) -> None:
    name = topic({0: (1, 2, 3), 1: (2, 3, 4)})
    proposals = run.plan(topics_in=[name], job="replication_factor", replication_factor=2)
    assert {c["name"]: c["moved_bytes"] for c in proposals["candidates"]}["light"] == 0
    run.approve("light", FAST)
    run.hold()
    run.reassign()
    assert run.finish()["passed"] is True
    assert {len(replicas) for replicas in replicas_of(zookeeper, name).values()} == {2}


@BOTH_KINDS
def test_leaders_alone_re_orders_lists_and_elects(
    run: InProcessRun, topic: Callable[..., str], zookeeper: KazooClient
) -> None:
    led = Counter(partition.leader for partition in read_cluster_view(zookeeper).partitions.values())
    busy, idle = sorted((1, 2), key=lambda broker: -led[broker])  # what the topics of other tests left
    name = topic(dict.fromkeys(range(4), (busy, idle)))
    run.plan(topics_in=[name], job="leaders")
    run.approve("leaders_only", FAST)
    run.hold()
    assert throttles(zookeeper) == {}
    run.reassign()
    assert run.finish()["passed"] is True
    partitions = read_cluster_view(zookeeper, [name]).partitions.values()
    assert idle in {partition.leader for partition in partitions}
    assert all(partition.leader == partition.replicas[0] for partition in partitions)


@NEWEST
def test_a_drained_broker_holds_nothing_of_the_topic(
    run: InProcessRun, topic: Callable[..., str], zookeeper: KazooClient
) -> None:
    name = topic({0: (4, 2), 1: (3, 4), 2: (2, 3)})
    run.plan(topics_in=[name], job="drain", drain=[4])
    run.approve("light", FAST)
    run.hold()
    run.reassign()
    assert run.finish()["passed"] is True
    assert all(4 not in replicas for replicas in replicas_of(zookeeper, name).values())


@BOTH_KINDS
def test_a_task_that_is_restarted_in_mid_copy_follows_and_writes_nothing_twice(
    run: InProcessRun, topic: Callable[..., str], zookeeper: KazooClient
) -> None:
    # A quota that has not been used for ten seconds lets through what it allows in them: the rest is in mid-copy.
    name = topic({0: (2, 1)}, 14 * MEGABYTE)
    run.plan(topics_in=[name], job="drain", drain=[2])
    run.approve("light", SLOW)
    run.hold()
    run.hold()  # cleared together with reassign: what was there before is not recorded again
    batch = run.request()
    assert batch is not None
    requested = zookeeper.exists("/admin/reassign_partitions")
    assert run.request() == batch
    assert zookeeper.exists("/admin/reassign_partitions").czxid == requested.czxid
    with pytest.raises(ThrottleError, match="Copies are still in flight"):
        run.release()
    assert f"topics/{name}" in throttles(zookeeper)
    event, said = run.follow(batch, until=lambda: any("of 13.4 MiB" in line for line in run.said))
    assert event is None, said
    change_rate(airflow_deployment(), run.folder, FAST, by="olive")
    event, then = run.follow(batch)
    assert event is not None
    assert event.state == "done"
    told = [line for line in said + then if " MiB" in line]
    assert all("of 13.4 MiB" in line for line in told), told  # also when the new replica leads
    assert run.resume(event) is None
    (ended,) = json_files.read_json(run.folder, json_files.BATCHES)["batches"]
    assert ended["measured_bytes"] == ended["bytes"] > 14 * MEGABYTE
    assert run.finish()["passed"] is True


@NEWEST
def test_a_second_run_cannot_have_the_cluster(
    run: InProcessRun,
    topic: Callable[..., str],
    zookeeper: KazooClient,
    tmp_path: Path,
    cluster: LocalCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = topic({0: (1, 2)}), topic({0: (1, 2)})
    other = InProcessRun(tmp_path, cluster, monkeypatch, run_id="two")
    for which, name in ((run, first), (other, second)):
        which.plan(topics_in=[name], job="drain", drain=[2])
        which.approve("light", FAST)
    run.hold()
    before = throttles(zookeeper)
    with pytest.raises(AirflowFailException, match=r"LockHeldError: .*kafka_rebalance/one"):
        other.hold()
    assert throttles(zookeeper) == before
    run.reassign()
    assert run.finish()["passed"] is True
    assert replicas_of(zookeeper, second) == {0: (1, 2)}


@BOTH_KINDS
def test_another_tools_move_is_refused_left_alone_and_waited_for(
    run: InProcessRun, topic: Callable[..., str], zookeeper: KazooClient
) -> None:
    ours, theirs = topic({0: (1, 2)}), topic({0: (1, 2)}, 4 * MEGABYTE)
    limits = {
        f"topics/{theirs}": {LEADER_REPLICAS: "0:1,0:2", FOLLOWER_REPLICAS: "0:3"},
        "brokers/1": {LEADER_RATE: "100000"},
        "brokers/2": {LEADER_RATE: "100000"},
        "brokers/3": {FOLLOWER_RATE: "100000"},
    }
    for entity, values in limits.items():  # else their copy is over before anything can be seen of it
        merge_config(zookeeper, entity, values)
    run.plan(topics_in=[ours], job="drain", drain=[2])
    run.approve("light", FAST)
    asked = {"version": 1, "partitions": [{"topic": theirs, "partition": 0, "replicas": [1, 3]}]}
    zookeeper.create("/admin/reassign_partitions", json.dumps(asked).encode())
    requested, held = zookeeper.exists("/admin/reassign_partitions"), throttles(zookeeper)
    with pytest.raises(
        ExecutionError, match=f"Another reassignment is under way: {theirs}-0 .*changed nothing in the cluster"
    ):
        run.hold()
    assert zookeeper.exists("/admin/reassign_partitions").czxid == requested.czxid
    assert zookeeper.exists("/kafka_rebalance/run") is None
    assert throttles(zookeeper) == held
    for entity, values in limits.items():
        merge_config(zookeeper, entity, dict.fromkeys(values))
    wait("the other reassignment has ended", lambda: zookeeper.exists("/admin/reassign_partitions") is None)
    run.hold()
    run.reassign()
    assert run.finish()["passed"] is True
    assert replicas_of(zookeeper, theirs) == {0: (1, 3)}


@NEWEST
def test_a_target_that_is_gone_after_the_approval_stops_the_run_before_it_writes(
    run: InProcessRun, topic: Callable[..., str], zookeeper: KazooClient, cluster: LocalCluster
) -> None:
    name = topic({0: (3, 2)})
    run.plan(topics_in=[name], job="drain", drain=[2], brokers_out=[1])
    run.approve("light", FAST)
    cluster.stop_broker(4)
    try:
        with pytest.raises(AirflowFailException, match="broker 4: it is to receive replicas and is not registered"):
            run.hold()
    finally:
        cluster.start_broker(4)
    assert replicas_of(zookeeper, name) == {0: (3, 2)}


@BOTH_KINDS
def test_a_target_that_goes_away_in_mid_copy_stalls_the_run_keeps_the_throttle_and_ends_when_it_is_back(
    run: InProcessRun, topic: Callable[..., str], zookeeper: KazooClient, cluster: LocalCluster
) -> None:
    name = topic({0: (3, 2)}, 8 * MEGABYTE)
    run.plan(topics_in=[name], job="drain", drain=[2], brokers_out=[1])
    run.approve("light", SLOW)
    run.hold()
    batch = run.request()
    assert batch is not None
    cluster.stop_broker(4)
    try:
        event, said = run.follow(batch, stall_seconds=1)
        assert event is not None
        assert event.state == "stalled"
        assert "Broker 4 is not registered" in event.message
        assert any("waiting for broker 4" in line for line in said)
        with pytest.raises(ExecutionError, match="made no progress"):
            run.resume(event)
        with pytest.raises(ThrottleError, match="Copies are still in flight"):
            run.release()
        assert f"topics/{name}" in throttles(zookeeper)
        assert zookeeper.exists("/kafka_rebalance/run") is not None
    finally:
        cluster.start_broker(4)
    assert run.request() == batch
    change_rate(airflow_deployment(), run.folder, FAST, by="olive")
    event, _ = run.follow(batch)
    assert event is not None
    assert run.resume(event) is None
    assert run.finish()["passed"] is True
    assert 4 in replicas_of(zookeeper, name)[0]
