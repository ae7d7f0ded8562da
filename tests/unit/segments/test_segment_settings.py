"""Segment settings of moved topics: sound by Kafka's own rules, and the same as before; what was shown only warns."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_rebalance.segments.settings_audit import check_segments
from support.documents.segment_configs import DAY, STATIC, configs, reported
from support.kafka.small_clusters import move

MOVES = [move("t-0", [1, 2], [2, 3]), move("t-1", [2, 1], [1, 2]), move("u-0", [1, 2], [2, 1])]
SAME = configs({"t": {}, "u": {}})


def run(before: Any = SAME, now: Any = SAME, moves: Any = MOVES) -> Any:
    checks = check_segments(moves, before, now)
    return {(check.name.removeprefix("segment_settings_"), check.subject): check for check in checks}


def failed(checks: Any) -> Any:
    return [key for key, check in checks.items() if not check.passed]


def test_settings_that_are_the_same_everywhere_pass() -> None:
    checks = run()
    assert set(checks) == {
        ("sound", "t"),
        ("unchanged", "t"),
        ("same_on_new_broker", "t"),
        ("sound", "u"),
        ("unchanged", "u"),
    }
    assert all(check.passed and not check.warns for check in checks.values())
    assert checks["sound", "t"].finding == "all 9 rules hold on broker 1, 2, 3"


def test_a_setting_that_changed_during_the_run_fails() -> None:
    checks = run(now=configs({"t": {}, "u": {}}, {2: reported(log_roll_hours=24)}))
    assert failed(checks) == [("unchanged", "t"), ("unchanged", "u")]
    assert checks["unchanged", "u"].finding == (
        f"segment.ms {7 * DAY} -> {DAY} on broker 2 (segment.ms: log.roll.hours (broker static))"
    )


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"segment.index.bytes": 20}, "every append rolls"),
        ({"segment.jitter.ms": 8 * DAY}, "reaches segment.ms"),
        ({"segment.bytes": 1_048_580}, "max.message.bytes 1048588"),
        ({"segment.bytes": 100_000, "max.message.bytes": 9}, "replica.fetch.max.bytes 1048576"),
        ({"segment.bytes": 3_000_000_000}, "Not a number of type INT"),
    ],
)
def test_what_became_wrong_since_the_approval_fails(overrides: Any, words: str) -> None:
    checks = run(now=configs({"t": {}, "u": overrides}))
    assert ("sound", "u") in failed(checks)
    assert words in checks["sound", "u"].finding
    assert not checks["sound", "u"].was_shown


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"segment.index.bytes": 20}, "every append rolls"),
        ({"segment.jitter.ms": 8 * DAY}, "reaches segment.ms"),
        ({"segment.bytes": 100_000, "max.message.bytes": 9}, "replica.fetch.max.bytes 1048576"),
        ({"segment.bytes": 3_000_000_000}, "Not a number of type INT"),
    ],
)
def test_what_was_wrong_and_shown_before_the_approval_only_warns(overrides: Any, words: str) -> None:
    wrong = configs({"t": {}, "u": overrides})
    checks = run(before=wrong, now=wrong)
    assert failed(checks) == []
    check = checks["sound", "u"]
    assert check.warns
    assert check.was_shown
    assert check.words.startswith("as shown before the approval: ")
    assert words in check.finding


def test_a_known_fault_on_one_broker_does_not_excuse_it_on_another() -> None:
    """Broker 1 had it, broker 2 has it now too."""
    small = reported(log_index_size_max_bytes=20)
    before, now = configs({"t": {}, "u": {}}, {1: small}), configs({"t": {}, "u": {}}, {1: small, 2: small})
    checks = [check for check in check_segments(MOVES[2:], before, now) if check.name == "segment_settings_sound"]
    assert [("on broker 1" in check.finding, check.passed) for check in checks] == [(True, True), (False, False)]


def test_a_warning_of_the_audit_is_a_warning_here() -> None:
    shorter = configs({"t": {}, "u": {"retention.ms": DAY}})
    check = run(before=shorter, now=shorter)["sound", "u"]
    assert check.warns
    assert "a record can stay for 8 d 6 min" in check.finding
    assert "retention.ms: topic" in check.finding


def test_a_name_that_brokers_ignore_is_a_warning() -> None:
    assert run(now=configs({"t": {}, "u": {"log.segment.bytes": "5"}}))["sound", "u"].warns


def test_brokers_with_the_same_fault_are_named_together() -> None:
    small = reported(log_index_size_max_bytes=20)
    checks = run(now=configs({"t": {}, "u": {}}, {1: small, 3: small}))
    assert "on broker 1, 3 (" in checks["sound", "t"].finding


OTHER = configs({"t": {}, "u": {}}, {3: reported(log_roll_hours=24, log_retention_bytes=5)})


def test_a_partition_that_came_to_a_broker_with_other_static_values_warns_by_name() -> None:
    """It was shown before the approval."""
    check = run(before=OTHER, now=OTHER)["same_on_new_broker", "t"]
    assert check.warns
    assert check.was_shown
    assert check.finding.startswith("partition 0, broker 3: segment.ms 604800000 -> 86400000, retention.bytes -1 -> 5")


def test_a_partition_that_rolls_otherwise_since_the_approval_fails() -> None:
    assert failed(run(before=SAME, now=OTHER)) == [("unchanged", "t"), ("same_on_new_broker", "t")]


def test_brokers_that_already_differed_are_no_change_of_the_partition() -> None:
    """Old brokers 1 and 2 differ, new broker 3 is as 2: the partition rolls as it did on one of them."""
    differing = configs({"t": {}, "u": {}}, {1: reported(log_roll_hours=24)})
    assert all(check.passed and not check.warns for check in run(differing, differing).values())


def without(broker: Any) -> Any:
    known = {b: values for b, values in SAME.brokers.items() if b != broker}
    return type(SAME)(SAME.topics, known)


def test_a_broker_that_could_not_be_asked_does_not_pass() -> None:
    checks = [check for check in check_segments(MOVES, SAME, without(1)) if not check.passed]
    assert [(check.subject, check.name) for check in checks] == [
        ("t", "segment_settings_sound"),
        ("u", "segment_settings_sound"),
    ]
    assert "on broker 1" in checks[0].finding


def test_a_broker_that_does_not_tell_everything_does_not_pass() -> None:
    silent = configs({"t": {}, "u": {}}, {2: {"log.segment.bytes": ("5", STATIC)}})
    assert ("sound", "u") in failed(run(now=silent))


def test_a_broker_unknown_at_the_snapshot_does_not_count_as_unchanged() -> None:
    assert not run(before=without(1))["unchanged", "u"].passed


def test_without_the_old_brokers_settings_nothing_is_called_the_same() -> None:
    only_new = type(SAME)(SAME.topics, {3: reported()})
    check = run(before=only_new)["same_on_new_broker", "t"]
    assert not check.passed
    assert check.finding == "partition 0, broker 3: unknown on the old brokers, so not compared"
