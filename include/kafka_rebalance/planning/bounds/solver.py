"""HiGHS: a linear or mixed-integer program in, the solution with its proof out.

This module imports `highspy` only to solve a program, because `highspy` may be missing. Callers ask `available` first.
Iterations and nodes limit the effort, never seconds, so that the same program has the same answer on every machine.

HiGHS raises nothing. It returns a status, prints the reason, and goes on without what it did not take. So every status
is checked here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from kafka_rebalance.planning.problem.arrays import Bools, Floats, Ints

if TYPE_CHECKING:
    import highspy

Options = Mapping[str, bool | int | float | str]  # HiGHS's own


class SolverError(RuntimeError):
    """HiGHS refused a program, or could not solve it."""


def available() -> bool:
    return find_spec("highspy") is not None


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """Least cost @ x, with low <= A @ x <= high and 0 <= x <= upper. A has `values` at (`rows`, `columns`)."""

    cost: Floats
    upper: Floats
    low: Floats
    high: Floats
    rows: Ints
    columns: Ints
    values: Floats
    integral: Bools | None = None  # [column] whether it must be whole

    def breach(self, x: Floats) -> float:
        """By how much x breaks the row that it breaks most; 0 if it keeps all."""
        row = np.bincount(self.rows, self.values * x[self.columns], minlength=len(self.low))
        return float(max(0.0, (self.low - row).max(initial=0.0), (row - self.high).max(initial=0.0)))

    def part(self, free: Bools, x: Floats) -> Program:
        """The program over the `free` columns alone, while the others keep the values of x."""
        mine, number = free[self.columns], np.cumsum(free) - 1
        rest = np.bincount(self.rows[~mine], self.values[~mine] * x[self.columns[~mine]], minlength=len(self.low))
        kept, rows = np.unique(self.rows[mine], return_inverse=True)
        return Program(
            self.cost[free],
            self.upper[free],
            (self.low - rest)[kept],
            (self.high - rest)[kept],
            rows,
            number[self.columns[mine]],
            self.values[mine],
            None if self.integral is None else self.integral[free],
        )


def relaxed(program: Program) -> Program:
    """The program, whose columns need not be whole."""
    return replace(program, integral=None)


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """What the solver found. `x` is None where it found nothing."""

    optimal: bool  # proven within the gap of the options
    infeasible: bool
    x: Floats | None
    cost: float
    bound: float  # no solution costs less; only of an integral program
    prices: Floats  # [row] dual values; only of a linear program


def solve(program: Program, options: Options, start: Floats | None = None) -> Solution:
    """Solves with one thread and a fixed seed. `start` is a solution to better, of an integral program.

    Raises ValueError for an option that HiGHS does not know, and SolverError.
    """
    import highspy

    solver = _with_model(program, options)
    if start is not None:
        known = highspy.HighsSolution()
        known.col_value = start.tolist()
        known.value_valid = True
        _check(solver.setSolution(known), "the solution to begin with")
    return _solved(solver)


class Repeated:
    """A linear program that is solved again with other bounds of its columns, each time from the last optimum."""

    def __init__(self, program: Program, options: Options) -> None:
        self._solver = _with_model(program, options)
        self._low, self._upper = np.zeros(len(program.cost)), program.upper.copy()
        self._basis: highspy.HighsBasis | None = None

    def solve(self, low: Floats, upper: Floats) -> Solution:
        changed = np.flatnonzero((low != self._low) | (upper != self._upper)).astype(np.int32)
        if len(changed):
            bounds = low[changed], upper[changed]
            _check(self._solver.changeColsBounds(len(changed), changed, *bounds), "other bounds of columns")
        self._low, self._upper = low.copy(), upper.copy()
        found = _solved(self._solver)
        if found.optimal:
            self._basis = self._solver.getBasis()
        elif self._basis is not None:
            _check(self._solver.setBasis(self._basis), "the last basis")
        return found


def _with_model(program: Program, options: Options) -> highspy.Highs:
    import highspy

    solver = highspy.Highs()
    for name, value in {"output_flag": False, "threads": 1, "random_seed": 0, **options}.items():
        # A value out of range is an error too. A warning would leave the option as it was.
        if solver.setOptionValue(name, value) != highspy.HighsStatus.kOk:
            raise ValueError(f"HiGHS {highspy.Highs().version()} has no option {name} with the value {value!r}.")
    order = np.lexsort((program.rows, program.columns))
    counts = np.bincount(program.columns, minlength=len(program.cost))
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(program.cost), len(program.low)
    lp.col_cost_ = program.cost
    lp.col_lower_, lp.col_upper_ = np.zeros(len(program.cost)), program.upper
    lp.row_lower_, lp.row_upper_ = program.low, program.high
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    lp.a_matrix_.index_ = program.rows[order].astype(np.int32)
    lp.a_matrix_.value_ = program.values[order]
    if program.integral is not None:
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        lp.integrality_ = [kinds[int(whole)] for whole in program.integral]
    _check(solver.passModel(lp), "the program")
    return solver


def _check(status: highspy.HighsStatus, what: str) -> None:
    """Raises SolverError. A warning is none: limits are reached, and values too small to matter are left out."""
    import highspy

    if status == highspy.HighsStatus.kError:
        raise SolverError(f"HiGHS {highspy.Highs().version()} refused {what}.")


def _solved(solver: highspy.Highs) -> Solution:
    import highspy

    if solver.run() == highspy.HighsStatus.kError:
        state = solver.modelStatusToString(solver.getModelStatus())
        raise SolverError(f"HiGHS {solver.version()} could not solve a program (model status {state!r}).")
    status, info, found = solver.getModelStatus(), solver.getInfo(), solver.getSolution()
    is_integral = len(solver.getLp().integrality_) > 0
    is_feasible = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible.value
    return Solution(
        optimal=status == highspy.HighsModelStatus.kOptimal,
        infeasible=status == highspy.HighsModelStatus.kInfeasible,
        # Values of an integral program are none unless they keep its rows: a start that keeps them not may come back.
        x=np.array(found.col_value) if found.value_valid and (is_feasible or not is_integral) else None,
        cost=float(info.objective_function_value),
        bound=float(info.mip_dual_bound),
        prices=np.array(found.row_dual) if found.dual_valid else np.zeros(0),
    )
