"""The files for Kafka's own tool."""

from __future__ import annotations

import json

from kafka_rebalance.kafka.reassignment_json import parse_reassignment, reassignment_files
from support.kafka.small_clusters import move, tp

MOVES = (move("orders-10", [1, 2], [4, 2], batch=1), move("orders-9", [2, 3, 1], [3, 2], batch=2))


def test_a_candidate_is_one_file_for_all_its_batches_and_one_for_the_way_back() -> None:
    files = reassignment_files("balanced", MOVES)
    assert list(files) == ["balanced.json", "balanced-rollback.json"]
    forth, back = (parse_reassignment(content.decode()) for content in files.values())
    assert forth == {tp("orders-9"): (3, 2), tp("orders-10"): (4, 2)}
    assert back == {tp("orders-9"): (2, 3, 1), tp("orders-10"): (1, 2)}
    assert list(forth) == list(back) == [tp("orders-9"), tp("orders-10")]


def test_log_directories_are_left_to_the_brokers_as_the_tool_writes_it() -> None:
    document = json.loads(reassignment_files("light", MOVES)["light.json"])
    assert document["version"] == 1
    assert {tuple(entry["log_dirs"]) for entry in document["partitions"]} == {("any", "any")}


def test_a_candidate_that_moves_nothing_has_no_file() -> None:
    assert reassignment_files("light", ()) == {}
