"""The order of the planning job's tasks, without a Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_rebalance.model.settings import BALANCED, LEADERS_ONLY, LIGHT
from kafka_rebalance.planning.candidates import propose
from kafka_rebalance.planning.planner import Stopwatch
from kafka_rebalance.spark import job
from support.plans.small_snapshots import broker_rows, partition_rows, problem_of

DEADLINE = 30.0  # seconds
ALONE: Any = SimpleNamespace(sparkContext=SimpleNamespace(broadcast=lambda value: SimpleNamespace(value=value)))


def test_a_candidate_is_described_while_the_search_of_another_has_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: Counter[str] = Counter()
    described = Event()

    def each(_: Any, work: Callable[[Any], Any], inputs: Sequence[Any]) -> list[Any]:
        name = inputs[0][0]
        calls[name] += 1
        if (name, calls[name]) == (BALANCED, 1):
            assert described.wait(DEADLINE), "the search of balanced ends only when leaders_only is described"
        results = [work(one) for one in inputs]
        if (name, calls[name]) == (LEADERS_ONLY, 2):
            described.set()
        return results

    monkeypatch.setattr(job, "_each", each)
    problem, watch = problem_of(broker_rows([1, 2, 3]), partition_rows([[1, 2]] * 6)), Stopwatch()
    names = (LEADERS_ONLY, LIGHT, BALANCED)
    plans = job.propose_on(ALONE, problem, names, watch)
    assert [plan.candidate for plan in plans] == [propose(problem, name).candidate for name in names]
    assert all(set(taken) == {*names} for taken in (watch.seconds, watch.cpu_seconds))
