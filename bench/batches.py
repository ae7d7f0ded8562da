"""How long batches last on paper, and what no batches of so many partitions can stay below.

The plans are those of `bench.planner`: `python -m bench.batches XL`, or with larger batches `--partitions 500`. It
prints a table, and writes nothing.
"""

from __future__ import annotations

import argparse
import signal
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.clusters import SCENARIOS, SIZES
from bench.planner import CANDIDATE, cases, planned
from bench.scoring import least_makespan_ratio, makespan_ratio, read_cluster, read_moves
from kafka_rebalance.model.settings import Settings, copies_limit


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.batches", description=__doc__.splitlines()[0])
    parser.add_argument("sizes", nargs="+", choices=SIZES)
    parser.add_argument("--only", nargs="+", default=SCENARIOS, choices=SCENARIOS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--partitions", type=int, help="in a batch at most")
    parser.add_argument(
        "--copies", type=int, default=0, help="of a broker at once; 0: ten, and twenty where that is faster"
    )
    asked = parser.parse_args(arguments)
    print("| cluster | ε | partitions a batch | batches | makespan ÷ bound | no batches below |")
    print("|---|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as scratch:
        for case in cases(asked.sizes, asked.seeds, Path(scratch)):
            if case.scenario not in asked.only:
                continue
            out = Path(scratch) / f"{case.snapshot.name}-{case.tolerance}"
            brokers = SIZES[case.size].brokers
            partitions = Settings(partitions_per_batch=asked.partitions or 0).for_brokers(brokers).partitions_per_batch
            planned(case, out, partitions_per_batch=partitions, copies_per_broker=asked.copies)
            cluster, moves = read_cluster(case.snapshot), read_moves(out, CANDIDATE)
            least = least_makespan_ratio(cluster, moves, partitions, copies_limit(asked.copies))
            print(
                f"| {case.size} {case.scenario} | {case.tolerance:.0%} | {partitions} | {max(moves.batch)} | "
                f"{makespan_ratio(cluster, moves):.3f} | {least:.3f} |",
                flush=True,
            )


if __name__ == "__main__":
    # Like Ctrl-C: ends all that was started, and removes its folder.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    main()
