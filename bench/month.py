"""Thirty nights of one cluster, on paper: `make bench-month` writes them into docs/evidence/airflow.md.

Its data grows and shrinks, topics arrive, a broker is lost, and later an empty one comes. Disks are large enough for
all of that: on full disks no plan could move anything. Each night the product's own rules say whether a rebalance is
needed and which job it is. The recommended plan is taken, and all its moves are done before the next night. The cluster
is simulated; nothing is copied.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from bench.clusters import FIRST_BROKER, LARGEST_SHARE, REPLICAS, Size, make_cluster
from bench.pages import write_section
from bench.scoring import read_moves
from kafka_rebalance.documents.verdict import Measured
from kafka_rebalance.kafka.assignment import assign_replicas
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.nightly.proposed_job import measured
from kafka_rebalance.nightly.why_not_propose import cannot_help
from kafka_rebalance.planning.evenness import scores
from kafka_rebalance.planning.problem.arrays import Problem, loads_now, shares
from kafka_rebalance.planning.rules.rack_rule import rack_rule, violations
from kafka_rebalance.planning.tables.read_problem import read_problem, write_snapshot
from kafka_rebalance.rebalance.snapshot import REST_DAYS

SECTION, PRICE_SECTION = "bench-month", "bench-month-price"
SIZE = Size(brokers=24, racks=3, partitions=4_000, partitions_per_topic=40)
NIGHTS, LOST_ON, NEW_ON = 30, 10, 18
PATIENCE = Policy(approvers=()).broker_away_after_seconds // 86_400  # nights
SPREAD_A_DAY, TREND_A_DAY = 0.03, 0.01  # log-normal: of every topic's bytes, and of how fast each topic grows
ARRIVALS_A_DAY, FILLED_IN_DAYS = 2.0, 7  # topics; a topic is as large as it gets after so many days
BALANCE = {"job": "balance"}
PLANNING = [sys.executable, "-m", "kafka_rebalance.planning"]

DISKS_FOR = 4  # times what a broker holds at first, so that no disk is full after thirty nights

Place = tuple[tuple[str, int], int]  # a partition and a broker


@dataclass(slots=True)
class Night:
    number: int
    happened: str = ""
    skew: float = 0.0  # of the worst resource, at the beginning
    skew_after: float = 0.0
    job: str = ""
    candidate: str = ""
    moves: int = 0
    moved_bytes: int = 0
    leader_changes: int = 0
    recommends_nothing: bool = False  # the check began a run, and no candidate of it was recommended
    moved_back: int = 0  # replicas that came to a broker which a plan of the seven nights before took them from


@dataclass(slots=True)
class Month:
    """The cluster as its tables' rows, and what the plans of the nights have taken from where."""

    rng: np.random.Generator
    brokers: list[dict[str, Any]]
    partitions: list[dict[str, Any]]
    trend: dict[str, float] = field(default_factory=dict)  # {topic: growth of its logarithm a day}
    filling: dict[str, int] = field(default_factory=dict)  # {topic: days until it is full}
    keeps_away: bool = True  # as a run of the product that the nightly check has asked for
    taken_on: dict[Place, int] = field(default_factory=dict)
    lost: int | None = None
    lost_on: int = 0

    def day(self, number: int) -> str:
        """Lets a day pass; returns what happened beside growth."""
        happened = []
        self._grow()
        arrived = int(self.rng.poisson(ARRIVALS_A_DAY))
        for one in range(arrived):
            self._arrive(f"new-{number:02d}-{one}")
        if arrived:
            happened.append(f"{arrived} topics")
        if number == LOST_ON:
            self.lost, self.lost_on = int(self.rng.choice([row["broker"] for row in self.brokers])), number
            happened.append("a broker is lost")
        if number == NEW_ON:
            first = self.brokers[0]
            rack = next(row["rack"] for row in self.brokers if row["broker"] == self.lost) if self.lost else "rack-0"
            empty = {"broker": FIRST_BROKER + SIZE.brokers, "rack": rack, "state": "new", "disk_used_bytes": 0}
            self.brokers.append({**first, **empty})
            happened.append("an empty broker")
        return ", ".join(happened)

    def _grow(self) -> None:
        topics = sorted({row["topic"] for row in self.partitions})
        for topic in topics:
            self.trend.setdefault(topic, float(self.rng.normal(0, TREND_A_DAY)))
        by = {topic: float(np.exp(self.rng.normal(self.trend[topic], SPREAD_A_DAY))) for topic in topics}
        # What arrives does not grow while a topic fills: only what is kept of it does.
        fills = {topic: 1 + 1 / (FILLED_IN_DAYS - left) for topic, left in self.filling.items()}
        self.filling = {topic: left - 1 for topic, left in self.filling.items() if left > 1}
        most_bytes, most_in = (
            LARGEST_SHARE * sum(row[one] * len(row["replicas"]) for row in self.partitions) / SIZE.brokers
            for one in ("size_bytes", "bytes_in_per_second")
        )
        for row in self.partitions:
            grown, topic = by[row["topic"]], row["topic"]
            row["size_bytes"] = max(1, int(min(row["size_bytes"] * grown * fills.get(topic, 1.0), most_bytes)))
            grown = min(grown, most_in / row["bytes_in_per_second"])
            for rate in ("bytes_in_per_second", "bytes_out_per_second"):
                row[rate] *= grown

    def _arrive(self, topic: str) -> None:
        """A topic like one that is there and full, empty but for a day's records, where Kafka puts it."""
        like = str(self.rng.choice(sorted({row["topic"] for row in self.partitions} - set(self.filling))))
        rows = [row for row in self.partitions if row["topic"] == like]
        racks = {row["broker"]: row["rack"] for row in self._live()}
        start, shift = (int(one) for one in self.rng.integers(len(racks), size=2))
        lists = assign_replicas(sorted(racks), len(rows), REPLICAS, racks=racks, start_index=start, replica_shift=shift)
        self.filling[topic] = FILLED_IN_DAYS - 1
        for number, row in enumerate(rows):
            made = {"topic": topic, "partition": number, "replicas": list(lists[number])}
            self.partitions.append({**row, **made, "size_bytes": row["size_bytes"] // FILLED_IN_DAYS})

    def _live(self) -> list[dict[str, Any]]:
        return [row for row in self.brokers if row["broker"] != self.lost]

    def write_for_plan(self, folder: Path, number: int, settings: Mapping[str, Any]) -> None:
        """The snapshot of the run that a check asks for, with what `steps.rebalance.left_brokers` adds to it."""
        left: dict[tuple[str, int], list[int]] = {}
        if self.keeps_away and settings == BALANCE:
            for (key, broker), taken_on in self.taken_on.items():
                if number - taken_on <= REST_DAYS:
                    left.setdefault(key, []).append(broker)
        self.write(folder, left)

    def write(self, folder: Path, left: Mapping[tuple[str, int], list[int]] = MappingProxyType({})) -> None:
        used = dict.fromkeys((row["broker"] for row in self.brokers), 0)
        for row in self.partitions:
            for broker in row["replicas"]:
                used[broker] += row["size_bytes"]
        folder.mkdir(parents=True)
        held = {broker for row in self.partitions for broker in row["replicas"]}
        rows = [
            {
                **row,
                "disk_used_bytes": used[row["broker"]],
                "state": "new" if row["broker"] not in held else "keep",
            }
            for row in self._live()
        ]
        partitions = []
        for row in self.partitions:
            alive = [broker for broker in row["replicas"] if broker != self.lost]
            brokers = left.get((row["topic"], row["partition"]))
            partitions.append(
                {**row, "leader": alive[0], "isr": alive} | ({} if brokers is None else {"left_brokers": brokers})
            )
        write_snapshot(folder, rows, partitions)

    def job(self, number: int, past_limit: bool) -> dict[str, Any] | None:
        """Settings of the rebalance that the nightly check proposes, as `steps.nightly.which_job`; None: none."""
        if self.lost is not None and any(self.lost in row["replicas"] for row in self.partitions):
            return {"job": "drain", "drain": [self.lost]} if number >= self.lost_on + PATIENCE else None
        return BALANCE if past_limit else None

    def carry_out(self, night: Night, moves: Any) -> None:
        rows = {(row["topic"], row["partition"]): row for row in self.partitions}
        for key, before, after in zip(moves.keys, moves.before, moves.after, strict=True):
            row = rows[key]
            assert list(before) == row["replicas"]
            row["replicas"] = list(after)
            added, removed = set(after) - set(before), set(before) - set(after)
            night.moved_bytes += row["size_bytes"] * len(added)
            # What a lost broker led, the next replica leads already.
            night.leader_changes += next(broker for broker in before if broker != self.lost) != after[0]
            taken_on = [self.taken_on.get((key, broker), -REST_DAYS) for broker in added]
            night.moved_back += sum(night.number - one <= REST_DAYS for one in taken_on)
            self.taken_on.update(dict.fromkeys(((key, broker) for broker in removed), night.number))
        night.moves = len(moves.keys)


def skew(problem: Problem) -> Measured:
    """The verdict of the nightly check under the default policy."""
    found = scores(problem, loads_now(problem), shares(problem))
    return measured(found, int(violations(rack_rule(problem), problem.replicas).sum()), Policy(approvers=()))


def recommended(snapshot: Path, out: Path, settings: Mapping[str, Any]) -> str | None:
    out.mkdir()
    (out / "asked.json").write_text(json.dumps(settings))
    planning = [*PLANNING, "--snapshot", str(snapshot), "--out", str(out), "--settings", str(out / "asked.json")]
    done = subprocess.run(planning, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{snapshot.name} was not planned, and nothing was written to docs/:\n{done.stderr}")
    name: str | None = json.loads((out / "proposals.json").read_bytes())["recommended"]
    return name


def nights(seed: int, scratch: Path, limit: int, *, keeps_away: bool = True) -> Iterator[Night]:
    made = make_cluster(SIZE, "skew", seed)
    for row in made.brokers:
        row["disk_capacity_bytes"] *= DISKS_FOR
    month = Month(np.random.default_rng([seed, NIGHTS]), made.brokers, made.partitions, keeps_away=keeps_away)
    for number in range(1, limit + 1):
        night = Night(number, month.day(number))
        before, asked, after, out = (scratch / f"{number}-{kind}" for kind in ("before", "asked", "after", "plan"))
        month.write(before)
        problem = read_problem(before, Settings())
        found = skew(problem)
        night.skew = night.skew_after = found.imbalance
        settings = month.job(number, found.past_limit)
        if settings == BALANCE and cannot_help(problem, found):
            settings, night.job = None, "none proposed"
        name = None
        if settings:
            month.write_for_plan(asked, number, settings)
            name = recommended(asked, out, settings)
        night.recommends_nothing = bool(settings) and not name
        if settings and name:
            night.job, night.candidate = settings["job"], name
            month.carry_out(night, read_moves(out, name))
            month.write(after)
            night.skew_after = skew(read_problem(after, Settings())).imbalance
        yield night


def lines(all_nights: Sequence[Night]) -> Iterator[str]:
    yield ""
    yield "| night | what happened | skew | job | candidate | moves | TB | leader changes | moved back | skew then |"
    yield "|---:|---|---:|---|---|---:|---:|---:|---:|---:|"
    for one in all_nights:
        yield (
            f"| {one.number} | {one.happened} | {one.skew:.1%} | {one.job} | {one.candidate} | {one.moves:,} | "
            f"{one.moved_bytes / 1e12:.2f} | {one.leader_changes:,} | {one.moved_back:,} | {one.skew_after:.1%} |"
        )
    runs = [one for one in all_nights if one.candidate]
    yield ""
    yield (
        f"{len(runs)} runs copied {sum(one.moved_bytes for one in runs) / 1e12:.2f} TB, changed the leader of "
        f"{sum(one.leader_changes for one in runs):,} partitions, and moved {sum(one.moved_back for one in runs):,} "
        f"replicas back within a week. The worst skew that a night left was "
        f"{max(one.skew_after for one in all_nights):.1%}."
    )


def price(seeds: Sequence[int], scratch: Path, limit: int) -> Iterator[str]:
    heads = (
        "seed",
        "rule",
        "runs",
        "of balance",
        "recommend nothing",
        "TB",
        "leader changes",
        "moved back",
        "by drains",
        "worst skew left",
    )
    yield f"| {' | '.join(heads)} |"
    yield "|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    for seed in seeds:
        for rule, keeps_away in (("without", False), ("with", True)):
            found = list(nights(seed, scratch / f"{seed}-{rule}", limit, keeps_away=keeps_away))
            runs = [one for one in found if one.candidate]
            balances = [one for one in runs if one.job == BALANCE["job"]]
            back = [sum(one.moved_back for one in runs if (one in balances) is kind) for kind in (True, False)]
            yield (
                f"| {seed} | {rule} | {len(runs)} | {len(balances)} | "
                f"{sum(one.recommends_nothing for one in found)} | "
                f"{sum(one.moved_bytes for one in runs) / 1e12:.2f} | {sum(one.leader_changes for one in runs):,} | "
                f"{back[0]:,} | {back[1]:,} | {max(one.skew_after for one in found):.1%} |"
            )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.month", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, help="of the cluster and of all that happens (default: a new one)")
    parser.add_argument("--nights", type=int, default=NIGHTS)
    parser.add_argument("--both", type=int, metavar="MONTHS", help="so many seeds in a row, with and without the rule")
    parser.add_argument("--print-only", action="store_true", help="leave docs/ as it is")
    asked = parser.parse_args(arguments)
    seed = int(np.random.default_rng().integers(10_000)) if asked.seed is None else asked.seed
    done, found = [], []
    with tempfile.TemporaryDirectory() as scratch:
        if asked.both:
            for line in price(range(seed, seed + asked.both), Path(scratch), asked.nights):
                found.append(line)
                print(line, flush=True)
            if not asked.print_only:
                write_section(PRICE_SECTION, ["", *found])
            return
        for night in nights(seed, Path(scratch), asked.nights):
            done.append(night)
            print(f"seed {seed}: {night}", flush=True)
    found = [f"Seed {seed} (`python -m bench.month --seed {seed}`):", *lines(done)]
    print("\n".join(found))
    if not asked.print_only:
        write_section(SECTION, ["", *found])


if __name__ == "__main__":
    # Like Ctrl-C: ends all that was started, and removes its folder.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    main()
