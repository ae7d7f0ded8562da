"""What ZooKeeper would not take is found before it is asked for."""

from __future__ import annotations

from kafka_rebalance.execution.check.znode_size import ZNODE_BYTES, too_large_znodes
from support.kafka.small_clusters import batches, move, partition, view


def test_a_topic_that_outgrows_zookeeper_in_the_midst_of_a_batch_is_found() -> None:
    count = 30_000
    lists = {f"t-{number}": partition([1001, 1002, 1003]) for number in range(count)}
    small = batches(*(move(f"t-{number}", [1001, 1002, 1003], [1002, 1003, 1004]) for number in range(10)))
    assert list(too_large_znodes(small, view(lists))) == []
    large = batches(*(move(f"t-{number}", [1001, 1002, 1003], [1004, 1005, 1006]) for number in range(9_000)))
    (finding,) = too_large_znodes(large, view(lists))
    assert finding.subject == "topic t"
    assert f"of {ZNODE_BYTES:,} bytes in batch 1" in finding.problem
    assert "topics_out" in finding.remedy
    assert "-Djute.maxbuffer in SERVER_JVMFLAGS of every ZooKeeper server" in finding.remedy
    assert "KAFKA_OPTS of every broker" in finding.remedy


def test_a_request_that_zookeeper_would_not_take_is_found() -> None:
    topic = "a" * 249
    many = batches(*(move(f"{topic}{n % 9}-{n}", [1001, 1002], [1002, 1001]) for n in range(4_000)))
    found = list(too_large_znodes(many, view({})))
    assert found[0].subject == "batch 1"
    assert "its request has 1,210,918 of" in found[0].problem
