"""A candidate that raises an error on an executor: it has failed, and the others stand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafka_rebalance.errors import PlanningError
from kafka_rebalance.planning.candidates import check_some_stand
from kafka_rebalance.planning.planner import Stopwatch
from kafka_rebalance.planning.problem.arrays import Problem
from kafka_rebalance.spark.job import propose_on
from support.plans.small_snapshots import broker_rows, partition_rows, problem_of


def with_plan(words: str) -> Problem:
    """A cluster with a given plan that nobody has checked before."""
    problem = problem_of(broker_rows([1, 2, 3, 4]), partition_rows([[1, 2], [2, 3], [3, 1]] * 4))
    return replace(problem, settings=replace(problem.settings, plan=words))


def test_an_error_on_an_executor_is_that_of_one_candidate(spark: Any) -> None:
    given, light = propose_on(spark("local[1]"), with_plan("{"), ["given", "light"], Stopwatch())
    assert given.candidate.status == "failed"
    assert "Expecting property name" in given.note or "JSON" in given.note
    assert "Traceback" not in given.note
    assert light.candidate.status == "ok"
    assert light.candidate.moves


def test_if_every_candidate_fails_on_spark_the_job_fails_with_the_errors(spark: Any) -> None:
    plans = propose_on(spark("local[1]"), with_plan("{"), ["given"], Stopwatch())
    with pytest.raises(PlanningError):
        check_some_stand(plans)
