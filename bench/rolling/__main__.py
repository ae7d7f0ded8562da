"""How long plans take on paper without ZooKeeper: `make bench-rolling` writes it into docs/evidence/plans.md.

The plans are those of `bench.planner`. Moves are added as others end, by the product's own rules, where somebody looks
as often as a real run. Batches one after the other are what a request znode needs.
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
from bench.rolling.runs import roll
from bench.scoring import makespan_ratio, read_cluster, read_moves
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.moves.eta import busiest_bytes
from kafka_rebalance.moves.rolling_requests import Limits
from kafka_rebalance.planning.tables.result_tables import read_candidate

SECTION = "bench-rolling"
# The policy's default rate, and what the follower waits at most between two looks. A slower rate has more looks.
BYTES_PER_SECOND, LOOK_SECONDS = 100_000_000, 15


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.rolling", description=__doc__.splitlines()[0])
    parser.add_argument("sizes", nargs="+", choices=SIZES)
    parser.add_argument("--only", nargs="+", default=[], metavar="SCENARIO", help="such as add or drain")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--partitions", type=int, default=0, help="in flight at most")
    parser.add_argument("--plans", type=Path, metavar="FOLDER", help="keep the plans here, and make only those missing")
    parser.add_argument("--print-only", action="store_true", help="leave docs/ as it is")
    asked = parser.parse_args(arguments)
    lines = [
        "",
        "| cluster | ε | moves | looks | batches ÷ bound | rolling ÷ bound | requests |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    with tempfile.TemporaryDirectory() as scratch:
        folder = asked.plans or Path(scratch)
        for case in cases(asked.sizes, asked.seeds, folder):
            if asked.only and case.scenario not in asked.only:
                continue
            out, began = folder / f"{case.snapshot.name}-{case.tolerance}", time.monotonic()
            if not out.exists():
                planned(case, out)
            plan = read_candidate(out, CANDIDATE)
            batches = makespan_ratio(read_cluster(case.snapshot), read_moves(out, CANDIDATE))
            looks = max(1, round(busiest_bytes(plan.moves) / BYTES_PER_SECOND / LOOK_SECONDS))
            settings = Settings(partitions_per_batch=asked.partitions).for_brokers(SIZES[case.size].brokers)
            limits = Limits(settings.copies[0], settings.partitions_per_batch, settings.leader_changes_per_batch)
            run = roll(plan.moves, limits, looks=looks)
            lines.append(
                f"| {case.size} {case.scenario} | {case.tolerance:.0%} | {len(plan.moves):,} | {looks:,} | "
                f"{batches:.3f} | {run.over_bound:.3f} | {run.requests:,} |"
            )
            print(f"{time.monotonic() - began:4.0f} s  {lines[-1]}", flush=True)
    if not (asked.print_only or asked.only):
        write_section(SECTION, lines)


if __name__ == "__main__":
    # Like Ctrl-C: ends all that was started, and removes its folder.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    main()
