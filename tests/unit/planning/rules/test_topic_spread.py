"""`spread_topics`: no broker holds more of a topic than its even share, where racks, disks and limits let it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka_rebalance.documents.candidate_notes import NoteKind
from kafka_rebalance.model.candidate import Status
from kafka_rebalance.planning.candidates import propose
from kafka_rebalance.planning.describe.described_candidate import DescribedCandidate
from kafka_rebalance.planning.recommendation import recommend
from support.plans.small_snapshots import Rows, broker_rows, lists_after, partition_rows, plan_of, problem_of

MOVING = ("light", "balanced", "optimal")


def spread_note(plan: DescribedCandidate) -> Mapping[str, Any]:
    return next(one.figures for one in plan.notes if one.kind is NoteKind.TOPICS_SPREAD)


def counts_of(plan: DescribedCandidate, partitions: Rows, topic: str) -> Counter[int]:
    lists = lists_after(plan, partitions)
    return Counter(broker for (name, _), brokers in lists.items() if name == topic for broker in brokers)


def one_topic_on_two() -> tuple[Rows, Rows]:
    """Four even brokers. Topic `hot` lies on two of them, and topic `cold` on the other two."""
    hot = [[1, 2], [2, 1]] * 4
    cold = [[3, 4], [4, 3]] * 4
    return broker_rows([1, 2, 3, 4]), partition_rows(hot, topic="hot") + partition_rows(cold, topic="cold")


def test_without_the_setting_an_even_cluster_stays_as_it_is() -> None:
    plan = plan_of(*one_topic_on_two(), tolerance=0.3)
    assert not plan.candidate.moves


@pytest.mark.parametrize("name", MOVING)
def test_a_topic_asked_for_is_on_no_broker_more_than_its_even_share(name: str) -> None:
    brokers, partitions = one_topic_on_two()
    plan = plan_of(brokers, partitions, name, tolerance=0.3, spread_topics=["hot"])
    assert max(counts_of(plan, partitions, "hot").values()) == 4
    figures = spread_note(plan)
    assert (figures["before"], figures["after"], figures["least"]) == (8, 0, 0)
    assert plan.candidate.status is Status.OK


def test_the_note_tells_the_bytes_that_serve_topics_alone() -> None:
    brokers, partitions = one_topic_on_two()
    plan = plan_of(brokers, partitions, tolerance=0.3, spread_topics=["hot"])
    assert spread_note(plan)["bytes"] == plan.copied_bytes > 0
    assert "are copied for that alone" in plan.note


def test_a_plan_that_only_spreads_topics_is_recommended() -> None:
    brokers, partitions = one_topic_on_two()
    problem = problem_of(brokers, partitions, tolerance=0.3, spread_topics=["hot"])
    plans = [propose(problem, name) for name in ("leaders_only", *MOVING)]
    chosen = recommend(problem.settings, plans).candidate
    assert chosen in MOVING


def test_a_limit_stops_short_and_says_how_much_is_left() -> None:
    brokers, partitions = one_topic_on_two()
    plan = plan_of(brokers, partitions, tolerance=0.3, spread_topics=["hot"], max_bytes=3000)
    figures = spread_note(plan)
    assert (figures["before"], figures["after"], figures["least"]) == (8, 5, 0)
    assert plan.candidate.status is Status.PARTIAL
    assert plan.copied_bytes <= 3000
    assert any(one.kind is NoteKind.STOPPED_AT_LIMITS for one in plan.notes)


def test_full_disks_change_places_with_replicas_of_other_topics() -> None:
    brokers, partitions = one_topic_on_two()
    for row in brokers:
        row["disk_capacity_bytes"] = 10_000  # each holds 8,000 bytes, and 10 % stays free
    plan = plan_of(brokers, partitions, tolerance=0.3, spread_topics=["hot"])
    assert spread_note(plan)["after"] == 0


@pytest.mark.parametrize("name", MOVING)
def test_a_replica_that_no_free_broker_may_take_goes_there_along_a_chain(name: str) -> None:
    # Broker 1 holds one more than its share of 3. Of the others only broker 2 holds fewer, and every list of broker 1
    # has a replica in the rack of broker 2 already. So one goes from 1 to 3 or 4, and another from there to 2.
    racks = {1: "a", 2: "b", 3: "c", 4: "d", 5: "b"}
    partitions = partition_rows([[1, 5], [1, 5], [1, 5], [1, 2], [3, 4], [3, 4], [3, 4]])
    plan = plan_of(broker_rows(racks, racks), partitions, name, tolerance=0.9, spread_topics=["orders"])
    assert (spread_note(plan)["before"], spread_note(plan)["after"]) == (1, 0)
    assert max(counts_of(plan, partitions, "orders").values()) == 3


# An independent judge: it counts from the rows alone, and finds by augmenting paths how many replicas fit.


def ceilings(holders: Sequence[int], racks: Mapping[int, str], lists: Sequence[Sequence[int]]) -> dict[int, int]:
    """{broker: the most of one topic that it should hold}, by exact fractions."""
    total, even = sum(map(len, lists)), Fraction(sum(map(len, lists)), len(holders))
    by_rack: dict[str, list[int]] = {}
    for broker in holders:
        by_rack.setdefault(racks.get(broker, ""), []).append(broker)
    if len(by_rack) == 1:
        return dict.fromkeys(holders, math.ceil(even))
    least = {rack: sum(len(one) >= len(by_rack) for one in lists) for rack in by_rack}
    most = {rack: sum(max(1, len(one) - len(by_rack) + 1) for one in lists) for rack in by_rack}

    def filled(level: Fraction) -> dict[str, Fraction]:
        return {
            rack: min(max(level * len(here), Fraction(least[rack])), Fraction(max(least[rack], most[rack])))
            for rack, here in by_rack.items()
        }

    marks = sorted({Fraction(bound[rack], len(here)) for rack, here in by_rack.items() for bound in (least, most)})
    low = max([mark for mark in [Fraction(0), *marks] if sum(filled(mark).values()) <= total])
    slope = sum(len(here) for rack, here in by_rack.items() if least[rack] <= low * len(here) < most[rack])
    level = low + Fraction(total - sum(filled(low).values())) / slope if slope else low
    return {
        broker: math.ceil(max(even, filled(level)[rack] / len(here)))
        for rack, here in by_rack.items()
        for broker in here
    }


def most_below(holders: Sequence[int], racks: Mapping[int, str], lists: Sequence[Sequence[int]]) -> int:
    """The excess that no lists of these lengths avoid: what does not flow to brokers up to their ceilings."""
    most = ceilings(holders, racks, lists)
    kinds = {racks.get(broker) for broker in holders}
    flow: dict[tuple[Any, Any], int] = {}
    room: dict[tuple[Any, Any], int] = {}
    edges: dict[Any, list[Any]] = {}

    def edge(a: Any, b: Any, most_on_it: int) -> None:
        room[a, b] = room.get((a, b), 0) + most_on_it
        room.setdefault((b, a), 0)
        edges.setdefault(a, []).append(b)
        edges.setdefault(b, []).append(a)

    for number, one in enumerate(lists):
        edge("source", ("partition", number), len(one))
        for rack in sorted(kinds, key=str):
            in_rack = 1 if len(one) <= len(kinds) and len(kinds) > 1 else len(one)
            if len(one) > len(kinds) > 1:
                in_rack = len(one) - len(kinds) + 1
            edge(("partition", number), ("rack", number, rack), in_rack)
            for broker in holders:
                if racks.get(broker) == rack:
                    edge(("rack", number, rack), ("broker", broker), 1)
    for broker in holders:
        edge(("broker", broker), "sink", most[broker])
    total = 0
    while True:
        came: dict[Any, Any] = {"source": None}
        to_visit = ["source"]
        while to_visit and "sink" not in came:
            node = to_visit.pop(0)
            for other in edges[node]:
                if other not in came and room[node, other] > flow.get((node, other), 0):
                    came[other] = node
                    to_visit.append(other)
        if "sink" not in came:
            return sum(map(len, lists)) - total
        node = "sink"
        while came[node] is not None:
            flow[came[node], node] = flow.get((came[node], node), 0) + 1
            flow[node, came[node]] = flow.get((node, came[node]), 0) - 1
            node = came[node]
        total += 1


@st.composite
def drawn(draw: st.DrawFn) -> tuple[Rows, Rows, dict[int, str], list[int]]:
    """(broker rows, partition rows, racks, brokers to empty): sound lists, crowded at random."""
    ids = list(range(1, 1 + draw(st.integers(4, 8))))
    kinds = draw(st.sampled_from([1, 2, 3]))
    racks = {broker: f"rack-{broker % kinds}" for broker in ids}
    factor = draw(st.integers(1, 3))
    emptied = [ids[-1]] if draw(st.booleans()) and len(ids) > 2 * kinds and len(ids) > factor + 1 else []
    partitions: Rows = []
    for topic in ("hot", "cold"):
        order = draw(st.permutations(ids))
        lists = []
        for _ in range(draw(st.integers(2, 12))):
            first = [broker for broker in order if draw(st.integers(0, 3))] + order
            chosen: list[int] = []
            for broker in dict.fromkeys(first):
                in_others = {racks[one] for one in chosen}
                if len(chosen) < factor and (racks[broker] not in in_others or len(in_others) == kinds):
                    chosen.append(broker)
            lists.append(chosen)
        size = draw(st.sampled_from([0, 1000, 50_000]))
        partitions += partition_rows(lists, topic=topic, size=size)
    return broker_rows(ids, racks if kinds > 1 else None), partitions, racks if kinds > 1 else {}, emptied


def judged(partitions: Rows, plan: DescribedCandidate, holders: list[int], racks: dict[int, str]) -> dict[str, int]:
    lists = lists_after(plan, partitions)
    hot = [list(brokers) for (topic, _), brokers in sorted(lists.items()) if topic == "hot"]
    most = ceilings(holders, racks, hot)
    held = Counter(broker for one in hot for broker in one)
    return {
        "after": sum(max(0, count - most.get(broker, 0)) for broker, count in held.items()),
        "least": most_below(holders, racks, hot),
    }


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn(), st.sampled_from(MOVING), st.sampled_from([0.1, 0.3, 0.5]))
def test_an_independent_judge_finds_no_lists_that_spread_the_topic_better(
    cluster: tuple[Rows, Rows, dict[int, str], list[int]], name: str, tolerance: float
) -> None:
    brokers, partitions, racks, emptied = cluster
    job: dict[str, Any] = {"job": "drain", "drain": emptied} if emptied else {}
    plan = plan_of(brokers, partitions, name, tolerance=tolerance, spread_topics=["hot"], **job)
    if plan.candidate.status not in (Status.OK, Status.PARTIAL):
        return
    holders = [row["broker"] for row in brokers if row["broker"] not in emptied]
    found, told = judged(partitions, plan, holders, racks), spread_note(plan)
    assert told["after"] == found["after"]
    assert told["least"] <= found["least"]
    assert found["after"] == found["least"]
    for lists in lists_after(plan, partitions).values():
        assert len(set(lists)) == len(lists)
        if racks:
            kinds = len({racks[broker] for broker in holders})
            assert len({racks[broker] for broker in lists}) == min(kinds, len(lists))
