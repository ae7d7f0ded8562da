"""Why the nightly check proposes nothing, where a run would plan what nobody could approve."""

from __future__ import annotations

from datetime import UTC, datetime

from kafka_rebalance.model.finding import Finding
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.steps.nightly import why_not_propose
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from support.plans.small_snapshots import broker_rows, partition_rows, problem_of

NOW = datetime(2026, 5, 3, tzinfo=UTC)


def test_nothing_is_proposed_that_would_be_refused_because_a_broker_has_no_rack() -> None:
    rows = broker_rows([1, 2, 3], {1: "a", 2: "b"})
    problem = problem_of(rows, partition_rows([[1, 2], [3, 1]]), job="leaders")
    policy = Policy.from_mapping({"approvers": ["uma"]}, "test")
    checked = why_not_propose.CheckedCluster(airflow_deployment(), "cluster", problem, policy, None, NOW)
    reason, _ = why_not_propose.why_not(checked, policy, {}, {})
    assert reason is not None
    assert "broker 3 has no rack though others have one" in reason


def test_nothing_is_proposed_that_this_connection_may_not_write() -> None:
    problem = problem_of(broker_rows([1, 2]), partition_rows([[1, 2]]), job="leaders")
    policy = Policy.from_mapping({"approvers": ["uma"]}, "test")
    missing = Finding("/admin/reassign_partitions", "this user may not create it", "Grant create on /admin")
    checked = why_not_propose.CheckedCluster(airflow_deployment(), "cluster", problem, policy, None, NOW, (missing,))
    reason, _ = why_not_propose.why_not(checked, policy, {}, {})
    assert reason == f"this connection may not write what a rebalance needs: {missing}"
