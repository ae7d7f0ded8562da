"""Segment settings of moved topics: sound by Kafka's own rules, and the same as before."""

from __future__ import annotations

import dataclasses

import pytest

from builders import move
from kafka_rebalance.kafka.segment_roll import EffectiveRollSettings
from kafka_rebalance.verification.segments import check_segments, check_sound

DAY = 86_400_000
DEFAULTS = EffectiveRollSettings(
    segment_bytes=1 << 30,
    segment_ms=7 * DAY,
    segment_jitter_ms=0,
    segment_index_bytes=10 << 20,
    index_interval_bytes=4096,
    max_message_bytes=1_048_588,
    retention_ms=7 * DAY,
    retention_bytes=-1,
    cleanup_policy=("delete",),
    sources={"segment.ms": "log.roll.hours (STATIC_BROKER_CONFIG)"},
)
FETCH = dict.fromkeys(range(1, 6), 1 << 20)


def altered(**values):
    return dataclasses.replace(DEFAULTS, **values)


def test_the_defaults_are_sound():
    (check,) = check_sound("t", {1: DEFAULTS, 2: DEFAULTS}, FETCH)
    assert (check.passed, check.severity, check.subject) == (True, "error", "t")
    assert check.finding == "all 6 rules hold on broker 1, 2"


@pytest.mark.parametrize(
    ("values", "passed", "words"),
    [
        # below two entries of the time index it is full from the start
        ({"segment_index_bytes": 23}, False, "every append rolls"),
        ({"segment_index_bytes": 0}, False, "every append rolls"),
        ({"segment_index_bytes": 24, "segment_bytes": 4096, "max_message_bytes": 1}, True, None),
        # 12 * (1 GiB / 4 KiB + 1) = 3 145 740
        ({"segment_index_bytes": 3_145_740}, True, None),
        ({"segment_index_bytes": 3_145_739}, True, "can need 3145740"),
        ({"index_interval_bytes": 0}, True, "it may roll before it is full"),
        # jitter
        ({"segment_jitter_ms": 7 * DAY - 1}, True, None),
        ({"segment_jitter_ms": 7 * DAY}, False, "reaches segment.ms"),
        # messages
        ({"segment_bytes": 1_048_588}, True, None),
        ({"segment_bytes": 1_048_587}, False, "max.message.bytes 1048588"),
        # a chunk that a new replica fetches
        ({"segment_bytes": 1 << 20, "max_message_bytes": 1000}, True, None),
        ({"segment_bytes": (1 << 20) - 1, "max_message_bytes": 1000}, False, "1048575 against 1048576 on broker 1"),
        # rolling later than retention
        ({"retention_ms": 7 * DAY - 1}, True, "records can stay for both"),
        ({"retention_ms": -1}, True, None),
        ({"retention_ms": DAY, "cleanup_policy": ("compact",)}, True, None),
        ({"retention_ms": DAY, "cleanup_policy": ("compact", "delete")}, True, "records can stay for both"),
    ],
)
def test_each_rule_at_its_limit(values, passed, words):
    fetch = {1: 1} if values.get("segment_bytes") == 4096 else FETCH
    checks = check_sound("t", {1: altered(**values)}, fetch)
    assert all(check.passed for check in checks) == passed
    if words is None:
        assert [check.warns for check in checks] == [False]
    else:
        (check,) = [check for check in checks if words in check.finding]
        assert check.severity == ("warning" if passed else "error")
        assert "on broker 1" in check.finding


def test_a_topic_that_never_rolls_by_traffic_is_no_finding():
    """A low-traffic topic is deleted in time all the same: an expired active segment is rolled and removed (2.0)."""
    assert [check.warns for check in check_sound("t", {1: altered(segment_ms=DAY)}, FETCH)] == [False]


def test_brokers_with_the_same_fault_are_named_together():
    settings = {1: altered(segment_index_bytes=5), 2: DEFAULTS, 3: altered(segment_index_bytes=5)}
    (check,) = check_sound("t", settings, FETCH)
    assert check.finding.endswith("on broker 1, 3")


def test_an_unknown_fetch_size_does_not_pass():
    (check,) = check_sound("t", {1: DEFAULTS}, {})
    assert not check.passed
    assert "unknown on broker 1" in check.finding


MOVES = [move("t-0", [1, 2], [2, 3]), move("t-1", [2, 1], [1, 2]), move("u-0", [1, 2], [2, 1])]
EVERYWHERE = {(topic, broker): DEFAULTS for topic in ("t", "u") for broker in (1, 2, 3)}


def run(before=EVERYWHERE, after=EVERYWHERE):
    checks = check_segments(MOVES, before, after, replica_fetch_max_bytes=FETCH)
    return {(check.name.removeprefix("segment_settings_"), check.subject): check for check in checks}


def test_settings_that_are_the_same_everywhere_pass():
    checks = run()
    assert set(checks) == {
        ("sound", "t"),
        ("unchanged", "t"),
        ("same_on_new_broker", "t"),
        ("sound", "u"),
        ("unchanged", "u"),
    }
    assert all(check.passed and not check.warns for check in checks.values())


def test_a_setting_that_changed_during_the_run_fails():
    checks = run(after=EVERYWHERE | {("u", 2): altered(segment_ms=DAY)})
    assert [key for key, check in checks.items() if not check.passed] == [("unchanged", "u")]
    assert checks["unchanged", "u"].finding == (
        f"segment.ms {7 * DAY} -> {DAY} (log.roll.hours (STATIC_BROKER_CONFIG)) on broker 2"
    )


def test_a_partition_that_came_to_a_broker_with_other_static_values_fails_by_name():
    other = EVERYWHERE | {("t", 3): altered(segment_ms=DAY, retention_bytes=5)}
    checks = run(before=other, after=other)
    assert [key for key, check in checks.items() if not check.passed] == [("same_on_new_broker", "t")]
    assert checks["same_on_new_broker", "t"].finding.startswith(
        "partition 0, broker 3: segment.ms 604800000 -> 86400000"
    )
    assert "retention.bytes -1 -> 5" in checks["same_on_new_broker", "t"].finding


def test_brokers_that_already_differed_are_no_change_of_the_partition():
    """Old brokers 1 and 2 differ, new broker 3 is as 2: the partition rolls as it did on one of them."""
    differing = EVERYWHERE | {("t", 1): altered(segment_ms=DAY)}
    assert all(check.passed for check in run(before=differing, after=differing).values())


def test_a_broker_that_could_not_be_asked_does_not_pass():
    after = {key: value for key, value in EVERYWHERE.items() if key != ("u", 1)}
    checks = [
        check for check in check_segments(MOVES, EVERYWHERE, after, replica_fetch_max_bytes=FETCH) if not check.passed
    ]
    assert [(check.subject, check.finding) for check in checks] == [("u", "unknown on broker 1")]


def test_a_broker_unknown_at_the_snapshot_does_not_count_as_unchanged():
    before = {key: value for key, value in EVERYWHERE.items() if key != ("u", 1)}
    assert not run(before=before)["unchanged", "u"].passed


def test_without_the_old_brokers_settings_nothing_is_called_the_same():
    before = {key: value for key, value in EVERYWHERE.items() if key not in {("t", 1), ("t", 2)}}
    check = run(before=before)["same_on_new_broker", "t"]
    assert not check.passed
    assert check.finding == "partition 0, broker 3: unknown on the old brokers, so not compared"
