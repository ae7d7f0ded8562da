"""Two connections to one cluster, each with a policy of its own: the stricter limit counts, and somebody is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_rebalance.errors import PolicyError
from kafka_rebalance.model.connection import ClusterConnection, KafkaConnection
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.steps.deployment import Deployment
from kafka_rebalance.steps.rebalance.other_policies import bound_by_all, other_policies
from support.runs.plain_deployment import plain_deployment

MB = 1_000_000
OURS = "approvers: [uma]\nmax_bytes_share: 0.5\nmax_throttle_bytes_per_second: 100000000\n"
STRICT = "approvers: [ole]\nmax_bytes_share: 0.1\nmax_throttle_bytes_per_second: 5000000\n"
SIZE = {"cluster_bytes": 1000 * MB, "brokers": 3}


def connection(name: str, servers: str, expected: str | None = None) -> ClusterConnection:
    return ClusterConnection(name, None, KafkaConnection(servers), expected_cluster_id=expected)


def deployment(folder: Path, **policies: str) -> Deployment:
    known = {
        "ours": connection("ours", "b1:9092,b2:9092"),
        "same": connection("same", "b3:9092, b2:9092"),
        "named": connection("named", "elsewhere:9092", expected="the-cluster"),
        "another": connection("another", "b2:9092", expected="another-cluster"),
        "far": connection("far", "c1:9092"),
    }
    made = plain_deployment(folder, known)
    for name, text in policies.items():
        (folder / "policies" / f"{name}.yaml").write_text(text)
    return made


def test_policies_of_other_connections_to_the_same_cluster_are_found(tmp_path: Path) -> None:
    names = ("same", "named", "another", "far", "gone")
    made = deployment(tmp_path, ours=OURS, **dict.fromkeys(names, STRICT))
    found = other_policies(made, made.read_connection("ours"), "the-cluster")
    assert list(found) == ["named", "same"]


def test_an_equal_policy_is_no_other_one_and_a_damaged_one_stops_nobody(tmp_path: Path) -> None:
    made = deployment(tmp_path, ours=OURS, same=OURS, named="approvers: 7\n")
    assert other_policies(made, made.read_connection("ours"), "the-cluster") == {}


def test_the_stricter_limit_of_each_counts() -> None:
    own, other = Policy.from_mapping(_yaml(OURS), "ours"), Policy.from_mapping(_yaml(STRICT), "same")
    bound = bound_by_all(own, {"same": other}, Settings(), internal_topics=False, **SIZE)
    assert bound.throttle_bytes_per_second == 5 * MB
    assert bound.max_bytes == 100 * MB
    assert bound.policy_digest == own.digest
    asked = Settings(throttle_bytes_per_second=50 * MB)
    with pytest.raises(PolicyError, match="goes beyond the policy"):
        bound_by_all(own, {"same": other}, asked, internal_topics=False, **SIZE)
    assert bound_by_all(own, {}, Settings(), internal_topics=False, **SIZE).max_bytes == 500 * MB


def _yaml(text: str) -> dict[str, object]:
    import yaml

    found: dict[str, object] = yaml.safe_load(text)
    return found
