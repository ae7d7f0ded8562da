"""One of two log dirs fails on a living broker: what lay there goes to other brokers, and the rest stays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from kafka_rebalance.admin.log_dirs import read_log_dirs
from kafka_rebalance.errors import ReadError
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.planning.tables.result_tables import read_candidate
from support.runs.rebalance_run import InProcessRun
from support.runs.watched_cluster import WatchedCluster
from support.waiting import wait

TOPIC = "orders"
LISTS = {number: [(1, 2), (2, 1), (3, 1), (2, 3)][number % 4] for number in range(12)}


@pytest.fixture(params=["3.9.2", "4.4.0"])
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """Four brokers with two log dirs each, which Kafka writes to twice a second; broker 4 is empty."""
    config = {"log.dirs": "{data}/a,{data}/b", "replica.high.watermark.checkpoint.interval.ms": "500"}
    kraft = request.param == "4.4.0"
    with LocalCluster(
        request.param, brokers=4, racks=0, kraft=kraft, controllers=int(kraft), broker_config=config
    ) as running:
        yield running


def lying(cluster: LocalCluster, broker: int) -> dict[int, str]:
    """{partition of the topic: name of its log dir} on this broker, for those that it lists."""
    disks = read_log_dirs(KafkaConnection(cluster.bootstrap_servers), [broker])
    return {tp.partition: Path(of[broker]).name for tp, of in disks.paths.items() if tp.topic == TOPIC and broker in of}


def test_what_lay_on_the_failed_log_dir_is_moved_in_sync_and_verified_and_the_rest_is_untouched(
    cluster: LocalCluster, kafka: WatchedCluster, run: InProcessRun
) -> None:
    cluster.create_topic(TOPIC, LISTS)
    cluster.produce(TOPIC, dict.fromkeys(LISTS, 200_000))
    wait("all replicas are in sync", lambda: kafka.is_in_sync(TOPIC, 2))
    before = lying(cluster, 1)
    lost = {number for number, name in before.items() if name == "b"}
    assert lost
    assert lost < set(before)

    failed = cluster.folder / "data-1" / "b"
    failed.rename(failed.with_name("aside"))

    def is_told() -> bool:
        with suppress(ReadError):  # of a dir that is gone and has not failed yet
            return set(lying(cluster, 1)) == set(before) - lost
        return False

    wait("the broker says that the log dir is offline", is_told)
    wait(
        "others lead what lay there",
        lambda: all(one.leader != 1 for number, one in kafka.partitions(TOPIC).items() if number in lost),
    )
    wait("what lay there is out of sync", lambda: all(1 not in kafka.partitions(TOPIC)[number].isr for number in lost))

    # Not before: a leader below it does not raise its high watermark, and tells no end offset until it has.
    entry = ConfigEntry("min.insync.replicas", "2", incremental_operation=AlterConfigOpType.SET)
    asked = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for answer in admin.incremental_alter_configs([asked]).values():
        answer.result()

    run.plan(job="replace_log_dir", topics_in=[TOPIC])
    moves = read_candidate(run.folder, "light").moves
    assert {move.topic_partition.partition for move in moves} == lost
    assert all(move.removed == (1,) for move in moves)
    run.carry_out("light")
    found = kafka.partitions(TOPIC)
    assert {number for number, one in found.items() if 1 in one.replicas} == set(before) - lost
    assert kafka.is_in_sync(TOPIC, 2)
    assert lying(cluster, 1) == {number: name for number, name in before.items() if number not in lost}
    assert {number: one.replicas for number, one in found.items() if number not in lost} == {
        number: replicas for number, replicas in LISTS.items() if number not in lost
    }
