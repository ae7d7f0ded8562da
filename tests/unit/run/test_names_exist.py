"""Brokers and topics that the settings name and the cluster has not, before anything is planned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from kafka_rebalance.errors import NothingToDoError, SettingsError
from kafka_rebalance.model.cluster_view import BrokerRegistration, ClusterView
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.run.checks.limits import check_names
from support.kafka.small_clusters import partition, view

PARTITIONS = {"orders-0": partition((1, 2)), "audit-0": partition((3, 9))}  # broker 9 is not registered


def cluster_with(racks: Mapping[int, str | None]) -> ClusterView:
    brokers = {broker: BrokerRegistration(broker, (), rack=rack) for broker, rack in racks.items()}
    return replace(view(PARTITIONS), brokers=brokers)


CLUSTER = cluster_with({1: "a", 2: "a", 3: "b", 4: "b"})
NO_TOPICS = view({})


def refusal(cluster: ClusterView = CLUSTER, **asked: Any) -> str:
    with pytest.raises(SettingsError) as refused:
        check_names(Settings.from_mapping(asked), cluster)
    said = str(refused.value)
    assert said.startswith("The settings do not fit this cluster: ")
    return said.removeprefix("The settings do not fit this cluster: ")


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"job": "drain", "drain": [9]},
        {"job": "replace", "replace": {"9": 4}},
        {"brokers_out": [9], "brokers_in": [1, 4]},
        {"topics_in": ["orders"]},
        {"topics_in": ["*"], "topics_out": ["audit"]},
        {"job": "replication_factor", "replication_factor": 2},
        {"job": "replication_factor", "replication_factor": 4, "more_replicas_than_racks": True},
        {"broker_pools": [{"topics": ["audit"], "brokers": [3, 9]}]},
    ],
)
def test_what_is_there_may_be_named(asked: dict[str, Any]) -> None:
    check_names(Settings.from_mapping(asked), CLUSTER)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            {"job": "drain", "drain": [8, 7, 1]},
            "drain names broker 7, 8, which does not exist. Brokers are 1, 2, 3, 4, 9.",
        ),
        ({"job": "replace", "replace": {"8": 4}}, "replace names broker 8, which does not exist. Brokers are"),
        ({"brokers_out": [7]}, "brokers_out names broker 7, which does not exist. Brokers are"),
        (
            {"broker_pools": [{"topics": ["audit"], "brokers": [3, 8, 7]}]},
            "broker_pools of the policy names broker 7, 8, which does not exist. Brokers are",
        ),
        (
            {"job": "replace", "replace": {"1": 9}},
            "replace puts replicas on broker 9, which is not registered. Brokers are",
        ),
        ({"brokers_in": [9, 8, 1]}, "brokers_in puts replicas on broker 8, 9, which is not registered. Brokers are"),
        (
            {"topics_in": ["odrers"], "topics_out": ["x"]},
            "topics_in ['odrers'] less topics_out ['x'] matches none of 2 topics. Brokers are",
        ),
        (
            {"job": "replication_factor", "replication_factor": 5},
            "replication_factor 5 is larger than the 4 brokers that stay. Brokers are",
        ),
        (
            {"job": "replication_factor", "replication_factor": 3},
            "replication_factor 3 is larger than the 2 racks (the policy's more_replicas_than_racks may allow it). Br",
        ),
        (
            {"job": "drain", "drain": [7], "brokers_in": [8]},
            "drain names broker 7, which does not exist; brokers_in puts replicas on broker 8, which is not regis",
        ),
    ],
)
def test_what_is_not_there_is_named(asked: dict[str, Any], said: str) -> None:
    assert refusal(**asked).startswith(said)


def test_brokers_that_leave_count_neither_as_brokers_nor_with_their_racks() -> None:
    for factor, larger in ((3, "the 2 brokers that stay"), (2, "the 1 racks")):
        with pytest.raises(SettingsError, match=f"replication_factor {factor} is larger than {larger}"):
            check_names(Settings(drain=(3, 4), replication_factor=factor), CLUSTER)
    check_names(Settings(drain=(2, 4), replication_factor=2), CLUSTER)


def test_without_racks_the_brokers_alone_limit_the_factor() -> None:
    check_names(Settings(replication_factor=4), cluster_with(dict.fromkeys((1, 2, 3, 4))))
    some = cluster_with({1: "a", 2: "a", 3: "a", 4: None})
    check_names(Settings(replication_factor=4), some)


def test_a_cluster_without_topics_has_nothing_to_do_unless_topics_are_named() -> None:
    with pytest.raises(NothingToDoError) as nothing:
        check_names(Settings(), NO_TOPICS)
    assert str(nothing.value) == f"Cluster {NO_TOPICS.cluster_id} has no topics, so there is nothing to do."
    assert "matches none of 0 topics" in refusal(NO_TOPICS, topics_in=["orders"])
    plan = '{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1]}]}'
    assert "matches none of 0 topics" in refusal(NO_TOPICS, plan=plan)
