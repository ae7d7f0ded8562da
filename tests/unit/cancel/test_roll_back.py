"""The way back: which recorded lists are asked for again, and what is left out with its reason."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from kafka_rebalance.cancel.roll_back import plan_roll_back
from kafka_rebalance.model.partition import TopicIdentity
from support.kafka.small_clusters import move, partition, tp, view

MOVED = move("t-0", [1, 2], [3, 2], size=100)
RECORDED = {"t": TopicIdentity(None, 10)}


def way_back(now: Any, *moves: Any, **others: Any) -> Any:
    return plan_roll_back(
        moves or [MOVED], view({"t-0": now} if not isinstance(now, dict) else now, **others), RECORDED
    )


def test_the_way_back_is_the_recorded_list_in_its_order_as_kafkas_tool_takes_it() -> None:
    back = way_back(partition([3, 2]))
    assert json.loads(back.plan)["partitions"] == [
        {"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "any"]}
    ]
    assert (back.bytes_to_copy, back.left_out, back.unchanged) == (100, (), 0)


def test_bytes_are_those_of_the_leader_now() -> None:
    sizes = {tp("t-0"): {3: 250, 2: 90}}
    assert plan_roll_back([MOVED], view({"t-0": partition([3, 2])}), RECORDED, sizes).bytes_to_copy == 250


def test_a_partition_that_was_not_moved_stays_and_one_that_was_cancelled_gets_its_order() -> None:
    assert way_back(partition([1, 2])).unchanged == 1
    (back,) = way_back(partition([2, 1])).moves
    assert (back.after, back.bytes_to_copy) == ((1, 2), 0)


@pytest.mark.parametrize(
    ("now", "others", "why"),
    [
        (partition([4, 2]), {}, r"has replicas \[4, 2\], which somebody else"),
        (partition([3, 2], czxid=11), {}, "deleted and made again"),
        (partition([3, 2]), {"brokers": (2, 3, 4)}, "was on broker 1, which is not registered: start it"),
        (partition([3, 2]), {"reassigning": {"t-0": [4, 2]}}, "is being reassigned"),
        (partition([4, 3, 2], adding=[4], removing=[3]), {}, "is being reassigned"),
    ],
)
def test_what_cannot_go_back_is_left_out_and_says_why(now: Any, others: Any, why: str) -> None:
    back = way_back(now, **others)
    assert back.moves == ()
    assert re.search(why, back.left_out[0])
    assert back.left_out[0].startswith("t-0 ")


def test_a_topic_that_is_gone_does_not_hold_up_the_others() -> None:
    other = move("u-0", [1, 2], [3, 2])
    back = plan_roll_back([MOVED, other], view({"u-0": partition([3, 2])}), {})
    assert [str(one.topic_partition) for one in back.moves] == ["u-0"]
    assert back.left_out == ("t-0 no longer exists",)
