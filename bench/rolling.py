"""How long plans take on paper without ZooKeeper: `make bench-rolling` writes it into docs/benchmarks.md.

The plans are those of `bench.planner`. Moves are added as others end, by the product's own rules, where somebody looks
every thousandth of the least time. Batches one after the other are what a request znode needs.
"""

from __future__ import annotations

import argparse
import signal
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.clusters import SIZES
from bench.pages import write_section
from bench.planner import CANDIDATE, cases, planned
from bench.rolling_runs import roll
from bench.scoring import makespan_ratio, read_cluster, read_moves
from kafka_rebalance.execution.rolling import Limits
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.tables.result_tables import read_candidate

SECTION, LOOKS = "bench-rolling", 1000


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.rolling", description=__doc__.splitlines()[0])
    parser.add_argument("sizes", nargs="+", choices=SIZES)
    parser.add_argument("--only", nargs="+", default=[], metavar="SCENARIO", help="such as add or drain")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--looks", type=int, default=LOOKS, help="in the least time that a plan can take")
    parser.add_argument("--print-only", action="store_true", help="leave docs/ as it is")
    asked = parser.parse_args(arguments)
    default = Settings()
    limits = Limits(default.copies_per_broker, default.partitions_per_batch, default.leader_changes_per_batch)
    lines = [
        "",
        "| cluster | ε | moves | batches ÷ bound | rolling ÷ bound | requests |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    with tempfile.TemporaryDirectory() as scratch:
        for case in cases(asked.sizes, asked.seeds, Path(scratch)):
            if asked.only and case.scenario not in asked.only:
                continue
            out, began = Path(scratch) / f"{case.snapshot.name}-{case.tolerance}", time.monotonic()
            planned(case, out)
            plan = read_candidate(out, CANDIDATE)
            batches = makespan_ratio(read_cluster(case.snapshot), read_moves(out, CANDIDATE))
            run = roll(plan.moves, limits, looks=asked.looks)
            lines.append(
                f"| {case.size} {case.scenario} | {case.tolerance:.0%} | {len(plan.moves):,} | "
                f"{batches:.3f} | {run.over_bound:.3f} | {run.requests:,} |"
            )
            print(f"{time.monotonic() - began:4.0f} s  {lines[-1]}", flush=True)
    if not (asked.print_only or asked.only):
        write_section(SECTION, lines)


if __name__ == "__main__":
    # Like Ctrl-C: ends all that was started, and removes its folder.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    main()
