"""The batch that the triggerer follows, beside the plan it was cut from."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest

from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ExecutionError, StorageError
from kafka_rebalance.moves.rolling_requests import Beside, Limits
from kafka_rebalance.rebalance.batch_file import followed, followed_beside, read_followed, write_followed
from kafka_rebalance.run import approved_plan
from support.runs.simulated_cluster import SimulatedCluster, SimulatedRun


def no_plan(*_: Any) -> None:
    raise AssertionError("the plan was read")


def test_it_is_what_the_plan_says(run: SimulatedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (followed(run.candidate, number) for number in (1, 2))
    assert len(first.batch.moves) == first.later == second.earlier == 2
    assert first.flow_later.received
    monkeypatch.setattr(approved_plan, "read_candidate", no_plan)
    for number, expected in ((1, first), (2, second)):
        write_followed(run.folder, run.candidate.digest, followed(run.candidate, number), is_in_plan=True)
        assert read_followed(run.folder, "light", number) == expected


def test_a_trigger_follows_it_without_the_plan(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.hold()
    assert run.request() == 1
    trigger = run.deferred.trigger
    trigger.poll_seconds = 0
    monkeypatch.setattr(approved_plan, "read_candidate", no_plan)
    cluster.controller.run()
    while cluster.step():
        pass

    async def fire() -> list[Any]:
        return [event.payload async for event in trigger.run()]

    assert asyncio.run(fire()) == [{"state": "done", "batch": 1, "message": ""}]


def test_what_may_be_requested_meanwhile_is_read_as_it_was_written(run: SimulatedRun) -> None:
    moves = run.candidate.moves
    flying = frozenset(move.topic_partition for move in moves[:2])
    watched = Beside(Limits(10, 250, 1000), moves[2:], flying, frozenset(sorted(flying)[:1]), frozenset({(2, "sends")}))
    batch = run.candidate.batches[0]
    one = followed_beside(run.candidate, batch, (), watched)
    write_followed(run.folder, run.candidate.digest, one, is_in_plan=False)
    assert read_followed(run.folder, "light", batch.number) == one
    written = json_files.read_json(run.folder, json_files.FOLLOWING)
    for name in ("flying", "freeing", "busiest"):
        del written[name]
    json_files.write_json(run.folder, json_files.FOLLOWING, written)
    earlier = read_followed(run.folder, "light", batch.number).beside
    assert earlier is not None
    assert not earlier.is_due(()), "an earlier version's does not tell what was in flight"


@pytest.mark.parametrize(
    "change",
    [
        {"batch": 1},
        {"source_digest": "0" * 64},
        {"moves": [["orders", 0]]},
        {"earlier": None},
        {"format_version": 2},
    ],
)
def test_the_plan_is_read_where_it_is_of_another_batch_or_damaged(run: SimulatedRun, change: dict[str, Any]) -> None:
    write_followed(run.folder, run.candidate.digest, followed(run.candidate, 2), is_in_plan=True)
    written = json_files.read_json(run.folder, json_files.FOLLOWING)
    json_files.write_json(run.folder, json_files.FOLLOWING, written | change)
    assert read_followed(run.folder, "light", 2) == followed(run.candidate, 2)


def test_the_plan_is_read_where_an_earlier_version_deferred(run: SimulatedRun) -> None:
    assert not (run.folder / json_files.FOLLOWING).exists()
    assert read_followed(run.folder, "light", 2) == followed(run.candidate, 2)
    with pytest.raises(ExecutionError, match="has no batch 9"):
        read_followed(run.folder, "light", 9)


def test_what_cannot_be_written_stops_no_batch(run: SimulatedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise StorageError("No space left on device")

    monkeypatch.setattr(json_files, "write_whole", full)
    write_followed(run.folder, run.candidate.digest, followed(run.candidate, 1), is_in_plan=True)
    assert read_followed(run.folder, "light", 1) == followed(run.candidate, 1)


def test_what_is_in_flight_of_several_batches_must_be_written(
    run: SimulatedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan does not tell it."""
    one = followed_beside(run.candidate, run.candidate.batches[0], (), None)

    def full(*_: Any, **__: Any) -> None:
        raise StorageError("No space left on device")

    monkeypatch.setattr(json_files, "write_whole", full)
    with pytest.raises(StorageError):
        write_followed(run.folder, run.candidate.digest, one, is_in_plan=False)


def test_the_triggerer_loads_neither_arrow_nor_numpy() -> None:
    code = "import sys, kafka_rebalance.workflow.triggers; sys.exit(bool({'pyarrow', 'numpy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
