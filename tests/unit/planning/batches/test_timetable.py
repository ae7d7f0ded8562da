"""Who receives and sends when: checked against the batches as they run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kafka_rebalance.planning.batches.schedule import BATCHES_LISTED, BROKERS_LISTED, SLOTS, timetable
from support.documents.as_in_a_file import in_json
from support.plans.batch_runs import run_batches
from support.plans.small_snapshots import broker_rows, partition_rows, plan_of

IDS = np.array([1, 2, 3])


def of(received: list[list[float]], sent: list[list[float]]) -> dict[str, Any]:
    return in_json(timetable(IDS, np.arange(len(received)), np.array(received), np.array(sent)))


def test_a_batch_lasts_as_long_as_its_busiest_broker() -> None:
    found = of([[0, 30, 0], [0, 0, 10]], [[30, 0, 0], [10, 0, 0]])
    assert [(one["begins"], one["lasts"], one["busiest"]) for one in found["batches"]] == [
        (0, 0.75, 1),
        (0.75, 0.25, 1),
    ]
    first, second, third = found["brokers"]
    assert (first["broker"], first["sent_bytes"], first["busy"]) == (1, 40, 1.0)
    assert (first["first_batch"], first["last_batch"]) == (1, 2)
    assert (second["broker"], second["received_bytes"], second["busy"], second["last_batch"]) == (2, 30, 0.75, 1)
    assert (third["broker"], third["first_batch"], third["last_batch"]) == (3, 2, 2)
    assert second["in"] == [1.0] * 45 + [0.0] * 15
    assert third["in"] == [0.0] * 45 + [1.0] * 15
    assert first["out"] == [1.0] * SLOTS
    assert first["in"] == [0.0] * SLOTS


def test_a_lane_is_filled_by_the_share_of_the_throttle_that_is_used() -> None:
    found = of([[0, 30, 15]], [[30, 0, 0]])
    assert next(one for one in found["brokers"] if one["broker"] == 3)["in"] == [0.5] * SLOTS


def test_what_copies_nothing_takes_no_time() -> None:
    found = in_json(timetable(IDS, np.array([0, 0]), np.zeros((1, 3)), np.zeros((1, 3))))
    assert found["batches"] == [
        {"number": 1, "partitions": 2, "bytes": 0, "begins": 0.0, "lasts": 0.0, "busiest": None}
    ]
    assert (found["brokers"], found["broker_count"]) == ([], 0)
    nothing = in_json(timetable(IDS, np.array([], dtype=np.int64), np.zeros((0, 3)), np.zeros((0, 3))))
    assert (nothing["batches"], nothing["batch_count"], nothing["brokers"]) == ([], 0, [])


def test_of_many_brokers_and_batches_some_are_listed_and_all_are_counted() -> None:
    many, batches = BROKERS_LISTED + 3, BATCHES_LISTED + 3
    received = np.tile(np.arange(1.0, many + 1), (batches, 1))
    found = in_json(timetable(np.arange(many), np.arange(batches), received, np.zeros_like(received)))
    assert [one["broker"] for one in found["brokers"]] == list(range(many - 1, 2, -1))
    assert (found["broker_count"], found["batch_count"]) == (many, batches)
    assert [one["number"] for one in found["batches"]] == list(range(1, BATCHES_LISTED + 1))


@pytest.mark.parametrize("per_batch", [3, 100])
def test_a_plan_says_what_its_moves_give(per_batch: int) -> None:
    lists = [[1, 2], [2, 3], [3, 1]] * 8
    rows = partition_rows(lists, size_bytes=[1_000_000 * (1 + number % 5) for number in range(24)])
    plan = plan_of(broker_rows([1, 2, 3, 4, 5]), rows, partitions_per_batch=per_batch)
    held = {broker: sum(row["size_bytes"] for row in rows if broker in row["replicas"]) for broker in (1, 2, 3, 4, 5)}
    found, runs = in_json(plan.consequences["timetable"]), run_batches(plan.candidate.moves, held)
    assert found["batch_count"] == len(runs)
    assert [one["partitions"] for one in found["batches"]] == [
        sum(move.batch == number for move in plan.candidate.moves) for number in range(1, len(runs) + 1)
    ]
    assert sum(one["bytes"] for one in found["batches"]) == plan.candidate.summary["moved_bytes"]
    for one in found["brokers"]:
        moves = [move for move in plan.candidate.moves if one["broker"] in move.added]
        assert one["received_bytes"] == sum(move.size_bytes for move in moves)
        from_here = [move for move in plan.candidate.moves if move.before[0] == one["broker"]]
        assert one["sent_bytes"] == sum(move.bytes_to_copy for move in from_here)
