"""The nightly check proposes a rebalance if replicas are outside the pools of their topics, and may go there."""

from __future__ import annotations

from typing import Any

from kafka_rebalance.documents.proposals.candidate_figures import Score
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.steps.nightly.how_uneven import outside_pools, verdict
from support.plans.small_snapshots import broker_rows, partition_rows, problem_of


def policy(**keys: Any) -> Policy:
    return Policy.from_mapping({"approvers": ["uma"], **keys}, "test")


def test_a_replica_outside_its_pool_is_past_any_limit() -> None:
    even = dict.fromkeys(("replicas", "disk", "leaders"), Score(1.0, 1.0, 0.0))
    assert verdict(even, 0, policy())["past_limit"] is False
    found = verdict(even, 0, policy(), 2)
    assert found["past_limit"] is True
    assert found["outside_pools"] == 2
    assert found["text"].endswith("; 2 replicas are outside the pools of their topics")


def test_what_the_policy_holds_outside_does_not_count() -> None:
    rows = partition_rows([[1], [2], [3]])
    pools = [{"topics": ["orders"], "brokers": [1, 4]}]
    problem = problem_of(broker_rows([1, 2, 3, 4]), rows, broker_pools=pools)
    assert outside_pools(problem, policy()) == 2
    assert outside_pools(problem, policy(brokers_out=[2])) == 1
    assert outside_pools(problem, policy(pinned_topics=["ord*"])) == 0
    assert outside_pools(problem, policy(topics_out=["ord*"])) == 0
    assert outside_pools(problem, None) == 0
