"""Plans newly drawn odd clusters, and has each plan judged: `python -m bench.odd_clusters [--seed S] [--clusters N]`.

It prints the seed, so that a finding can be drawn again. `--only K` draws cluster number K alone, and keeps its files.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import random
import re
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench.odd_clusters.drawn import draw
from bench.odd_clusters.judge import findings
from kafka_rebalance.planning.__main__ import main as plan


class Outcome(NamedTuple):
    findings: list[str]
    refusal: str | None  # in the planner's words; None: it has planned
    seconds: float


def seed_of(seed: int, number: int) -> int:
    """The seed of one cluster of a run."""
    return seed * 1_000_003 + number


def outcome(seed: int, folder: Path) -> Outcome:
    """Draws the cluster of this seed into the folder, plans it as the command line does, and judges the plans."""
    cluster, began, said = draw(seed), time.perf_counter(), io.StringIO()
    cluster.write(folder)
    arguments = ["--snapshot", str(folder), "--out", str(folder / "out"), "--settings", str(folder / "settings.json")]
    try:
        with contextlib.redirect_stderr(said):
            code = plan(arguments)
        wrong = [] if code else findings(cluster, folder / "out")
    except Exception:  # a crash is what this looks for
        code, wrong = 0, [f"crash: {traceback.format_exc().strip()}"]
    refusal = said.getvalue().strip().splitlines()[-1] if code else None
    return Outcome(wrong, refusal, time.perf_counter() - began)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.odd_clusters")
    parser.add_argument("--seed", type=int, help="of all clusters; drawn anew by default")
    parser.add_argument("--clusters", type=int, default=200)
    parser.add_argument("--only", type=int, help="the number of one cluster; its files stay in build/odd_clusters")
    options = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    numbers = range(options.clusters) if options.only is None else [options.only]
    refusals: Counter[str] = Counter()
    wrong, seconds, slowest = 0, 0.0, 0.0
    with contextlib.ExitStack() as stack:
        folder = Path("build/odd_clusters")
        if options.only is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for number in numbers:
            found = outcome(seed_of(seed, number), folder / str(number))
            seconds, slowest = seconds + found.seconds, max(slowest, found.seconds)
            if found.refusal is not None:
                refusals[re.sub(r"[\d,]+", "N", found.refusal)[:90]] += 1
            for finding in found.findings:
                print(f"cluster {number}: {finding}", flush=True)
            wrong += bool(found.findings)
    for words, count in refusals.most_common():
        print(f"{count:4} refused: {words}")
    planned = len(numbers) - refusals.total()
    print(
        f"{planned} of {len(numbers)} clusters planned, {wrong} with findings; {seconds:.0f} s, slowest {slowest:.0f} s"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
