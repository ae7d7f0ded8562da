"""A linear program that is solved again with other bounds of its columns."""

from __future__ import annotations

import numpy as np
import pytest

from kafka_rebalance.planning.bounds import solver


def test_a_program_that_is_solved_again_has_the_optimum_of_its_new_bounds_also_after_bounds_without_solution() -> None:
    """Least x + 2 y + 3 z with x + y + z = 1.5, each at most 1."""
    ones, three = np.ones(3), np.arange(3)
    program = solver.Program(
        np.array([1.0, 2.0, 3.0]), ones, np.array([1.5]), np.array([1.5]), np.zeros(3, dtype=np.int64), three, ones
    )
    repeated = solver.Repeated(program, {})
    first = repeated.solve(np.zeros(3), ones)
    assert first.x == pytest.approx([1.0, 0.5, 0.0])
    assert not repeated.solve(ones, ones).optimal
    again = repeated.solve(np.array([0.0, 0.0, 1.0]), ones)
    assert again.optimal
    assert again.x == pytest.approx([0.5, 0.0, 1.0])
    assert again.cost == pytest.approx(3.5)
