"""What makes a write dangerous although nothing is queued: versions, disks, sizes, other tools."""

from __future__ import annotations

import pytest

from kafka_rebalance.execution.check.broker_versions import PROTOCOL, mixed_versions
from kafka_rebalance.execution.check.cruise_control import cruise_control
from kafka_rebalance.execution.check.enough_in_sync import cut_below_min_isr, min_insync_now, under_min_isr
from kafka_rebalance.execution.check.znode_size import ZNODE_BYTES, too_large_znodes
from support.kafka.small_clusters import batches, move, partition, tp, view

GB = 1_000_000_000


# --- below min.insync.replicas -------------------------------------------------------------------------------------


def test_a_partition_below_min_isr_is_not_moved():
    moves = [move("t-0", [1, 2, 3], [2, 3, 4]), move("t-1", [1, 2, 3], [2, 3, 4])]
    current = view({"t-0": partition([1, 2, 3], [1]), "t-1": partition([1, 2, 3], [1, 2])})
    (finding,) = under_min_isr(moves, current, {tp("t-0"): 2, tp("t-1"): 2})
    assert finding.subject == "1 partition below min.insync.replicas"
    assert finding.problem == "t-0 lacks [2, 3]"
    assert "Bring those replicas back" in finding.remedy


def test_what_only_lacks_a_broker_that_is_to_be_emptied_is_moved_to_mend_it():
    moves = [move("t-0", [1, 9], [1, 2])]
    current = view({"t-0": partition([1, 9], [1])})
    assert list(under_min_isr(moves, current, {tp("t-0"): 2}, leaving={9})) == []
    assert list(under_min_isr(moves, current, {tp("t-0"): 2}, leaving={8}))


def test_a_min_isr_that_no_replica_count_meets_is_no_reason_to_wait():
    moves = [move("t-0", [1], [2])]
    assert list(under_min_isr(moves, view({"t-0": partition([1])}), {tp("t-0"): 2})) == []
    assert list(under_min_isr(moves, view({"t-0": partition([1])}), {})) == []


def test_a_list_that_is_cut_below_min_isr_is_refused_with_its_figures():
    moves = [
        move("t-0", [1, 2], [1]),
        move("t-1", [1, 2, 3], [1, 2]),
        move("t-2", [1], [2]),  # too short already, and not made shorter
        move("t-3", [1], [2, 3]),
    ]
    least = {tp(name): 2 for name in ("t-0", "t-1", "t-2")} | {tp("t-3"): 3}
    (finding,) = cut_below_min_isr(moves, least)
    assert finding.subject == "1 partition with fewer replicas than min.insync.replicas"
    assert finding.problem == "t-0 goes from 2 to 1 and is to have 2"
    assert "Lower min.insync.replicas of the topic" in finding.remedy
    assert list(cut_below_min_isr(moves, {})) == []


def test_the_min_isr_of_today_is_the_topics_own_or_the_highest_of_the_brokers_that_lead_or_will_hold_it():
    moves = [move("t-0", [1, 2], [2, 3]), move("u-0", [1, 2], [2]), move("v-0", [4], [5])]
    current = view({"t-0": partition([1, 2]), "u-0": partition([1, 2])})
    key = "min.insync.replicas"
    configs_now = {1: {key: ("2", "x")}, 2: {key: ("1", "x")}, 3: {key: (None, "x")}}
    recorded = {tp("u-0"): 1, tp("v-0"): 7}
    found = min_insync_now(moves, current, {"t": {key: "3"}}, configs_now, recorded)
    assert found == {tp("t-0"): 3, tp("u-0"): 2, tp("v-0"): 7}


# --- versions ------------------------------------------------------------------------------------------------------


def configs(protocol="2.8-IV1"):
    return {PROTOCOL: (protocol, "STATIC_BROKER_CONFIG")}


SPOKEN = {0: (0, 9), 18: (0, 3)}


def test_brokers_of_one_version_are_no_upgrade():
    assert list(mixed_versions({1: configs(), 2: configs()}, {1: SPOKEN, 2: dict(SPOKEN)})) == []
    assert list(mixed_versions({1: {}, 2: configs()}, {})) == []


def test_different_protocols_are_a_rolling_upgrade_and_name_the_brokers():
    (finding,) = mixed_versions({1: configs(), 2: configs("3.9-IV0"), 3: configs()}, {})
    assert finding.problem == f"they run different {PROTOCOL}: 2.8-IV1 on broker 1, 3; 3.9-IV0 on broker 2"
    assert "Wait until the rolling upgrade has ended" in finding.remedy


@pytest.mark.parametrize("other", [{0: (0, 9), 18: (0, 4)}, {**SPOKEN, 60: (0, 0)}])
def test_software_of_different_versions_under_one_protocol_is_told_by_what_brokers_speak(other):
    same = {broker: configs() for broker in (1, 2, 3)}
    (finding,) = mixed_versions(same, {1: SPOKEN, 2: other, 3: SPOKEN})
    assert "software is of different versions: broker 1, 3; broker 2 speak 1 of Kafka's requests" in finding.problem


# --- Cruise Control ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "topic",
    [
        "__CruiseControlMetrics",
        "__KafkaCruiseControlModelTrainingSamples",
        "__KafkaCruiseControlPartitionMetricSamples",
        "strimzi.cruisecontrol.metrics",
    ],
)
def test_cruise_control_is_told_by_its_topics(topic):
    (finding,) = cruise_control(["orders", topic], {})
    assert f"topic {topic}" in finding.problem
    assert "beside_cruise_control: true" in finding.remedy


def test_cruise_control_is_told_by_its_reporter_in_the_brokers():
    reporter = "com.linkedin.kafka.cruisecontrol.metricsreporter.CruiseControlMetricsReporter"
    (finding,) = cruise_control([], {1: {"metric.reporters": (reporter, "STATIC_BROKER_CONFIG")}, 2: {}})
    assert "metric.reporters of broker 1" in finding.problem
    assert list(cruise_control(["orders"], {1: {"metric.reporters": ("", "DEFAULT_CONFIG")}})) == []


# --- sizes ---------------------------------------------------------------------------------------------------------


def test_a_topic_that_outgrows_zookeeper_in_the_midst_of_a_batch_is_found():
    count = 30_000
    lists = {f"t-{number}": partition([1001, 1002, 1003]) for number in range(count)}
    small = batches(*(move(f"t-{number}", [1001, 1002, 1003], [1002, 1003, 1004]) for number in range(10)))
    assert list(too_large_znodes(small, view(lists))) == []
    large = batches(*(move(f"t-{number}", [1001, 1002, 1003], [1004, 1005, 1006]) for number in range(9_000)))
    (finding,) = too_large_znodes(large, view(lists))
    assert finding.subject == "topic t"
    assert f"of {ZNODE_BYTES:,} bytes in batch 1" in finding.problem
    assert "topics_out" in finding.remedy
    assert "-Djute.maxbuffer in SERVER_JVMFLAGS of every ZooKeeper server" in finding.remedy
    assert "KAFKA_OPTS of every broker" in finding.remedy


def test_a_request_that_zookeeper_would_not_take_is_found():
    topic = "a" * 249
    many = batches(*(move(f"{topic}{n % 9}-{n}", [1001, 1002], [1002, 1001]) for n in range(4_000)))
    found = list(too_large_znodes(many, view({})))
    assert found[0].subject == "batch 1"
    assert "its request has 1,210,918 of" in found[0].problem
