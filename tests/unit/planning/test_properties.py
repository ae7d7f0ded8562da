"""What holds for every plan of every cluster, and the fast masks against the rule they speed up."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from kafka_rebalance.errors import PlanningError
from kafka_rebalance.model.settings import JOBS, Settings, matches
from kafka_rebalance.planning.batches import controller_bytes
from kafka_rebalance.planning.candidates import propose
from kafka_rebalance.planning.planner import prepare
from kafka_rebalance.planning.problem.arrays import Problem, widened
from kafka_rebalance.planning.rules.rack_rule import domains_of, rack_rule, violations
from kafka_rebalance.planning.rules.where_replicas_may_go import allowed, move_rules
from kafka_rebalance.planning.tables.read_problem import (
    BROKERS,
    PARTITIONS,
    SNAPSHOT_SCHEMAS,
    read_problem,
    write_snapshot,
)
from support.plans.drawn_clusters import clusters, settings_for
from support.plans.plan_verifier import racks_that_count, verify
from support.plans.rack_rule import rack_rule_problem
from support.plans.small_snapshots import Rows, partition_rows, problem_of

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


@pytest.mark.slow
@pytest.mark.parametrize("job", JOBS)
@settings(max_examples=12, deadline=None, suppress_health_check=_SLOW)
@given(data=st.data(), cluster=clusters())
def test_every_candidate_keeps_every_promise(job: str, data: st.DataObject, cluster: tuple[Rows, Rows]) -> None:
    brokers, partitions = cluster
    asked = data.draw(settings_for(cluster, job))
    with pytest.MonkeyPatch.context() as patch:
        # So small that a few partitions of these small topics are as much as a batch bears, or one.
        patch.setattr(
            controller_bytes, "CONTROLLER_BYTES_PER_BATCH", data.draw(st.sampled_from([10**9, 3000, 1000, 1]))
        )
        patch.setattr(controller_bytes, "ZNODE_BYTES", data.draw(st.sampled_from([10**9, 10**9, 300])))
        try:
            problem = problem_of(brokers, partitions, **asked)
            plans = [propose(problem, name) for name in ("leaders_only", "light", "balanced")]
        except PlanningError as wrong:
            refused = str(wrong)
            plans = []
        assert plans or "Nothing was planned" in refused
        for plan in plans:
            verify(plan, problem.snapshot_digest, brokers, partitions, Settings.from_mapping(asked))


@pytest.mark.slow
@settings(max_examples=8, deadline=None, suppress_health_check=_SLOW)
@given(st.data(), st.sampled_from(JOBS), clusters())
def test_the_order_of_the_rows_changes_no_move(data: st.DataObject, job: str, cluster: tuple[Rows, Rows]) -> None:
    brokers, partitions = cluster
    asked = data.draw(settings_for(cluster, job))
    try:
        one, again = (propose(problem_of(brokers, partitions, **asked), "balanced") for _ in range(2))
    except PlanningError:
        assume(False)
    assert one.candidate == again.candidate
    shuffled = random.Random(7)
    with tempfile.TemporaryDirectory() as folder:
        for name, rows in ((BROKERS, brokers.copy()), (PARTITIONS, partitions.copy())):
            shuffled.shuffle(rows)
            pq.write_table(pa.Table.from_pylist(rows, schema=SNAPSHOT_SCHEMAS[name]), Path(folder, name))
        other = propose(prepare(Path(folder), Settings.from_mapping(asked)), "balanced")
    # The digest is of the snapshot's bytes as well.
    assert (one.candidate.moves, one.note) == (other.candidate.moves, other.note)
    assert one.candidate.summary == other.candidate.summary
    assert one.scores_after == other.scores_after


# Nobody stays, and one of those that leave has a rack.
ALL_LEAVE = (
    [{"broker": 1, "state": "drain", "rack": "a"}, {"broker": 2, "state": "drain"}],
    partition_rows([[1], [2]], left_brokers=[None, None]),
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=_SLOW)
@given(clusters(), st.sampled_from([(), ("*",), ("orders",)]), st.booleans(), st.booleans())
@example(ALL_LEAVE, (), False, False)
def test_the_masks_allow_exactly_what_the_rules_do(
    cluster: tuple[Rows, Rows], pinned: tuple[str, ...], add: bool, share: bool
) -> None:
    brokers, partitions = cluster
    with tempfile.TemporaryDirectory() as folder:
        write_snapshot(Path(folder), brokers, partitions)
        problem = read_problem(Path(folder), Settings(rack_pinned_topics=pinned, more_replicas_than_racks=share))
    assume(not share or problem.replicas.shape[1] <= problem.staying.sum())  # else the request is refused
    width = problem.replicas.shape[1] + 1
    replicas, ids = widened(problem.replicas, width), problem.brokers.tolist()
    rule = rack_rule(problem, width if add else None)
    rules = Rules(problem, cluster, pinned, share)
    others = move_rules(problem, rule)
    domains, broken = domains_of(rule, replicas), violations(rule, replicas)
    places = [(row, column) for row, column in np.ndindex(replicas.shape) if add or replicas[row, column] >= 0]
    places = [(row, column) for row, column in places if column == 0 or replicas[row, column - 1] >= 0]
    rows, columns = (np.array(part, dtype=np.int64) for part in zip(*places, strict=True))
    targets = np.flatnonzero(problem.staying)
    masks = allowed(rule, others, replicas, domains, rows, columns, targets)
    repairs = allowed(rule, others, replicas, domains, rows, columns, targets, repair=True)
    for index, (row, column) in enumerate(places):
        held = [ids[broker] for broker in replicas[row] if broker >= 0]
        assert broken[row] == rules.breaks(held)
        for number, target in enumerate(problem.brokers[targets].tolist()):
            after = [*held[:column], target, *held[column + 1 :]]
            may, mends = bool(masks[index, number]), bool(repairs[index, number])
            adds = rules.spread(after) > rules.spread(held)
            other = rules.other(row, held, column, target)
            if target in held or other is not None:
                assert not may, (held, column, target, other)
            elif not rules.breaks(after):
                assert may, (held, column, target)
            elif may:
                assert broken[row], (held, column, target)
                assert rules.spread(after) >= rules.spread(held), (held, column, target)
            if may and rules.known and (column == len(held) or held[column] not in rules.racks):
                stays = [*held[:column], *held[column + 1 :]]
                added = rules.spread(after) - rules.spread(stays, len(after))
                most = rule.racks if rule.even is None else len(after)
                assert added or rules.spread(after) >= most, (held, column, target)
            if not rule.strict and held[column:]:
                assert mends <= may
                if rules.known and held[column] in rules.racks:
                    assert mends == (may and adds), (held, column, target)


class Rules:
    """The rules over one cluster, as broker ids."""

    def __init__(self, problem: Problem, cluster: tuple[Rows, Rows], pinned: tuple[str, ...], share: bool) -> None:
        self.problem, self.pinned = problem, pinned
        brokers, partitions = cluster
        leaving = set(problem.brokers[problem.leaving].tolist())
        left = {(row["topic"], row["partition"]): row["left_brokers"] or () for row in partitions}
        self.left = {} if leaving else left
        self.racks = racks_that_count(brokers, leaving, share=share)
        self.stay = [row["broker"] for row in brokers if row["broker"] not in leaving] if share else None
        self.known = any(self.racks.values())
        # A replica that is pinned stays in its rack, even if all of that rack leaves.
        self.homes = {row["broker"]: row["rack"] for row in brokers if row.get("rack") is not None} | self.racks
        self.rooms = {
            row["broker"]: [
                one["usable_bytes"] - 0.1 * one["total_bytes"]
                for one in row["log_dirs"]
                if one["usable_bytes"] is not None
            ]
            for row in brokers
            if len(row.get("log_dirs") or ()) > 1
        }

    def breaks(self, replicas: list[int]) -> bool:
        return self.known and rack_rule_problem(replicas, self.racks, share=self.stay) is not None

    def spread(self, replicas: list[int], count: int | None = None) -> int:
        """How many racks a list is on; if racks share, how many of `count` replicas may stay where these are."""
        held = Counter(self.racks[broker] if self.known else broker for broker in replicas if broker in self.racks)
        if self.stay is None or not self.known:
            return len(held)
        room = Counter(self.racks[broker] for broker in self.stay)
        wanted = min(len(replicas) if count is None else count, room.total())
        racks = sorted(room, key=lambda rack: -held[rack])
        dealt = Counter[str | None]()
        while dealt.total() < wanted:  # to the rack with the fewest, and of these to the one that holds the most
            dealt[min((r for r in racks if dealt[r] < room[r]), key=lambda r: (dealt[r], racks.index(r)))] += 1
        return sum(min(held[rack], dealt[rack]) for rack in racks)

    def other(self, row: int, held: list[int], column: int, target: int) -> str | None:
        """Why the place must not be given to the target, beside the rack rule and what the list holds."""
        topic = self.problem.topics[self.problem.topic[row]]
        if self.known and column < len(held) and matches(topic, self.pinned):
            problem = rack_pin_problem(held[column], target, self.homes)
            if problem is not None:
                return problem
        name = self.problem.name_of(row)
        if target in self.left.get(name, ()) and not self.breaks(held):
            return f"{name} has left broker {target}"
        rooms = [max(0.0, room) for room in self.rooms.get(target, ())]
        return log_dir_problem(int(self.problem.size_bytes[row]), rooms)


def rack_pin_problem(source: int, target: int, racks: Mapping[int, str | None]) -> str | None:
    """Why a replica of a topic that is pinned to its racks must not go from one broker to the other, or None.

    Where the rack of the source is unknown, as of a dead broker, any rack will do.
    """
    if source not in racks or racks[source] == racks.get(target):
        return None
    return f"broker {source} is in rack {racks[source]}, broker {target} in rack {racks.get(target)}"


def log_dir_problem(size_bytes: int, rooms: Sequence[float]) -> str | None:
    """Why a broker of several log dirs must not be given a replica of this size, or None.

    `rooms` are bytes that each of those takes of which that is known.

    Kafka 2.0 to 3.9 puts a new replica into the log dir with the fewest (LogManager.nextLogDir, nextLogDirs), however
    full it is; so of several each may be next. One log dir is what the disk's own limit is about.
    """
    if not rooms or size_bytes <= min(rooms):
        return None
    return f"{size_bytes} bytes do not fit the fullest of {len(rooms)} log dirs, which takes {int(min(rooms))}"
