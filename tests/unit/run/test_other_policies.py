"""Two connections to one cluster, each with a policy of its own: the stricter limit counts, and somebody is told."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from kafka_rebalance.errors import PolicyError
from kafka_rebalance.model.connection import ClusterConnection, KafkaConnection
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.run.inputs import Deployment
from kafka_rebalance.run.policies_of_one_cluster import bound_by, bound_policy, other_policies
from support.runs.plain_deployment import plain_deployment

MB = 1_000_000
OURS = "approvers: [uma]\nmax_bytes_share: 0.5\nmax_throttle_bytes_per_second: 100000000\n"
STRICT = "approvers: [ole]\nmax_bytes_share: 0.1\nmax_throttle_bytes_per_second: 5000000\n"


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
    found = other_policies(made, "ours", "the-cluster")
    assert list(found) == ["named", "same"]


def test_an_equal_policy_is_no_other_one_and_a_damaged_one_of_another_cluster_stops_nobody(tmp_path: Path) -> None:
    made = deployment(tmp_path, ours=OURS, same=OURS, **dict.fromkeys(("another", "far", "gone"), "approvers: 7\n"))
    assert other_policies(made, "ours", "the-cluster") == {}


def test_the_limits_of_a_damaged_one_of_the_same_cluster_are_unknown_so_it_stops_all_that_it_limits(
    tmp_path: Path,
) -> None:
    made = deployment(tmp_path, ours=OURS, named="approvers: 7\n")
    own = made.read_policy("ours")
    assert own is not None
    with pytest.raises(PolicyError, match=r"named leads to the same cluster as ours.*limits are unknown.*named\.yaml"):
        bound_policy(made, own, "ours", "the-cluster")


def test_the_stricter_limit_of_each_counts() -> None:
    own, other = Policy.from_mapping(_yaml(OURS), "ours"), Policy.from_mapping(_yaml(STRICT), "same")
    both = bound_by(own, [other], brokers=3)
    bound = both.tighten(Settings(), cluster_bytes=1000 * MB, brokers=3)
    assert bound.throttle_bytes_per_second == 5 * MB
    assert bound.max_bytes == 100 * MB
    assert both.approvers == own.approvers
    with pytest.raises(PolicyError, match="goes beyond the policy"):
        both.tighten(Settings(throttle_bytes_per_second=50 * MB), cluster_bytes=1000 * MB, brokers=3)
    assert bound_by(own, [], brokers=3) is own


def test_every_key_of_a_policy_that_limits_is_bound_and_what_is_of_people_times_and_places_is_not() -> None:
    stricter = {
        "max_bytes_share": 0.01,
        "max_bytes": 7,
        "leader_changes_per_batch": 7,
        "partitions_per_batch": 7,
        "copies_per_broker": 7,
        "partitions_per_topic": 7,
        "replicas_per_broker": 7,
        "min_throttle_bytes_per_second": 2 * MB,
        "max_throttle_bytes_per_second": 3 * MB,
        "topics_out": ("x*",),
        "pinned_topics": ("y",),
        "rack_pinned_topics": ("z",),
        "brokers_out": (9,),
        "even_at_worst_hour": True,
        "copies_within_racks": True,
        "prefer": "fewest_bytes",
        "less_even_plan": "refuse",
    }
    own = Policy.from_mapping(_yaml(OURS) | {"internal_topics": True}, "ours")
    other = Policy.from_mapping(
        _yaml(STRICT) | {key: list(value) if isinstance(value, tuple) else value for key, value in stricter.items()},
        "s",
    )
    bound = bound_by(own, [other], brokers=3)
    assert {key: getattr(bound, key) for key in stricter} == stricter
    assert bound.internal_topics is False
    rest = {field.name for field in dataclasses.fields(Policy)} - stricter.keys() - {"internal_topics"}
    assert {key: getattr(bound, key) for key in rest} == {key: getattr(own, key) for key in rest}
    back = bound_by(other, [own], brokers=3)  # a laxer one changes nothing
    assert {key: getattr(back, key) for key in stricter} == stricter


def test_policies_that_leave_no_throttle_are_told_by_their_figures() -> None:
    own = Policy.from_mapping(_yaml(OURS) | {"min_throttle_bytes_per_second": 10 * MB}, "ours")
    other = Policy.from_mapping(_yaml(STRICT), "same")
    with pytest.raises(PolicyError, match="no less than 10000000 bytes/s, and one no more than 5000000"):
        bound_by(own, [other], brokers=3)


def test_the_bound_policy_is_read_anew_each_time(tmp_path: Path) -> None:
    made = deployment(tmp_path, ours=OURS)
    own = made.read_policy("ours")
    assert own is not None
    assert bound_policy(made, own, "ours", "the-cluster") is own
    (tmp_path / "policies" / "named.yaml").write_text(STRICT)
    assert bound_policy(made, own, "ours", "the-cluster").max_throttle_bytes_per_second == 5 * MB
    assert bound_policy(made, own, "ours", "another-cluster") is own


def _yaml(text: str) -> dict[str, object]:
    import yaml

    found: dict[str, object] = yaml.safe_load(text)
    return found
