"""Reading and writing the ZooKeeper of real clusters: every version does what the unit tests say it does."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kazoo.exceptions import NoNodeError

from kafka_rebalance.admin.log_dirs import read_log_dirs
from kafka_rebalance.errors import CorruptZnodeError, LockHeldError, ReadError, WriteError
from kafka_rebalance.kafka.znode_limits import JUTE_MAXBUFFER_BYTES
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.candidate import Batch, Move
from kafka_rebalance.model.cluster_writes import Outcome
from kafka_rebalance.model.connection import KafkaConnection, ZooKeeperConnection
from kafka_rebalance.model.lock_owner import LockOwner
from kafka_rebalance.model.partition import PartitionView, TopicPartition
from kafka_rebalance.zookeeper.client import open_client
from kafka_rebalance.zookeeper.cluster_lock import ZooKeeperLock
from kafka_rebalance.zookeeper.config_writes import merge_config
from kafka_rebalance.zookeeper.reader import (
    check_controller_stable,
    read_broker_configs,
    read_cluster_view,
    read_topic_configs,
)
from kafka_rebalance.zookeeper.writer import check_fits, create_election, create_reassignment, create_znode
from support.waiting import wait
from support.zookeeper.fake_zookeeper import SimulatedController, fake_cluster

DIGEST = "d" * 64
REASSIGN = "/admin/reassign_partitions"
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LISTS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


@pytest.fixture
def topic(cluster: LocalCluster, fresh_topic_name: Callable[[], str]) -> Callable[..., TopicPartition]:
    """Makes a topic of one partition with these replicas and this much data."""

    def make(*replicas: int, size_bytes: int = 0) -> TopicPartition:
        name = fresh_topic_name()
        cluster.create_topic(name, {0: replicas})
        if size_bytes:
            cluster.produce(name, {0: size_bytes})
        return TopicPartition(name, 0)

    return make


def batch(topic_partition: TopicPartition, before: tuple[int, ...], after: tuple[int, ...]) -> Batch:
    return Batch(1, (Move(topic_partition, before, after, 1),), DIGEST)


def partition_of(client: Any, topic_partition: TopicPartition) -> PartitionView:
    return read_cluster_view(client, [topic_partition.topic]).partitions[topic_partition]


def is_complete(client: Any, topic_partition: TopicPartition, after: tuple[int, ...]) -> bool:
    view = read_cluster_view(client, [topic_partition.topic])
    now = view.partitions[topic_partition]
    in_motion = view.reassignments is not None or now.adding or now.removing
    return not in_motion and now.replicas == after and set(now.isr) == set(after) and now.leader in after


def reassign(client: Any, topic_partition: TopicPartition, before: tuple[int, ...], after: tuple[int, ...]) -> None:
    brokers = read_cluster_view(client, []).brokers
    assert create_reassignment(client, batch(topic_partition, before, after), DIGEST, brokers) is Outcome.CREATED
    wait(f"{topic_partition} is on {after}", lambda: is_complete(client, topic_partition, after))


# --- reading ---


def test_the_view_is_the_cluster_as_it_was_made(
    cluster: LocalCluster, client: Any, topic: Callable[..., TopicPartition]
) -> None:
    topic_partition = topic(2, 3)
    view = read_cluster_view(client)
    assert view.racks == cluster.brokers
    assert view.controller.broker in cluster.brokers
    assert view.controller.kraft_epoch == -1
    endpoints = [registration.endpoints[0] for _, registration in sorted(view.brokers.items())]
    assert ",".join(f"{e.host}:{e.port}" for e in endpoints) == cluster.bootstrap_servers
    partition = view.partitions[topic_partition]
    assert (partition.replicas, partition.leader, set(partition.isr)) == ((2, 3), 2, {2, 3})
    assert (partition.topic_id is None) == cluster.version.startswith("2.0")
    assert (view.reassignments, view.elections, view.deletions) == (None, None, frozenset())


def test_a_broker_that_is_down_is_seen_and_never_moved_to(
    cluster: LocalCluster, client: Any, topic: Callable[..., TopicPartition]
) -> None:
    topic_partition = topic(1, 2)
    cluster.stop_broker(4)
    try:
        view = read_cluster_view(client)
        assert set(view.brokers) == {1, 2, 3}
        with pytest.raises(WriteError, match="broker 4 is not registered"):
            create_reassignment(client, batch(topic_partition, (1, 2), (1, 4)), DIGEST, view.brokers)
        assert not client.exists(REASSIGN)
    finally:
        cluster.start_broker(4)
    assert set(read_cluster_view(client).brokers) == {1, 2, 3, 4}


def test_an_ordinary_failover_is_no_election_storm(client: Any) -> None:
    def fail_over() -> None:
        client.delete("/controller")
        # A new controller of 2.0 first makes its znode, and raises the epoch a moment later.
        wait("there is a new controller", lambda: int(client.get("/controller_epoch")[0]) > before.epoch)

    before = read_cluster_view(client, []).controller
    settled = check_controller_stable(client, fail_over)
    assert settled.epochs == (before.epoch, settled.controller.epoch)
    assert settled.controller.epoch > before.epoch


@pytest.mark.filterwarnings("ignore:No chroot path exists")  # kazoo's, before our error
def test_a_chroot_that_does_not_exist_is_an_error(cluster: LocalCluster) -> None:
    connection = ZooKeeperConnection(f"{cluster.zookeeper}/no/such/chroot")
    with pytest.raises(ReadError, match="/no/such/chroot does not exist"), open_client(connection):
        pytest.fail("it must not open")


@pytest.fixture
def chroot(cluster: LocalCluster, client: Any, fresh_topic_name: Callable[[], str]) -> Iterator[str]:
    """A chroot of the real ZooKeeper that holds a cluster without brokers."""
    path = f"/{fresh_topic_name()}/kafka"
    for name, znode in fake_cluster({"orders": {0: [1, 2]}}).znodes.items():
        client.create(path + name.rstrip("/"), znode.data, makepath=True)
    yield path
    client.delete(path, recursive=True)


def test_everything_stays_below_the_chroot(cluster: LocalCluster, client: Any, chroot: str) -> None:
    orders = TopicPartition("orders", 0)
    paths = (REASSIGN, "/config/brokers/1", "/kafka_rebalance/run")
    above = [client.exists(path) for path in paths]
    with open_client(ZooKeeperConnection(cluster.zookeeper + chroot)) as below:
        view = read_cluster_view(below)
        assert view.partitions[orders].replicas == (1, 2)
        create_reassignment(below, batch(orders, (1, 2), (3, 4)), DIGEST, view.brokers)
        merge_config(below, "brokers/1", {RATES[0]: "1000"})
        ZooKeeperLock(below).acquire(LockOwner("run", DIGEST, "airflow"))
        assert read_cluster_view(below).reassignments == {orders: (3, 4)}
        assert read_broker_configs(below, [1])[1] == {RATES[0]: "1000"}
    assert all(client.exists(chroot + path) for path in paths)
    assert [client.exists(path) for path in paths] == above


def test_a_corrupt_znode_is_named(cluster: LocalCluster, client: Any, chroot: str) -> None:
    client.set(f"{chroot}/brokers/topics/orders", b'{"version":1,"partitions":{"0":["1","2"]}}')
    connection = ZooKeeperConnection(cluster.zookeeper + chroot)
    with open_client(connection) as below, pytest.raises(CorruptZnodeError, match=r"^/brokers/topics/orders: .*'1'"):
        read_cluster_view(below)


# --- moving ---


def test_a_move_with_data_completes_and_shows_only_stages_that_the_simulation_knows(
    cluster: LocalCluster, client: Any, topic: Callable[..., TopicPartition]
) -> None:
    topic_partition = topic(1, 2, size_bytes=5_000_000)
    fake = fake_cluster({topic_partition.topic: {0: [1, 2]}}, version=cluster.version[:3])
    simulated = SimulatedController(fake, "2.0" if cluster.version.startswith("2.0") else "2.8")
    stages, seen = set(), set()
    create_reassignment(fake, batch(topic_partition, (1, 2), (3, 4)), DIGEST, [1, 2, 3, 4])
    for _ in itertools.takewhile(bool, iter(simulated.step, None)):
        stages.add(stage_of(partition_of(fake, topic_partition)))

    def complete() -> bool:
        seen.add(stage_of(partition_of(client, topic_partition)))
        return is_complete(client, topic_partition, (3, 4))

    create_reassignment(client, batch(topic_partition, (1, 2), (3, 4)), DIGEST, [1, 2, 3, 4])
    wait("the move is complete", complete)
    seen.add(stage_of(partition_of(client, topic_partition)))
    assert ((3, 4), (), ()) in seen
    assert seen <= stages | {((1, 2), (), ())}


def stage_of(partition: PartitionView) -> tuple[tuple[int, ...], ...]:
    return partition.replicas, partition.adding, partition.removing


def test_a_shrink_completes(client: Any, topic: Callable[..., TopicPartition]) -> None:
    reassign(client, topic(1, 2, 3), (1, 2, 3), (3, 2))


def test_a_reorder_keeps_the_leader_until_the_preferred_one_is_elected(
    client: Any, topic: Callable[..., TopicPartition]
) -> None:
    topic_partition = topic(1, 2)
    reassign(client, topic_partition, (1, 2), (2, 1))
    view = read_cluster_view(client, [topic_partition.topic])
    assert view.partitions[topic_partition].leader == 1
    assert create_election(client, [topic_partition], view) is Outcome.CREATED
    wait("the preferred replica leads", lambda: partition_of(client, topic_partition).leader == 2)
    wait("the request is gone", lambda: read_cluster_view(client, []).elections is None)


@pytest.fixture
def held(cluster: LocalCluster, client: Any, topic: Callable[..., TopicPartition]) -> Iterator[TopicPartition]:
    """A partition on its way from [1, 2] to [3, 4], held back by a throttle that is lifted at the end."""
    topic_partition = topic(1, 2, size_bytes=3_000_000)
    for broker in cluster.brokers:
        merge_config(client, f"brokers/{broker}", dict.fromkeys(RATES, "1000"))
    merge_config(client, f"topics/{topic_partition.topic}", dict.fromkeys(LISTS, "0:1,0:2,0:3,0:4"))
    wait_until_applied(cluster, f"topics/{topic_partition.topic}")
    create_reassignment(client, batch(topic_partition, (1, 2), (3, 4)), DIGEST, cluster.brokers)
    wait("the controller took it up", lambda: set(partition_of(client, topic_partition).replicas) == {1, 2, 3, 4})
    try:
        yield topic_partition
    finally:
        for broker in cluster.brokers:
            merge_config(client, f"brokers/{broker}", dict.fromkeys(RATES))
        merge_config(client, f"topics/{topic_partition.topic}", dict.fromkeys(LISTS))
        wait("the move completes without its throttle", lambda: is_complete(client, topic_partition, (3, 4)))


def wait_until_applied(cluster: Any, entity: str) -> None:
    """Every broker logs each change it applies, all into one file here, in the order of the notifications."""
    log = cluster.folder / "kafka.log"
    applied = f"entityPath: {entity} with config"
    wait("every broker knows", lambda: log.read_text(errors="replace").count(applied) >= len(cluster.brokers))


def test_a_throttle_holds_the_copy_back_and_is_gone_when_it_is_removed(
    cluster: LocalCluster, client: Any, held: TopicPartition
) -> None:
    assert read_topic_configs(client, [held.topic])[held.topic] == dict.fromkeys(LISTS, "0:1,0:2,0:3,0:4")
    configs = read_broker_configs(client, cluster.brokers)
    assert all(configs[broker] == dict.fromkeys(RATES, "1000") for broker in cluster.brokers)
    kafka = KafkaConnection(cluster.bootstrap_servers)
    # Ten looks, each a round trip to every broker: unthrottled, three megabytes are there before the second.
    for _ in range(10):
        copies = read_log_dirs(kafka, cluster.brokers).replicas[held]
        assert copies[1] > 3_000_000
        assert copies.get(3, 0) + copies.get(4, 0) < 2 * copies[1]
    assert not set(partition_of(client, held).isr) >= {3, 4}


def test_two_tools_at_once_change_nothing(
    cluster: LocalCluster, client: Any, held: TopicPartition, topic: Callable[..., TopicPartition]
) -> None:
    other = topic(1, 2)
    before = client.get(REASSIGN)
    with pytest.raises(WriteError, match="Another reassignment is running"):
        create_reassignment(client, batch(other, (1, 2), (3, 4)), DIGEST, cluster.brokers)
    same = create_reassignment(client, batch(held, (1, 2), (3, 4)), DIGEST, cluster.brokers)
    assert same is Outcome.ALREADY_THERE
    with pytest.raises(WriteError, match="is being reassigned"):
        create_election(client, [held], read_cluster_view(client, [held.topic]))
    assert client.get(REASSIGN) == before
    assert partition_of(client, other).replicas == (1, 2)


def test_removed_throttles_leave_no_key_and_keep_the_others(
    cluster: LocalCluster, client: Any, topic: Callable[..., TopicPartition], fresh_topic_name: Callable[[], str]
) -> None:
    name = fresh_topic_name()
    cluster.create_topic(name, {0: (1, 2)}, config={"segment.bytes": 1_048_576})
    merge_config(client, f"topics/{name}", {LISTS[0]: "0:1", LISTS[1]: "0:2"})
    merge_config(client, f"topics/{name}", {LISTS[0]: None, LISTS[1]: None})
    assert read_topic_configs(client, [name]) == {name: {"segment.bytes": "1048576"}}


# --- lock and size ---


def test_one_run_holds_the_cluster(client: Any) -> None:
    ours, theirs = (LockOwner(run, DIGEST, "airflow", "2026-11-21T04:00:00Z") for run in ("run-1", "run-2"))
    ZooKeeperLock(client).acquire(ours)
    by_zookeeper = ZooKeeperLock(client).read_time_of_fence()
    assert abs(datetime.now(UTC) - by_zookeeper) < timedelta(minutes=1)  # on one machine, with one clock
    try:
        ZooKeeperLock(client).acquire(ours)
        with pytest.raises(LockHeldError, match="run-1"):
            ZooKeeperLock(client).acquire(theirs)
        with pytest.raises(LockHeldError):
            ZooKeeperLock(client).release(theirs)
        assert ZooKeeperLock(client).read() == ours
    finally:
        assert ZooKeeperLock(client).release(ours)
    assert ZooKeeperLock(client).read() is None


def test_the_largest_request_that_is_let_through_is_one_that_zookeeper_takes(
    client: Any, fresh_topic_name: Callable[[], str]
) -> None:
    path = f"/{fresh_topic_name()}"
    acl = client.get_acls("/admin")[0]
    sizes = range(JUTE_MAXBUFFER_BYTES - 500, JUTE_MAXBUFFER_BYTES)
    fitting = [size for size in sizes if fits(client, path, b"x" * size, acl)]
    assert fitting
    assert len(fitting) < len(sizes)
    create_znode(client, path, b"x" * fitting[-1], acl)
    assert len(client.get(path)[0]) == fitting[-1]
    client.delete(path)
    with pytest.raises(NoNodeError):
        client.get(path)


def fits(client: Any, path: str, data: bytes, acl: Any) -> bool:
    try:
        transaction = client.transaction()
        transaction.create(path, data, acl=acl)
        check_fits(path, transaction)
    except WriteError:
        return False
    return True
