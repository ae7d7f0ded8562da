"""Why the nightly check proposes nothing, where a run would plan what nobody could approve."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kafka_rebalance.model.finding import Finding
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.nightly import why_not_propose
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from support.plans.small_snapshots import broker_rows, figures, partition_rows, problem_of

NOW = datetime(2026, 5, 3, tzinfo=UTC)


def test_nothing_is_proposed_that_would_be_refused_because_a_broker_has_no_rack() -> None:
    rows = broker_rows([1, 2, 3], {1: "a", 2: "b"})
    problem = problem_of(rows, partition_rows([[1, 2], [3, 1]]), job="leaders")
    policy = Policy.from_mapping({"approvers": ["uma"]}, "test")
    checked = why_not_propose.CheckedCluster(airflow_deployment(), "cluster", problem, policy, None, NOW)
    reason, _ = why_not_propose.why_not(checked, figures(0.2), {})
    assert reason is not None
    assert "broker 3 has no rack though others have one" in reason


def test_nothing_is_proposed_that_this_connection_may_not_write() -> None:
    problem = problem_of(broker_rows([1, 2]), partition_rows([[1, 2]]), job="leaders")
    policy = Policy.from_mapping({"approvers": ["uma"]}, "test")
    missing = Finding("/admin/reassign_partitions", "this user may not create it", "Grant create on /admin")
    checked = why_not_propose.CheckedCluster(airflow_deployment(), "cluster", problem, policy, None, NOW, (missing,))
    reason, _ = why_not_propose.why_not(checked, figures(0.2), {})
    assert reason == f"this connection may not write what a rebalance needs: {missing}"


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ({1: [40, *[10] * 10], 2: [10] * 8, 3: [10] * 8}, None),
        (
            {1: [65, 65], 2: [85], 3: [85]},
            "a rebalance cannot help: bytes on disk are as even as the sizes of single partitions allow",
        ),
    ],
)
def test_a_broker_is_proposed_for_if_a_lighter_replica_than_the_heaviest_helps_it(
    held: dict[int, list[int]], said: str | None
) -> None:
    lists = [[broker] for broker, sizes in held.items() for _ in sizes]
    rows = partition_rows(lists, size_bytes=[size for sizes in held.values() for size in sizes])
    result = figures(0.2, disk=0.3)
    reason = why_not_propose.cannot_help(problem_of(broker_rows([1, 2, 3]), rows), result)
    assert reason is None if said is None else said in str(reason)


@pytest.mark.parametrize(("upper", "off"), [(66, "10 %"), (69, "15 %"), (75, None)])
def test_what_racks_force_is_said_with_figures_and_the_limit_counts_from_there(upper: int, off: str | None) -> None:
    """Of three racks one has two brokers: each should hold a sixth, which is a third more than an eighth."""
    racks = dict(zip(range(1, 9), "aaabbbcc", strict=True))
    lists = [[1 + n % 3, 4 + n % 3, 7 + (n >= upper)] for n in range(120)]
    problem = problem_of(broker_rows(list(racks), racks), partition_rows(lists))
    result = figures(0.2, replicas=0.4667)
    assert why_not_propose.cannot_help(problem, result) == (
        off
        and f"racks and disks alone keep replicas 33 % off. Of the share that they allow, the worst broker is {off} "
        "off, and the limit is 20 %. More brokers in the racks that have fewer would help"
    )


def test_what_the_policy_keeps_in_place_is_said_where_it_leaves_nothing_to_move() -> None:
    rows = partition_rows([[1]] * 6 + [[2]] * 2)
    result = figures(0.2, disk=0.5)
    assert why_not_propose.cannot_help(problem_of(broker_rows([1, 2]), rows), result) is None
    kept = problem_of(broker_rows([1, 2]), rows, pinned_topics=["orders"])
    assert why_not_propose.cannot_help(kept, result) == (
        "a rebalance cannot help: bytes on disk are as even as the sizes of single partitions with what the policy "
        "keeps in place allow. More partitions would help"
    )
