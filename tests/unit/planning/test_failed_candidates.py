"""A candidate whose computation raises an error: it has failed, and the others stand."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kafka_rebalance.errors import PlanningError
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning import planner
from kafka_rebalance.planning.bounds import solver
from kafka_rebalance.planning.planner import run
from kafka_rebalance.planning.tables.read_problem import write_snapshot
from support.plans.small_snapshots import broker_rows, partition_rows, problem_of

BROKERS, LISTS = broker_rows([1, 2, 3, 4]), partition_rows([[1, 2], [2, 3], [3, 1]] * 4)


class UnreadableError(Exception):
    """Its words have two lines, as those of many libraries."""


def planned(folder: Path, **settings: Any) -> Mapping[str, Any]:
    """The candidates of proposals.json by name, and as `told` the whole file."""
    folder.mkdir(exist_ok=True)
    write_snapshot(folder, BROKERS, LISTS)
    run(folder, folder, Settings.from_mapping(settings))
    found = json.loads((folder / "proposals.json").read_text())
    return {one["name"]: one for one in found["candidates"]} | {"told": found}


def fails_for(step: str, *names: str, patch: pytest.MonkeyPatch) -> None:
    """This step of planning raises an error for these candidates."""
    whole: Callable[..., Any] = getattr(planner, step)

    def broken(problem: Any, name: str, *rest: Any) -> Any:
        if name in names:
            raise UnreadableError(f"no {name}\n  at line 3")
        return whole(problem, name, *rest)

    patch.setattr(planner, step, broken)


@pytest.mark.parametrize("step", ["searched", "chosen", "described"])
def test_a_candidate_that_raises_has_failed_with_its_error_and_the_others_stand(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"candidates": ["leaders_only", "light", "balanced"]}
    alone = planned(tmp_path / "sound", **asked)
    fails_for(step, "balanced", patch=monkeypatch)
    found = planned(tmp_path / "one_fails", **asked)
    assert (found["balanced"]["status"], found["balanced"]["note"]) == (
        "failed",
        "UnreadableError: no balanced at line 3",
    )
    assert not found["balanced"]["moved_replicas"]
    for name in ("leaders_only", "light"):
        assert found[name] == alone[name]
    assert alone["told"]["recommended"] == "balanced"
    assert found["told"]["recommended"] == "light"
    assert found["told"]["ranking"][0] == "light"


def test_if_all_candidates_fail_planning_fails_with_every_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails_for("searched", "leaders_only", "light", "balanced", "optimal", patch=monkeypatch)
    with pytest.raises(PlanningError, match=r"light: UnreadableError: no light at line 3\. .*Nothing was planned"):
        planned(tmp_path)


def test_what_all_candidates_refuse_alike_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: Any) -> Any:
        raise PlanningError("Broker 4 cannot replace broker 1. Nothing was planned. Choose another broker.")

    monkeypatch.setattr(planner, "searched", refuses)
    with pytest.raises(PlanningError, match=r"^Broker 4 cannot replace broker 1\. Nothing was planned\. Choose"):
        planned(tmp_path)


def test_that_all_candidates_failed_is_not_told_as_an_impossible_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails_for("searched", "light", "balanced", "optimal", patch=monkeypatch)
    told = planned(tmp_path, job="drain", drain=[4])["told"]
    assert told["recommended"] is None
    assert told["recommendation"]["why"] == "candidates_failed"


def test_the_nightly_question_has_an_answer_though_one_candidate_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    propose = planner.propose

    def broken(problem: Any, name: str) -> Any:
        if name == "light":
            raise UnreadableError("no light")
        return propose(problem, name)

    monkeypatch.setattr(planner, "propose", broken)
    found = planner.can_be_more_even(problem_of(BROKERS, LISTS), ("replicas",), 0.2)
    assert found["replicas"].can_help


@pytest.mark.parametrize("setting", [{"brokers_in": "new"}, {"brokers_in": [27, 28]}])
def test_two_receivers_of_28_brokers_get_a_plan(setting: dict[str, Any], tmp_path: Path) -> None:
    """The steps of the solver look at some brokers at a time, and most of them may receive nothing."""
    brokers = broker_rows(range(1, 29))
    rng = np.random.default_rng(9)
    rows = partition_rows([[int(rng.integers(1, 27))] for _ in range(150)])
    for row, size in zip(rows, rng.lognormal(20, 1.5, 150), strict=True):
        row["size_bytes"] = int(size)
    write_snapshot(tmp_path, brokers, rows)
    (plan,) = run(tmp_path, tmp_path, Settings.from_mapping({"candidates": ["balanced"], **setting}))
    assert plan.candidate.status in ("ok", "partial")
    assert plan.candidate.moves
    assert {broker for move in plan.candidate.moves for broker in move.added} <= {27, 28}


def test_a_solver_that_refuses_to_work_leaves_the_plan_as_it_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: Any) -> Any:
        raise solver.SolverError("HiGHS refused the program.")

    monkeypatch.setattr(solver, "solve", refuses)
    found = planned(tmp_path)
    assert found["balanced"]["status"] == "ok"
    assert (found["optimal"]["status"], found["optimal"]["note"]) == (
        "failed",
        "SolverError: HiGHS refused the program.",
    )
