"""What ZooKeeper would not take is found before it is asked for."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kafka_rebalance.model.candidate import Move
from kafka_rebalance.run.checks import limits
from kafka_rebalance.run.checks.limits import ZNODE_BYTES, too_large_znodes
from kafka_rebalance.zookeeper.znodes import decode_topic, encode_reassignment
from support.kafka.small_clusters import batches, move, partition, view


@pytest.mark.slow
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


def sizes_of(moves: tuple[Move, ...], lists: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The bytes that are found for the request and for each topic's znode, by subject."""
    monkeypatch.setattr(limits, "ZNODE_BYTES", 0)
    found = too_large_znodes(batches(*moves), view({name: partition(replicas) for name, replicas in lists.items()}))
    return {one.subject: int(re.findall(r"([\d,]+) of 0 bytes", one.problem)[0].replace(",", "")) for one in found}


def test_a_request_is_as_long_as_the_one_that_will_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    moves = (move("t-0", [1, 2], [2, 3]), move("u-12", [1001, 2], [2, 7]))
    written = encode_reassignment({one.topic_partition: one.after for one in moves})
    assert sizes_of(moves, {}, monkeypatch)["batch 1"] == len(written)


def test_a_topics_znode_is_as_long_as_kafka_2_8_writes_it_in_the_midst_of_a_move(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moves = (move("t-0", [1, 2], [2, 13]), move("t-1", [1, 2], [2]))
    in_the_midst = (
        b'{"version":3,"topic_id":"AAAAAAAAAAAAAAAAAAAAAA","partitions":{"0":[2,13,1],"1":[2,1],"7":[5,6]},'
        b'"adding_replicas":{"0":[13],"1":[]},"removing_replicas":{"0":[1],"1":[1]}}'
    )
    assert decode_topic(in_the_midst).adding == {0: (13,), 1: ()}
    lists = {"t-0": [1, 2], "t-1": [1, 2], "t-7": [5, 6]}
    assert sizes_of(moves, lists, monkeypatch)["topic t"] == len(in_the_midst)


def test_what_exactly_fits_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    moves = (move("t-0", [1, 2], [2, 3]),)
    sizes = sizes_of(moves, {"t-0": [1, 2]}, monkeypatch)
    assert sizes.keys() == {"batch 1", "topic t"}
    for subject, size in sizes.items():
        for limit, is_found in ((size, False), (size - 1, True)):
            monkeypatch.setattr(limits, "ZNODE_BYTES", limit)
            found = list(too_large_znodes(batches(*moves), view({"t-0": partition([1, 2])})))
            assert (subject in {one.subject for one in found}) == is_found
            assert all(one.remedy.startswith("Start a new Dag run with") for one in found)
