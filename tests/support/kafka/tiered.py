"""Brokers whose older records go to remote storage (KIP-405), and a topic that has most of its records there alone.

The remote storage is Kafka's own of its tests: a folder that all brokers share. It is of 3.9.2, because 4.4.0's is in
no repository.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from kafka_rebalance.admin.log_dirs import read_log_dirs
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.local_cluster.jars.class_path import tiered_storage_jar
from kafka_rebalance.model.connection import KafkaConnection
from support.waiting import wait

TIERED = "3.9.2"
TOPIC, RECORDS, RECORD_BYTES, SEGMENT_BYTES = "events", 5_000, 1_000, 200_000
TWO_OF_THREE = {number: [(1, 2), (2, 1)][number % 2] for number in range(4)}  # broker 3 is empty


def tiered_brokers(remote: Path, *, kraft: bool) -> LocalCluster:
    """Three brokers, not yet started, which keep older segments in the folder `remote`."""
    config: dict[str, str | int] = {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
        "remote.log.storage.manager.class.path": str(tiered_storage_jar(TIERED)),
        "rsm.config.dir": str(remote),
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "rlmm.config.remote.log.metadata.topic.num.partitions": 1,
        "rlmm.config.remote.log.metadata.topic.replication.factor": 1,
        # The defaults are 30 s and 5 min.
        "remote.log.manager.task.interval.ms": 500,
        "log.retention.check.interval.ms": 500,
        "log.initial.task.delay.ms": 500,
        # A follower must be able to take a chunk into a segment.
        "replica.fetch.max.bytes": SEGMENT_BYTES // 2,
        "message.max.bytes": SEGMENT_BYTES // 2,
    }
    return LocalCluster(TIERED, brokers=3, racks=0, kraft=kraft, broker_config=config)


def make_tiered_topic(cluster: LocalCluster) -> None:
    """25 segments a partition, of which the disks keep the newest one."""
    configs = {"remote.storage.enable": "true", "segment.bytes": str(SEGMENT_BYTES), "local.retention.bytes": "1"}
    cluster.create_topic(TOPIC, TWO_OF_THREE, configs)
    produce(cluster, RECORDS)
    settle(cluster)


def _value(number: int) -> bytes:
    return number.to_bytes(4) * (RECORD_BYTES // 4)


def produce(cluster: LocalCluster, records: int) -> None:
    servers = {"bootstrap.servers": cluster.bootstrap_servers, "broker.address.family": "v4", "log_level": 0}
    producer = Producer({**servers, "acks": "all", "batch.size": SEGMENT_BYTES // 4})
    for number in range(records):
        for partition in TWO_OF_THREE:
            producer.produce(TOPIC, _value(number), partition=partition)
        producer.poll(0)
    assert producer.flush(60) == 0


def _written_as(offset: int) -> int:
    """The number that the record of this offset has: each call of `produce` counts from 0."""
    return offset if offset < RECORDS else offset - RECORDS


def settle(cluster: LocalCluster) -> None:
    """Until every segment but the active one is in the remote storage alone."""

    def segments() -> list[int]:
        replicas = cluster.folder.glob(f"data-*/{TOPIC}-*")
        return [len(list(replica.glob("*.log"))) for replica in replicas]

    wait("the disks keep the newest segment", lambda: set(segments()) == {1})


def sizes(cluster: LocalCluster) -> dict[tuple[int, int], int]:
    """Bytes on disk, by partition and broker."""
    told = read_log_dirs(KafkaConnection(cluster.bootstrap_servers), sorted(cluster.brokers)).replicas
    return {(tp.partition, b): size for tp, held in told.items() if tp.topic == TOPIC for b, size in held.items()}


def read_from_the_start(cluster: LocalCluster) -> dict[int, int]:
    """How many records there are to read in each partition, each as it was written."""
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "all", "enable.partition.eof": True}
    consumer = Consumer({**settings, "enable.auto.commit": False, "broker.address.family": "v4"})
    read, ended = dict.fromkeys(TWO_OF_THREE, 0), set[int]()

    def at_the_end() -> bool:
        for message in consumer.consume(500, 0.2):
            partition = message.partition()
            assert partition is not None
            if (error := message.error()) is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(partition)
            else:
                assert message.offset() == read[partition], "no record is missing"
                assert message.value() == _value(_written_as(read[partition]))
                read[partition] += 1
        return ended == set(TWO_OF_THREE)

    with closing(consumer):
        consumer.assign([TopicPartition(TOPIC, number, OFFSET_BEGINNING) for number in TWO_OF_THREE])
        wait("every partition is read to its end", at_the_end)
    return read
