"""What execution costs: `make bench-execution` writes it into docs/evidence/execution.md.

It moves thousands of empty partitions in one plan with the product. Between the product's batches it writes the same
kind of batches bare: each as soon as the one before has gone, and nothing else. The cluster is three real brokers on
this machine.
"""

from __future__ import annotations

import argparse
import logging
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.execution.cluster import LOCK, Bare, Created, make_topics, started
from bench.execution.ours import Ours, set_up_airflow
from bench.pages import write_section

SECTION = "bench-execution"
BARE_EVERY = 4  # product batches for each bare batch
WARM_UP, TRIPS = 4, 4
NO_THROTTLE = 100_000_000  # bytes per second; the partitions are empty


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs of one plan, in seconds and bytes."""

    partitions: int
    batches: int
    ours_seconds: float
    bare_partitions: int
    bare: tuple[float, ...]  # seconds of each bare batch
    hold_seconds: float
    first_write_seconds: float  # from the approval, a part of `hold_seconds`
    first_request_seconds: float  # from the approval, including `hold_seconds`
    trips: tuple[float, ...]  # seconds of each batch that the triggerer followed
    memory: dict[str, int]

    @property
    def ratio(self) -> float:
        return (self.ours_seconds / self.partitions) / (sum(self.bare) / self.bare_partitions)

    def lines(self) -> Iterator[str]:
        yield ""
        yield f"{self.partitions:,} empty partitions of one replica, each moved to another broker:"
        yield ""
        yield "| | partitions | batches | seconds | partitions a second | seconds a batch |"
        yield "|---|---:|---:|---:|---:|---:|"
        for name, partitions, batches, seconds in (
            ("bare, between ours", self.bare_partitions, len(self.bare), sum(self.bare)),
            ("through the product", self.partitions, self.batches, self.ours_seconds),
        ):
            yield (
                f"| {name} | {partitions:,} | {batches} | {seconds:,.1f} | {partitions / seconds:.1f} | "
                f"{seconds / batches:.2f} |"
            )
        mb = {name: value / 1e6 for name, value in self.memory.items()}
        yield ""
        yield f"- A partition takes **{self.ratio:.2f} times** as long through the product as bare."
        yield (
            f"- From the approval to the first write, the lock in `hold_throttle`: {self.first_write_seconds:.1f} s. "
            f"The throttle is in force after {self.hold_seconds:.1f} s, the first batch requested after "
            f"{self.first_request_seconds:.1f} s. Airflow's start of two tasks comes on top."
        )
        yield (
            f"- The triggerer's process holds {mb['before']:.0f} MB before its first trigger of ours, "
            f"{mb['loaded']:.0f} MB with its modules, and {mb['most']:.0f} MB at most while it follows "
            f"{len(self.trips)} batches of this plan: **{mb['most'] - mb['before']:.0f} MB** more."
        )


def seconds_of(call: Callable[[], object]) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began


def say(text: str) -> None:
    print(text, flush=True)


def measure_batches(version: str, partitions: int, topics: int, per_batch: int) -> Costs:
    with tempfile.TemporaryDirectory() as name, started(version) as (cluster, client):
        set_up_airflow(Path(name), cluster, per_batch)
        before, after = make_topics(cluster, partitions, topics)
        run = Ours("there", after, NO_THROTTLE, per_batch)
        run.approve()
        say(f"{partitions:,} partitions in {len(run.batches)} batches")
        # Before the bare batches: no approved run begins on a cluster that has just moved a thousand partitions.
        write, approved = Created(client, LOCK), time.monotonic()
        hold = seconds_of(run.hold)
        bare = Bare(client, cluster, run.batches[::BARE_EVERY])
        bare.warm_up(WARM_UP)
        turn = 0

        def between() -> None:
            nonlocal turn
            if turn % BARE_EVERY == 1:
                bare.batch()
                say(f"before batch {turn + 1}: {bare.seconds[-1]:.2f} s bare")
            turn += 1

        first, held = Created(client), time.monotonic()
        took = run.reassign(between)
        run.finish()
        say(f"{took:.1f} s through the product")
        back = Ours("back", before, NO_THROTTLE, per_batch)
        back.approve()
        back.hold()
        trips = back.reassign_by_triggers(TRIPS)
        return Costs(
            partitions,
            len(run.batches),
            took,
            bare.partitions,
            tuple(bare.seconds),
            hold,
            write.later_than(approved),
            hold + first.later_than(held),
            tuple(trips),
            dict(back.memory),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--version", default="3.9.2")
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--topics", type=int, default=50)
    parser.add_argument("--per-batch", type=int, default=250, help="most partitions in a batch, for the policy")
    parser.add_argument("--print-only", action="store_true", help="leave docs/ as it is")
    asked = parser.parse_args()
    logging.disable(logging.WARNING)
    lines = [*measure_batches(asked.version, asked.partitions, asked.topics, asked.per_batch).lines()]
    say("\n".join(lines))
    if not asked.print_only:
        write_section(SECTION, lines)


if __name__ == "__main__":
    # Like Ctrl-C: ends all that was started, and removes its folder.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    main()
