"""The planner's whole job in one process, with the CPU seconds of each step.

`python -m bench.spark.whole_steps SNAPSHOT OUT` prints them; `bench.spark.whole_job` runs it in a process of its own.
What comes after a search is split by the functions that compute it.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.batches import schedule as batches
from kafka_rebalance.planning.candidates import chosen, described, searched, searches_of
from kafka_rebalance.planning.describe import described_candidate as description
from kafka_rebalance.planning.describe.described_candidate import DescribedCandidate
from kafka_rebalance.planning.describe.sharper_bound import with_sharper_bounds
from kafka_rebalance.planning.planner import offered, prepare, write_results

# The part of the description, the module that calls, and the functions that it calls for that part alone.
PARTS: tuple[tuple[str, Any, tuple[str, ...]], ...] = (
    ("reasons and lists", description, ("_moves",)),
    ("znodes", description, ("rewrites",)),
    ("batches: filled", batches, ("pieces", "filled_batches", "one_after_another")),
    ("batches: made shorter", batches, ("levelled",)),
    ("batches: order, disks, times", batches, ("in_safe_order", "disk_use", "timetable", "bytes_by_batch")),
    ("shortfall, before and after", description, ("_status_and_notes", "shortfall", "_shortfall_now")),
    ("worst case, way back, log dirs", description, ("worst_case", "way_back", "log_dir_peaks")),
    ("digest", description, ("candidate_digest",)),
)
REST = "loads, scores, groups and the rest"


class Clock:
    """CPU seconds of this process by step. The parts within a step count for themselves alone."""

    def __init__(self) -> None:
        self.spent: defaultdict[str, float] = defaultdict(float)
        self._inner = [0.0]

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        began = time.process_time()
        self._inner.append(0.0)
        try:
            yield
        finally:
            whole = time.process_time() - began
            self.spent[name] += whole - self._inner.pop()
            self._inner[-1] += whole

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **named: Any) -> Any:
            with self.step(name):
                return function(*arguments, **named)

        return run


def steps_of(snapshot: Path, out: Path, settings: Settings) -> dict[str, Any]:
    """The CPU seconds by step, of all candidates together; the replicas, and the moves and batches of the last one."""
    clock = Clock()
    with clock.step("read"):
        problem = prepare(snapshot, settings)
    plans: list[DescribedCandidate] = []
    with ExitStack() as patches:
        for part, module, names in PARTS:
            for name in names:
                timed = clock.timed(part, getattr(module, name))
                patches.enter_context(mock.patch.object(module, name, timed))
        for name in offered(problem):
            with clock.step(f"search of {name}"):
                searches = [searched(problem, name, search) for search in searches_of(problem, name)]
                found = chosen(problem, name, searches)
            with clock.step(REST):
                plans.append(described(problem, name, found))
    with clock.step("bounds"):
        plans = list(with_sharper_bounds(problem, plans))
    with clock.step("write"):
        write_results(out, problem, plans)
    last = plans[-1].candidate
    return {
        "steps": dict(clock.spent),
        "replicas": int((problem.replicas >= 0).sum()),
        "moves": len(last.moves),
        "batches": last.summary["batches"],
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.spark.whole_steps", description=__doc__.splitlines()[0])
    parser.add_argument("snapshot", type=Path)
    parser.add_argument("out", type=Path)
    asked = parser.parse_args(arguments)
    (asked.out / "steps.json").write_text(json.dumps(steps_of(asked.snapshot, asked.out, Settings())))


if __name__ == "__main__":
    main()
