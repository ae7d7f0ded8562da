"""What HiGHS refuses is an error: it raises nothing itself, and goes on with another program or other options."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import highspy
import numpy as np
import pytest

from kafka_rebalance.planning import candidates
from kafka_rebalance.planning.bounds import lp_bound, solver
from kafka_rebalance.planning.search import optimal

ONES = np.ones(3)
# Least x + 2 y + 3 z with x + y + z = 1.5, each at most 1.
PROGRAM = solver.Program(
    np.array([1.0, 2.0, 3.0]), ONES, ONES[:1] * 1.5, ONES[:1] * 1.5, np.zeros(3, dtype=np.int64), np.arange(3), ONES
)


@pytest.mark.parametrize("option", [{"mip_rel_gapp": 0.1}, {"mip_rel_gap": -1.0}, {"threads": "one"}])
def test_an_option_that_highs_does_not_take_is_an_error_with_its_name(option: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(option))):
        solver.solve(PROGRAM, option)
    with pytest.raises(ValueError, match=next(iter(option))):
        solver.Repeated(PROGRAM, option)


@pytest.mark.parametrize(
    "options",
    [
        optimal.EFFORT,
        optimal.RELAXED,
        optimal._RELAXED,
        optimal._AGAIN,
        lp_bound._EFFORT,
        candidates._RELAXED,
        candidates._STEP,
        {"mip_max_nodes": 5},
    ],
)
def test_highs_knows_every_option_that_we_use(options: solver.Options) -> None:
    assert solver.solve(PROGRAM, options).x == pytest.approx([1.0, 0.5, 0.0])


def test_a_program_that_highs_does_not_take_is_an_error() -> None:
    with pytest.raises(solver.SolverError, match="refused the program"):
        solver.solve(replace(PROGRAM, columns=np.array([0, 0, 1])), {})  # an entry twice


def test_a_run_that_ends_with_an_error_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(highspy.Highs, "run", lambda _: highspy.HighsStatus.kError)
    with pytest.raises(solver.SolverError, match="could not solve"):
        solver.solve(PROGRAM, {})


def test_a_limit_that_is_reached_is_no_error() -> None:
    found = solver.solve(PROGRAM, {"simplex_iteration_limit": 0, "presolve": "off"})
    assert not found.optimal
