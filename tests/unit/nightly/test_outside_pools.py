"""The nightly check proposes a rebalance if replicas are outside the pools of their topics, and may go there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kafka_rebalance.documents.proposals import Score
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.nightly.proposed_job import measured
from kafka_rebalance.nightly.why_not_propose import cannot_help
from kafka_rebalance.planning.describe.shortfall import outside_pools
from kafka_rebalance.planning.evenness import scores_now
from support.plans.small_snapshots import broker_rows, figures, partition_rows, problem_of


def policy(**keys: Any) -> Policy:
    return Policy.from_mapping({"approvers": ["uma"], **keys}, "test")


def test_a_replica_outside_its_pool_is_past_any_limit() -> None:
    even = dict.fromkeys(("replicas", "disk", "leaders"), Score(1.0, 1.0, 0.0))
    assert measured(even, 0, policy()).past_limit is False
    found = measured(even, 0, policy(), 2)
    assert found.past_limit is True
    assert found.outside_pools == 2
    assert found.text.endswith("; 2 replicas are outside the pools of their topics")


def test_what_the_policy_holds_outside_does_not_count() -> None:
    def found(**keys: Any) -> int:
        rows = [*partition_rows([[1], [2], [3]]), *partition_rows([[3]], topic="others")]
        asked = policy(broker_pools=[{"topics": ["orders"], "brokers": [1, 4]}], **keys).measured_by(Settings())
        problem = problem_of(broker_rows([1, 2, 3, 4]), rows, **asked.to_mapping())
        return outside_pools(problem, problem.replicas)

    assert found() == 2
    assert found(brokers_out=[2]) == 1
    assert found(pinned_topics=["ord*"]) == 0
    assert found(topics_out=["ord*"]) == 0


def test_a_rebalance_is_worth_it_for_replicas_outside_their_pool_alone() -> None:
    rows = partition_rows([[1], [2], [3]], size_bytes=[9, 1, 1])
    problem = problem_of(broker_rows([1, 2, 3]), rows)
    result = measured(scores_now(problem), 0, policy())
    assert result.past_limit
    assert cannot_help(problem, result) is not None
    assert cannot_help(problem, replace(result, outside_pools=1)) is None


def test_what_no_plan_may_move_into_other_racks_is_no_reason_for_a_rebalance() -> None:
    brokers, rows = broker_rows([1, 2, 3], {1: "a", 2: "a", 3: "b"}), partition_rows([[1, 2], [1, 3], [2, 3], [2, 3]])
    result = figures(0.5, 1, disk=0.4)
    assert cannot_help(problem_of(brokers, rows), result) is None
    said = cannot_help(problem_of(brokers, rows, rack_pinned_topics=["orders"]), result)
    assert said == "a rebalance cannot help: no plan may move the partitions that break the rack rule"
