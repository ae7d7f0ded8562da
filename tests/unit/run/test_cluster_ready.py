"""What must hold before anything is planned, and again before each write."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kafka_rebalance.documents.snapshot import AutomaticElections
from kafka_rebalance.errors import ClusterNotReadyError
from kafka_rebalance.model.cluster_view import BY_ADMIN_API, Controller
from kafka_rebalance.model.partition import PartitionState, PartitionView
from kafka_rebalance.run.checks.cluster_ready import (
    ELECT_LEADERS,
    ENABLED,
    INTERVAL,
    PROTOCOL,
    Away,
    automatic_elections,
    away_since,
    cruise_control,
    harmed_by_copies_within,
    mixed_versions,
    readiness_findings,
    refuse,
    waiting_for,
    without_away,
)
from support.kafka.small_clusters import CLUSTER_ID, partition, tp, view

ENDS, STARTS_IT = "Wait for its end, or cancel it with the tool", "Start it, or name it in drain or replace"
NOBODY_LEADS, STARTS_ONE = "1 partition without a live leader", "Start the brokers of their in-sync replicas"
HEALTHY = {"t-0": partition([1, 2]), "t-1": partition([2, 3]), "u-0": partition([3, 1])}


def test_a_healthy_cluster_is_ready() -> None:
    refuse(readiness_findings(view(HEALTHY)))
    refuse(readiness_findings(view(HEALTHY), expected_cluster_id=CLUSTER_ID))
    refuse(readiness_findings(view({})))


@pytest.mark.parametrize(
    ("wrong", "subject", "words"),
    [
        ({"cluster_id": "other"}, "cluster other", f"the connection expects cluster {CLUSTER_ID}"),
        ({"controller": None}, "/controller", "there is no controller"),
        ({"controller": Controller(9, 4)}, "controller 9", "not a registered broker"),
        ({"controller": Controller(3000, 4, kraft_epoch=0)}, "/controller", "a KRaft controller owns the cluster"),
        (
            {"reassignments": {}},
            "/admin/reassign_partitions",
            "under way (it is empty, and still blocks every request)",
        ),
        ({"reassignments": {tp("t-0"): (3, 4)}}, "/admin/reassign_partitions", "under way (t-0)"),
        ({"elections": frozenset()}, "/admin/preferred_replica_election", "it is empty"),
        ({"elections": frozenset({tp("t-1")})}, "/admin/preferred_replica_election", "under way (t-1)"),
        ({"deletions": frozenset({"old"})}, "/admin/delete_topics", "topics are being deleted (old)"),
    ],
)
def test_each_condition_that_forbids_a_plan_is_found(wrong: Any, subject: str, words: str) -> None:
    (finding,) = readiness_findings(view(HEALTHY, **wrong), expected_cluster_id=CLUSTER_ID)
    assert finding.subject == subject
    assert words in finding.problem
    assert finding.remedy


@pytest.mark.parametrize(
    ("states", "subject", "words", "remedy"),
    [
        ({"t-0": partition([4, 1, 2], [1, 2], adding=[4])}, "reassignments", "being added or removed (t-0)", ENDS),
        ({"t-0": partition([1, 2], removing=[2])}, "reassignments", "being added or removed (t-0)", ENDS),
        ({"t-0": partition([1, 2], leader=-1)}, NOBODY_LEADS, "t-0", STARTS_ONE),
        ({"t-0": partition([1, 2], leader=9)}, NOBODY_LEADS, "t-0", STARTS_ONE),
        ({"t-0": dataclasses.replace(partition([1]), state=None)}, NOBODY_LEADS, "t-0", STARTS_ONE),
        ({"t-0": partition([1, 9], [1])}, "broker 9", "not registered and holds 1 replica (t-0)", STARTS_IT),
        (
            {"t-0": partition([1, 9], [1]), "t-1": partition([2, 9], [2])},
            "broker 9",
            "not registered and holds 2 replicas (t-0, t-1)",
            STARTS_IT,
        ),
    ],
)
def test_each_condition_of_a_partition_that_forbids_a_plan_is_found(
    states: Any, subject: str, words: str, remedy: str
) -> None:
    (finding,) = readiness_findings(view(HEALTHY | states))
    assert finding.subject == subject
    assert words in finding.problem
    assert finding.remedy.startswith(remedy)


def test_a_request_of_what_is_gone_alone_is_not_waited_for() -> None:
    asked = {tp("old-0"): (3, 4), tp("t-0"): (1, 4)}
    gone, again = frozenset(asked), frozenset({tp("t-0")})
    (finding,) = readiness_findings(view(HEALTHY, reassignments=asked, requested_gone=gone, requested_again=again))
    assert "asks only for partitions that are gone" in finding.problem
    assert "does not end by itself" in finding.problem
    assert "Restart the broker that is controller (broker 1)" in finding.remedy
    assert "kafka_rebalance_cancel with action elect_controller" in finding.remedy
    assert "moves the new partitions of the topics that were made again: t-0 to [1, 4]" in finding.remedy
    assert "Wait for its end" not in str(finding)
    (finding,) = readiness_findings(view(HEALTHY, reassignments=asked, requested_gone=frozenset({tp("old-0")})))
    assert "Wait for its end" in finding.remedy


def test_all_findings_are_told_at_once_with_what_to_do() -> None:
    wrong = view(HEALTHY | {"t-0": partition([1, 9], leader=-1)}, controller=None, reassigning={})
    with pytest.raises(ClusterNotReadyError) as refused:
        refuse(readiness_findings(wrong, expected_cluster_id="another"))
    lines = str(refused.value).splitlines()
    assert "this task does not go on" in lines[0]
    assert [line.split(":")[0] for line in lines[1:]] == [
        f"- cluster {CLUSTER_ID}",
        "- /controller",
        "- /admin/reassign_partitions",
        "- 1 partition without a live leader",
        "- broker 9",
    ]


def test_many_partitions_are_counted_and_ten_are_named() -> None:
    states = {f"t-{n}": partition([1], leader=-1) for n in range(23)}
    (finding,) = readiness_findings(view(states))
    assert finding.subject == "23 partitions without a live leader"
    assert finding.problem == ", ".join(f"t-{n}" for n in range(10)) + " and 13 more"


@pytest.mark.parametrize(("may_be_down", "down"), [((), [8, 9]), ((9,), [8]), ((8, 9), []), ((8, 9, 4), [])])
def test_a_broker_may_be_down_only_if_it_is_to_be_emptied(may_be_down: Any, down: Any) -> None:
    states = HEALTHY | {"t-0": partition([1, 8], [1]), "t-1": partition([2, 9], [2])}
    findings = readiness_findings(view(states), may_be_down=may_be_down)
    assert [finding.subject for finding in findings] == [f"broker {broker}" for broker in down]


def test_other_topics_may_be_ill_if_only_some_are_asked_about() -> None:
    states = HEALTHY | {"u-0": partition([9], leader=-1)}
    ill = view(states, deletions=frozenset({"v"}))
    refuse(readiness_findings(ill, topics={"t"}))
    assert len(readiness_findings(ill)) == 3
    assert len(readiness_findings(ill, topics={"u", "v"})) == 3


def test_a_cluster_without_request_znodes_is_named_by_its_controller() -> None:
    by_api = dataclasses.replace(view(HEALTHY, controller=None), traits=BY_ADMIN_API)
    (finding,) = readiness_findings(by_api)
    assert finding.subject == "controller"
    assert str(finding) == (
        "controller: there is no controller. Wait until one is elected; see the logs of those who may be"
    )


LONE = {"s-0": partition([4], leader=-1), "s-1": partition([1, 4], [4], leader=-1), "t-0": partition([1, 2])}


def test_what_waits_for_a_broker_that_may_be_down_is_no_finding_unless_it_is_needed() -> None:
    dead = view(LONE, brokers=(1, 2, 3))
    assert waiting_for(dead, {4}) == {tp("s-0"): (4,), tp("s-1"): (4,)}
    assert waiting_for(dead, {3}) == {}
    refuse(readiness_findings(dead, may_be_down={4}))
    (finding,) = readiness_findings(dead, may_be_down={4}, needed={tp("s-0"), tp("t-0")})
    assert finding.problem == "s-0"


@pytest.mark.parametrize(
    "one",
    [
        partition([4, 1], [4, 1], leader=4),  # broker 1 is about to lead it
        partition([4, 3], [3, 4], leader=-1),  # broker 3 may lead it, and stays
        partition([1], leader=-1),  # it has a disk that failed
    ],
)
def test_a_partition_that_another_broker_may_lead_waits_for_nobody(one: Any) -> None:
    ill = view({"s-0": one}, brokers=(1, 2, 3))
    assert waiting_for(ill, {4}) == {}
    (finding,) = readiness_findings(ill, may_be_down={4})
    assert finding.subject == "1 partition without a live leader"


def test_an_empty_isr_waits_for_whoever_is_away() -> None:
    assert waiting_for(view({"s-0": partition([1, 4], [], leader=-1)}, brokers=(1, 2, 3)), {4}) == {tp("s-0"): (4,)}


def test_a_deletion_is_no_finding_if_it_waits_for_a_broker_that_may_be_down() -> None:
    states = LONE | {"old-0": partition([4, 1], [1]), "old-1": partition([2, 1])}
    held_up = view(states, brokers=(1, 2, 3), deletions=frozenset({"old", "t"}))
    assert {str(each) for each in waiting_for(held_up, {4})} == {"s-0", "s-1", "old-0", "old-1"}
    (finding,) = readiness_findings(held_up, may_be_down={4})
    assert finding.problem == "topics are being deleted (t)"
    refuse(readiness_findings(held_up, may_be_down={4}, topics={"s", "old"}))
    needs = readiness_findings(held_up, may_be_down={4}, topics={"s", "old"}, needed={tp("old-1")})
    assert [one.problem for one in needs] == ["topics are being deleted (old)"]


def eligible(*brokers: int) -> PartitionView:
    """Nobody leads it, its ISR is empty, and Kafka says who may lead it without a loss."""
    return dataclasses.replace(partition([1, 2], [], -1), state=PartitionState(-1, 0, (), eligible=brokers))


def test_where_the_isr_is_empty_the_brokers_that_may_lead_are_named() -> None:
    (finding,) = readiness_findings(view(HEALTHY | {"t-0": eligible(2), "t-1": eligible(), "u-0": eligible(3, 1)}))
    assert finding.subject == "3 partitions without a live leader"
    assert finding.remedy.endswith("Where the ISR is empty, one of these may lead: t-0 [2], u-0 [3, 1]")


def test_no_broker_is_named_where_kafka_names_none_or_the_isr_has_one() -> None:
    in_sync = dataclasses.replace(partition([1, 2], [1], -1), state=PartitionState(-1, 0, (1,), eligible=(2,)))
    (finding,) = readiness_findings(view(HEALTHY | {"t-0": eligible(), "t-1": in_sync}))
    assert finding.remedy.endswith("nothing without a leader")


# Cruise Control is told by its topics, and by its reporter in the brokers.


@pytest.mark.parametrize(
    "topic",
    [
        "__CruiseControlMetrics",
        "__KafkaCruiseControlModelTrainingSamples",
        "__KafkaCruiseControlPartitionMetricSamples",
        "strimzi.cruisecontrol.metrics",
    ],
)
def test_cruise_control_is_told_by_its_topics(topic: str) -> None:
    (finding,) = cruise_control(["orders", topic], {})
    assert finding.subject == "Cruise Control"
    assert f"topic {topic}" in finding.problem
    assert "beside_cruise_control: true" in finding.remedy


def test_cruise_control_is_told_by_its_reporter_in_the_brokers() -> None:
    reporter = "com.linkedin.kafka.cruisecontrol.metricsreporter.CruiseControlMetricsReporter"
    (finding,) = cruise_control([], {1: {"metric.reporters": (reporter, "STATIC_BROKER_CONFIG")}, 2: {}})
    assert "metric.reporters of broker 1" in finding.problem
    assert list(cruise_control(["orders"], {1: {"metric.reporters": ("", "DEFAULT_CONFIG")}})) == []


# Whether Kafka elects preferred leaders by itself, by what its brokers say.


def told(enabled: str | None = None, seconds: str | None = None) -> dict[str, tuple[str | None, str]]:
    values = {ENABLED: enabled, INTERVAL: seconds}
    return {key: (value, "DEFAULT_CONFIG") for key, value in values.items() if value is not None}


@pytest.mark.parametrize(
    ("brokers", "electing", "seconds"),
    [
        ({10: told("true", "300"), 9: told("true", "60"), 3: told("false", "1")}, (9, 10), 60),  # the shortest interval
        ({1: told(), 2: told("false")}, (1,), None),  # who does not tell has Kafka's default
        ({1: told("false", "300")}, (), None),
    ],
)
def test_a_broker_elects_unless_it_says_false(brokers: Any, electing: tuple[int, ...], seconds: int | None) -> None:
    assert automatic_elections(brokers) == AutomaticElections(electing, seconds)


# A rolling upgrade and a Kafka below 2.2 show in protocols and in the requests that brokers speak.


def configs(protocol: Any = "2.8-IV1") -> Any:
    return {PROTOCOL: (protocol, "STATIC_BROKER_CONFIG")}


SPOKEN = {0: (0, 9), 18: (0, 3)}
UPGRADE_ENDS = "Wait until the rolling upgrade has ended, then clear this task"


def test_brokers_of_one_version_are_no_upgrade() -> None:
    assert list(mixed_versions({1: configs(), 2: configs()}, {1: SPOKEN, 2: dict(SPOKEN)})) == []
    assert list(mixed_versions({1: {}, 2: configs()}, {})) == []


def test_different_protocols_are_a_rolling_upgrade_and_name_the_brokers() -> None:
    (finding,) = mixed_versions({1: configs(), 2: configs("3.9-IV0"), 3: configs()}, {})
    assert (finding.subject, finding.remedy) == ("brokers", UPGRADE_ENDS)
    assert finding.problem == f"they run different {PROTOCOL}: 2.8-IV1 on broker 1, 3; 3.9-IV0 on broker 2"


@pytest.mark.parametrize("other", [{0: (0, 9), 18: (0, 4)}, {**SPOKEN, 60: (0, 0)}])
def test_software_of_different_versions_under_one_protocol_is_told_by_what_brokers_speak(other: Any) -> None:
    same = {broker: configs() for broker in (1, 2, 3)}
    (finding,) = mixed_versions(same, {1: SPOKEN, 2: other, 3: SPOKEN})
    assert (finding.subject, finding.remedy) == ("brokers", UPGRADE_ENDS)
    assert "different software: broker 1, 3; broker 2 speak different versions of 1 of Kafka's" in finding.problem


def test_a_broker_below_2_2_is_named_where_replicas_would_move_between_its_log_dirs() -> None:
    newer = {**SPOKEN, ELECT_LEADERS: (0, 0)}
    assert list(harmed_by_copies_within({1: newer, 2: newer})) == []
    (finding,) = harmed_by_copies_within({3: SPOKEN, 1: newer, 2: SPOKEN})
    assert finding.subject == "broker 2, 3"
    assert "below 2.2" in finding.problem
    assert "Upgrade" in finding.remedy


# Who is away, and what waits for them.


def test_the_cluster_without_what_is_away_tells_what_was_left_out() -> None:
    states = {
        "t-0": partition([1, 4]),
        "t-1": partition([4, 5], [4, 5], leader=-1),
        "u-0": partition([2, 1]),
        "old-0": partition([5, 1], [1]),
    }
    ill = view(states, brokers=(1, 2), deletions=frozenset({"old"}))
    rest, away = without_away(ill)
    assert {str(topic_partition): state.replicas for topic_partition, state in rest.partitions.items()} == {
        "t-0": (1,),
        "u-0": (2, 1),
    }
    assert (away.brokers, away.leaderless, away.deletions) == ((4, 5), (tp("t-1"),), ("old",))
    assert away.waits == {tp("t-1"): (4, 5), tp("old-0"): (5,)}
    assert not away.is_empty


@pytest.mark.parametrize(
    "states",
    [HEALTHY, {"t-0": partition([4], leader=-1)}],
    ids=["nobody is away", "nothing would be left"],
)
def test_a_view_stays_where_nothing_is_left_out_or_nothing_would_be_left(states: Any) -> None:
    now = view(states, brokers=(1, 2, 3))
    assert without_away(now) == (now, Away())
    assert Away().is_empty


@pytest.mark.parametrize(
    ("away", "gone", "only"),
    [
        (Away(), (), True),
        (Away((4,), (tp("t-0"),), (), {tp("t-0"): (4,)}), (4,), True),
        (Away((4, 5), (tp("t-0"),), (), {tp("t-0"): (4, 5)}), (4,), False),
        (Away((4,), (tp("t-0"), tp("t-1")), (), {tp("t-0"): (4,)}), (4,), False),  # t-1 waits for somebody else
        (Away((4,), (), ("old",), {tp("old-0"): (4,)}), (4,), True),
        (Away((4,), (), ("old", "new"), {tp("old-0"): (4,)}), (4,), False),
    ],
)
def test_all_waits_for_these_brokers_only_if_each_partition_and_deletion_does(
    away: Away, gone: tuple[int, ...], only: bool
) -> None:
    assert away.only_wait_for(gone) is only


def test_a_broker_is_away_since_the_first_of_the_checks_in_a_row_that_missed_it() -> None:
    now = datetime(2026, 11, 21, tzinfo=UTC)
    days = [now - timedelta(days=number) for number in range(5)]
    found_away = ([4], [4, 5], [5, 4], None, [4])  # newest first; None: the check knew no brokers
    checks = [{"observed_at": day, "brokers_away": brokers} for day, brokers in zip(days, found_away, strict=True)]
    assert away_since(4, checks, now) == days[2]
    assert away_since(5, checks, now) == now, "the newest check saw it"
    assert away_since(5, checks[1:], now) == days[2]
    assert away_since(4, [], now) == now
