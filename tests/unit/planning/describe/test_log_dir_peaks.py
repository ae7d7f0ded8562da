"""How full single log dirs get: held against Kafka's own choice, made at random many times."""

from __future__ import annotations

import random
from statistics import fmean
from typing import Any

import pytest

from kafka_rebalance.planning.describe.described_candidate import DescribedCandidate
from support.documents.as_in_a_file import in_json
from support.plans.small_snapshots import Rows, broker_rows, partition_rows, plan_of

GB = 10**9


def log_dirs(*used: int | None, total: int | None = 1000 * GB) -> list[dict[str, Any]]:
    return [
        {"path": f"/data{number}", "total_bytes": total, "usable_bytes": None if total is None else total - (gone or 0)}
        for number, gone in enumerate(used, 1)
    ]


def brokers_with(*dirs: list[dict[str, Any]]) -> Rows:
    """Broker 1 has one log dir and is drained; brokers 2 on have these."""
    others = dict(enumerate(dirs, 2))
    return broker_rows([1, *others], log_dirs={1: log_dirs(0), **others})


def drained(brokers: Rows, rows: Rows, **settings: Any) -> DescribedCandidate:
    return plan_of(brokers, rows, job="drain", drain=[1], **settings)


def listed(plan: DescribedCandidate) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = in_json(plan.consequences["log_dirs"])["listed"]
    return found


def test_the_dir_with_fewer_replicas_gets_all_of_them_and_the_other_stays_as_it_is() -> None:
    rows = [
        *partition_rows([[1]] * 3, size=10 * GB, log_dirs=[["/data1"]] * 3),
        *partition_rows([[2]] * 9, topic="old", size=GB, log_dirs=[["/data1"]] * 8 + [["/data2"]]),
    ]
    fuller, other = listed(drained(brokers_with(log_dirs(8 * GB, 401 * GB)), rows))
    assert fuller == {
        "broker": 2, "path": "/data2", "total_bytes": 1000 * GB, "used_bytes": 401 * GB,
        "expected_bytes": 431 * GB, "nine_of_ten_bytes": 431 * GB, "batch": 1,
    }  # fmt: skip
    assert (other["path"], other["expected_bytes"], other["nine_of_ten_bytes"], other["batch"]) == (
        "/data1", 8 * GB, 8 * GB, 0,
    )  # fmt: skip


def test_with_one_replica_and_two_dirs_either_may_get_it() -> None:
    plan = drained(
        brokers_with(log_dirs(100 * GB, 100 * GB)), partition_rows([[1]], size=50 * GB, log_dirs=[["/data1"]])
    )
    assert [(one["expected_bytes"], one["nine_of_ten_bytes"]) for one in listed(plan)] == [(125 * GB, 150 * GB)] * 2


def test_what_leaves_a_dir_makes_room_in_it_for_the_next_batch() -> None:
    brokers = broker_rows([1, 2, 3], state={1: "new"}, log_dirs={2: log_dirs(300 * GB, 0), 3: log_dirs(0)})
    rows = partition_rows([[2]] * 3 + [[3]] * 3, size=100 * GB, log_dirs=[["/data1"]] * 6)
    text = (
        '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[1]},'
        '{"topic":"orders","partition":3,"replicas":[2]}]}'
    )
    plan = plan_of(brokers, rows, "given", plan=text, partitions_per_batch=1)
    left = next(move.batch for move in plan.candidate.moves if move.before == (2,))
    found = {one["path"]: one for one in listed(plan)}
    assert found["/data1"]["expected_bytes"] == 300 * GB, "it comes into /data2, in which nothing lies"
    assert found["/data2"]["expected_bytes"] == 100 * GB
    assert found["/data2"]["batch"] == 3 - left


def test_sizes_that_no_broker_tells_are_those_of_the_replicas_in_the_dir() -> None:
    rows = [
        *partition_rows([[1]] * 2, size=GB, log_dirs=[["/data1"]] * 2),
        *partition_rows([[2]] * 3, topic="old", size=5 * GB, log_dirs=[["/data1"], ["/data1"], ["/data2"]]),
    ]
    found = listed(drained(brokers_with(log_dirs(None, None, total=None)), rows))
    assert [(one["path"], one["used_bytes"], one["total_bytes"]) for one in found] == [
        ("/data1", 10 * GB, None),
        ("/data2", 5 * GB, None),
    ]
    assert [one["expected_bytes"] for one in found] == [int(10.5 * GB), int(6.5 * GB)]


@pytest.mark.parametrize(
    ("dirs", "where"),
    [
        ([log_dirs(0)], ["/data1"]),  # one dir: the broker's own disk
        ([log_dirs(0, 0)], None),  # the snapshot does not know where they lie
        ([[*log_dirs(0), {"path": "/bad", "total_bytes": None, "usable_bytes": None}]], ["/data1"]),  # offline
    ],
)
def test_nothing_is_said_of_brokers_where_nothing_can_be(dirs: Any, where: Any) -> None:
    rows = partition_rows([[1], [2]], log_dirs=[where, where])
    assert in_json(drained(brokers_with(*dirs), rows).consequences["log_dirs"]) == {"count": 0, "listed": []}


def test_of_many_dirs_those_that_get_fullest_are_listed() -> None:
    brokers = brokers_with(*[log_dirs(*[number * GB] * 12) for number in range(1, 5)])
    rows = partition_rows([[1]] * 40, size=GB, log_dirs=[["/data1"]] * 40)
    found = in_json(drained(brokers, rows).consequences["log_dirs"])
    assert found["count"] == 48
    assert len(found["listed"]) == 20
    assert {one["broker"] for one in found["listed"]} == {4, 5}


def test_kafkas_own_choice_is_within_what_is_said_in_nine_of_ten_cases() -> None:
    chance = random.Random(7)
    sizes = [int(GB * chance.lognormvariate(0, 1.2)) for _ in range(120)]
    rows = [
        *partition_rows([[1]] * 120, size_bytes=sizes, log_dirs=[["/data1"]] * 120),
        *partition_rows([[2]] * 12, topic="old", log_dirs=[["/data1"]] * 5 + [["/data2"]] * 4 + [["/data3"]] * 3),
    ]
    plan = drained(brokers_with(log_dirs(*[100 * GB] * 3)), rows, partitions_per_batch=10)
    said = {one["path"]: one for one in listed(plan)}
    by_batch: dict[int, list[int]] = {}
    for move in plan.candidate.moves:
        by_batch.setdefault(move.batch, []).append(move.size_bytes)
    assert len(by_batch) >= 12
    ends: dict[str, list[int]] = {path: [] for path in said}
    for _ in range(400):
        counts, used = {"/data1": 5, "/data2": 4, "/data3": 3}, dict.fromkeys(said, 100 * GB)
        for batch in sorted(by_batch):
            for size in chance.sample(by_batch[batch], len(by_batch[batch])):
                path = min(counts, key=lambda one: (counts[one], chance.random()))
                counts[path] += 1
                used[path] += size
        for path, bytes_used in used.items():
            ends[path].append(bytes_used)
    for path, found in ends.items():
        assert fmean(found) == pytest.approx(said[path]["expected_bytes"], rel=0.01)
        within = fmean(end <= said[path]["nine_of_ten_bytes"] for end in found)
        assert 0.85 <= within <= 0.95, (path, within)
