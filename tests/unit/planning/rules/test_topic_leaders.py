"""Leaders of a topic over brokers: which are too many, and that no plan has more of them than there were."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from kafka_rebalance.errors import PlanningError
from kafka_rebalance.planning.describe.described_candidate import DescribedCandidate
from kafka_rebalance.planning.rules.leaders import TopicLeaders
from support.plans.small_snapshots import Rows, broker_rows, partition_rows, plan_of, problem_of

CANDIDATES = ("leaders_only", "light", "balanced", "optimal")
JOBS = ("balance", "balance", "drain", "leaders", "relieve", "repair_racks", "replication_factor")


def excess(partitions: Rows, leaders: dict[tuple[str, int], int], may_lead: set[int]) -> int:
    """Leaders beyond the even share, rounded up, of partitions with several replicas: counted out one by one."""
    total = 0
    for topic in {row["topic"] for row in partitions}:
        of_topic = [row for row in partitions if row["topic"] == topic and len(row["replicas"]) > 1]
        led = Counter(leaders[topic, row["partition"]] for row in of_topic)
        most = -(-len(of_topic) // len(may_lead))
        total += sum(max(0, count - (most if broker in may_lead else 0)) for broker, count in led.items())
    return total


def leaders_now(partitions: Rows) -> dict[tuple[str, int], int]:
    return {(row["topic"], row["partition"]): row.get("leader", row["replicas"][0]) for row in partitions}


def leaders_after(plan: DescribedCandidate, partitions: Rows) -> dict[tuple[str, int], int]:
    return leaders_now(partitions) | {
        (move.topic_partition.topic, move.topic_partition.partition): move.after[0] for move in plan.candidate.moves
    }


def led(lists: list[list[int]], brokers: int = 4, **settings: Any) -> TopicLeaders:
    problem = problem_of(broker_rows(range(1, brokers + 1)), partition_rows(lists), **settings)
    return TopicLeaders(problem, problem.leader)


def test_an_even_share_rounded_up_is_not_too_much() -> None:
    found = led([[1, 2]] * 3 + [[2, 1]] * 2)
    assert found.room[0].tolist() == [2 - 3, 2 - 2, 2, 2]
    assert found.excess == 1


def test_a_broker_that_leads_too_many_should_give_and_one_with_room_should_take() -> None:
    found = led([[1, 2]] * 3 + [[2, 1]] * 2)
    row, first = np.array([0]), np.array([0])
    assert [int(found.change(row, first, np.array([to]))[0]) for to in (1, 2)] == [0, -1]
    found.move(row, first, np.array([2]))
    assert (found.excess, found.room[0].tolist()) == (0, [0, 0, 1, 2])


def test_all_that_an_emptied_broker_leads_is_too_much_and_what_a_closed_one_leads_never_is() -> None:
    lists = [[1, 2]] * 3 + [[2, 1]] * 2
    assert led(lists, job="drain", drain=[2]).excess == 1 + 2  # 2 each on the three others
    assert led(lists, brokers_out=[1]).excess == 1  # of the 2 others on three brokers, 1 each


def test_whoever_holds_the_only_replica_leads_it() -> None:
    found = led([[1]] * 5 + [[1, 2]])
    assert found.excess == 0
    found.move(np.array([0]), np.array([0]), np.array([1]))
    assert found.excess == 0


def test_a_network_of_twice_the_size_leads_twice_as_many() -> None:
    speed = {1: 2e9, 2: 1e9, 3: 1e9}
    problem = problem_of(broker_rows([1, 2, 3], nic_out_bytes_per_second=speed), partition_rows([[1, 2], [1, 3]] * 3))
    assert TopicLeaders(problem, problem.leader).room[0].tolist() == [3 - 6, 2, 2]


def test_topics_spread_their_leaders_where_a_plan_is_needed_anyway() -> None:
    uneven = partition_rows([[1, 2, 3, 4]] * 8) + partition_rows([[2, 1, 3, 4]] * 8, topic="payments")
    plan = plan_of(broker_rows([1, 2, 3, 4]), uneven, "leaders_only", tolerance=0.3, spread_leaders=["*"])
    assert (plan.candidate.summary["excess_leaders_before"], plan.candidate.summary["excess_leaders"]) == (12, 0)


def test_topics_alone_are_no_reason_for_a_plan() -> None:
    even = partition_rows([[1, 2]] * 4) + partition_rows([[2, 1]] * 4, topic="payments")
    plan = plan_of(broker_rows([1, 2]), even, "leaders_only")
    assert plan.candidate.moves == ()
    assert plan.candidate.summary["excess_leaders"] == 4


def test_a_leader_that_changes_for_its_topic_says_so() -> None:
    rows = partition_rows([[1, 2, 3, 4]] * 4) + partition_rows([[2, 3, 4, 1]] * 4, topic="payments")
    rows += partition_rows([[3, 4, 1, 2]] * 8, topic="traces")  # broker 4 leads nothing, so a plan is needed
    plan = plan_of(broker_rows([1, 2, 3, 4]), rows, "leaders_only", tolerance=0.3, spread_leaders=["*"])
    reasons = {move.reason for move in plan.candidate.moves if move.topic_partition.topic == "orders"}
    assert "broker 1 leads 3 of the topic's partitions too many" in reasons


def test_the_limit_on_leader_changes_holds_and_topics_do_not_make_the_plan_fall_short() -> None:
    rows = partition_rows([[1, 2]] * 6 + [[2, 1]] * 2) + partition_rows([[2, 1]] * 4, topic="payments")
    plan = plan_of(broker_rows([1, 2]), rows, "leaders_only", max_leader_changes=0)
    assert plan.candidate.moves == ()
    assert "max_leader_changes" not in plan.note


@pytest.mark.slow
@pytest.mark.parametrize("name", CANDIDATES)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(data=st.data())
def test_no_plan_has_more_excess_leaders_than_the_cluster(name: str, data: st.DataObject) -> None:
    """Whatever the job. A factor of 1, and a limit beside leaders that are not the preferred ones, may leave no way."""
    limit = data.draw(st.sampled_from([None, None, 2]))
    ids = list(range(1, data.draw(st.integers(3, 7)) + 1))
    holders = ids[: max(2, len(ids) - data.draw(st.integers(0, 2)))]
    racks = data.draw(st.sampled_from([None, {broker: "abc"[broker % 3] for broker in ids}]))
    partitions: Rows = []
    for number in range(data.draw(st.integers(1, 4))):
        factor = min(len(holders), data.draw(st.integers(1, 3)))
        count = data.draw(st.integers(1, 9))
        start = data.draw(st.none() | st.integers(0, len(holders) - 1))  # where Kafka would start, or any lists
        turned = [[*holders[number:], *holders[:number]] for number in range(len(holders))]
        lists = [
            (data.draw(st.permutations(holders)) if start is None else turned[(start + number) % len(holders)])[:factor]
            for number in range(count)
        ]
        sizes = data.draw(st.lists(st.integers(1, 10**6), min_size=count, max_size=count))
        leaders = [one[0] if limit else data.draw(st.sampled_from([one[0]] * 4 + one)) for one in lists]
        rates = [float(size) for size in sizes]
        partitions += partition_rows(
            lists, topic=f"t{number}", size_bytes=sizes, leader=leaders, bytes_in_per_second=rates,
            bytes_out_per_second=rates,
        )  # fmt: skip
    job = data.draw(st.sampled_from(JOBS))
    asked: dict[str, Any] = {"job": job, "tolerance": data.draw(st.sampled_from([0.02, 0.1]))}
    leaving = [data.draw(st.sampled_from(ids))] if job in ("drain", "leaders") else []
    asked |= {"drain": leaving} if leaving else {}
    asked |= {"replication_factor": data.draw(st.integers(2, 3))} if job == "replication_factor" else {}
    asked |= {"max_leader_changes": limit} if limit else {}
    try:
        plan = plan_of(broker_rows(ids, racks), partitions, name, **asked)
    except PlanningError:
        assume(False)
    may_lead = set(ids) - set(leaving)
    before = excess(partitions, leaders_now(partitions), may_lead)
    after = excess(partitions, leaders_after(plan, partitions), may_lead)
    assert after <= before
    figures = plan.candidate.summary
    assert (figures["excess_leaders_before"], figures["excess_leaders"]) == (before, after)
