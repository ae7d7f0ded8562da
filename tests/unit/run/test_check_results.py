"""Named results, and whether placement, leaders and throttles are as they should be."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_rebalance import clock
from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import VerificationError
from kafka_rebalance.model.partition import TopicIdentity
from kafka_rebalance.run.check_result import (
    Check,
    CheckName,
    check_passed,
    only_behind,
    settled,
    summarise,
    write_checks,
)
from kafka_rebalance.run.replicas_in_place import check_leaders, check_not_deleted, check_placement, check_same_topics
from kafka_rebalance.throttle.in_force import check_left, check_throttles, check_unrecorded
from support.kafka.small_clusters import move, partition, view

GOOD = Check(CheckName.REPLICAS, "t-0", "[1, 2]", "[1, 2]", True)
BAD = Check(CheckName.REPLICAS, "t-1", "[1, 2]", "[2, 1]", False)
WARNING = Check(CheckName.THROTTLE, "brokers/1", "not set", "5", True, "warning")


def test_the_summary_tells_what_failed_first_then_warnings_then_counts() -> None:
    summary = summarise([GOOD, WARNING, BAD, GOOD])
    assert not summary.passed
    assert (summary.failed, summary.warnings) == ((BAD,), (WARNING,))
    assert summary.lines() == (
        "FAILED replicas, t-1: [2, 1] (must be: [1, 2])",
        "warning throttle, brokers/1: 5",
        "replicas: 2 of 3 passed",
        "throttle: 1 of 1 passed",
    )


def test_warnings_pass_and_nothing_verified_does_not() -> None:
    assert summarise([GOOD, WARNING]).passed
    assert not summarise([]).passed


def test_the_file_has_failed_checks_first(tmp_path: Path) -> None:
    summary = write_checks(tmp_path, (GOOD, WARNING, BAD), "digest", ends={"in place": []})
    written = json_files.read_json(tmp_path, json_files.VERIFICATION)
    assert (written["passed"], written["source_digest"], written["ends"]) == (False, "digest", {"in place": []})
    assert [check["subject"] for check in written["checks"]] == ["t-1", "brokers/1", "t-0"]
    assert written["checks"][0] == {
        "name": "replicas",
        "subject": "t-1",
        "expectation": "[1, 2]",
        "finding": "[2, 1]",
        "passed": False,
        "severity": "error",
    }
    with pytest.raises(VerificationError, match=r"^1 of 3 checks failed; first replicas of t-1: \[2, 1\], must be"):
        check_passed(summary)


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Each time that was slept; no time passes otherwise."""
    slept: list[float] = []
    monkeypatch.setattr(
        clock, "time", SimpleNamespace(time=time.time, monotonic=lambda: sum(slept), sleep=slept.append)
    )
    return slept


@pytest.mark.parametrize(
    ("looks", "last", "slept"),
    [([BAD, BAD, GOOD, BAD], GOOD, 1.0), ([BAD] * 9, BAD, 2.5)],
)
def test_it_looks_until_all_checks_pass_or_the_time_is_up(
    seconds: list[float], looks: list[Check], last: Check, slept: float
) -> None:
    shown = iter(looks)
    assert settled(lambda: (next(shown),), 2) == (last,)
    assert sum(seconds) == slept


@pytest.mark.usefixtures("seconds")
def test_it_looks_once_also_where_there_is_no_time() -> None:
    assert [len(list(clock.looks(time, 0.5))) for time in (0, -1)] == [2, 1]


MOVE = move("t-0", [1, 2], [2, 3])


def failed(checks: Any) -> Any:
    return [(check.name, check.subject) for check in checks if not check.passed]


def test_a_partition_as_approved_passes() -> None:
    checks = check_placement([MOVE], view({"t-0": partition([2, 3], [3, 2], 2)}))
    assert [check.name for check in checks] == ["replicas", "in_sync", "at_rest"]
    assert failed(checks) == []


@pytest.mark.parametrize(
    ("state", "names", "words"),
    [
        (partition([3, 2]), ["replicas"], "replicas [3, 2]"),
        (partition([1, 2]), ["replicas", "in_sync"], "as before the run"),
        (partition([2, 3], [2, 3], removing=[1]), ["replicas"], "adding [], removing [1]"),
        (partition([2, 3], [2]), ["in_sync"], "[2] in sync, [3] not"),
        (partition([2, 3], [2, 3, 1]), ["in_sync"], "[1] should be gone"),
        (partition([2, 3], []), ["in_sync"], "[2, 3] not"),
        (None, ["replicas", "in_sync"], "does not exist"),
    ],
)
def test_a_partition_that_is_not_as_approved_fails_with_what_is_there(state: Any, names: Any, words: str) -> None:
    checks = check_placement([MOVE], view({"t-0": state} if state else {}))
    assert failed(checks) == [(name, "t-0") for name in names]
    assert words in " ".join(check.finding for check in checks)


@pytest.mark.parametrize(
    ("reassigning", "passed", "severity"),
    [
        (None, True, "error"),
        ({"t-0": [2, 3]}, False, "error"),
        ({}, False, "error"),
        ({"u-0": [1]}, True, "warning"),  # somebody else's, after us
    ],
)
def test_the_reassignment_znode_must_not_hold_ours(reassigning: Any, passed: bool, severity: str) -> None:
    checks = check_placement([MOVE], view({"t-0": partition([2, 3])}, reassigning=reassigning))
    at_rest = next(check for check in checks if check.name == "at_rest")
    assert (at_rest.passed, at_rest.severity) == (passed, severity)


@pytest.mark.parametrize(
    ("state", "brokers", "passed", "finding"),
    [
        (partition([2, 3], leader=2), (1, 2, 3), True, "broker 2 leads"),
        (partition([2, 3], leader=3), (1, 2, 3), False, "broker 3 leads; elect again"),
        (
            partition([2, 3], [3]),
            (1, 2, 3),
            False,
            "broker 3 leads; broker 2 is not in sync, so it cannot be elected yet",
        ),
        (partition([2, 3], leader=-1), (1, 2, 3), False, "nobody leads; elect again"),
        (partition([2, 3], leader=2), (1, 3), False, "broker 2 leads; broker 2 is not registered"),
    ],
)
def test_the_preferred_leader_must_lead_and_live(state: Any, brokers: Any, passed: bool, finding: str) -> None:
    (check,) = check_leaders([MOVE], view({"t-0": state}, brokers=brokers))
    assert (check.passed, check.finding, check.subject) == (passed, finding, "t-0")


def test_a_partition_that_is_gone_has_no_leader() -> None:
    (check,) = check_leaders([MOVE], view({}))
    assert not check.passed


LEADERS, RATE = "leader.replication.throttled.replicas", "leader.replication.throttled.rate"


@pytest.mark.parametrize(
    ("key", "prior", "ours", "now", "passed", "severity"),
    [
        (RATE, None, "10", None, True, "error"),
        (RATE, "5", "10", "5", True, "error"),
        (RATE, "10", "10", "10", True, "error"),
        (RATE, None, "10", "10", False, "error"),
        (RATE, "5", "10", "10", False, "error"),
        (RATE, None, "10", "7", True, "warning"),  # somebody else's meanwhile
        (RATE, "5", "10", None, True, "warning"),
        (LEADERS, None, "0:1", None, True, "error"),
        (LEADERS, None, "0:1", "0:1", False, "error"),
        (LEADERS, "9:1", "0:1,0:2", "9:1,0:2", False, "error"),
        (LEADERS, "0:1", "0:1", "0:1,9:9", True, "warning"),  # 0:1 was there before
        (LEADERS, None, "0:1", "*", True, "warning"),
        (LEADERS, "*", "0:1", "*", True, "error"),
        (LEADERS, None, "0:1", "rubbish", False, "error"),
    ],
)
def test_throttles_must_be_as_recorded_before_the_run(
    key: Any, prior: str | None, ours: str, now: str | None, passed: bool, severity: str
) -> None:
    entity = "topics/t" if key == LEADERS else "brokers/1"
    present = {} if now is None else {entity: {key: now}}
    (check,) = check_throttles({entity: {key: prior}}, {entity: {key: ours}}, present)
    assert (check.name, check.passed, check.severity) == ("throttle", passed, severity)
    assert check.subject == f"{entity} {key}"
    assert check.expectation == ("not set, as before" if prior is None else f"{prior!r}, as before")
    assert check.finding.startswith("not set" if now is None else repr(now)) or "rubbish" in check.finding


def test_what_a_lease_has_recorded_and_does_not_set_must_be_as_before_too() -> None:
    (check,) = check_throttles({"brokers/1": {RATE: "5"}}, {}, {"brokers/1": {RATE: "5"}})
    assert check.passed
    (check,) = check_throttles({"brokers/1": {RATE: "5"}}, {}, {})
    assert check.warns


def test_a_rate_that_the_run_has_set_earlier_fails_when_it_is_left() -> None:
    """A change of the rate that broke off leaves some brokers at the one before."""
    (check,) = check_throttles(
        {"brokers/1": {RATE: None}}, {"brokers/1": {RATE: "9"}}, {"brokers/1": {RATE: "5"}}, {"5", "9"}
    )
    assert not check.passed
    assert check.finding == "'5', still an earlier rate of this run"
    (check,) = check_throttles({"brokers/1": {RATE: None}}, {"brokers/1": {RATE: "9"}}, {"brokers/1": {RATE: "9"}})
    assert check.finding == "'9', still the rate of this run"


def test_a_throttle_that_is_left_warns_whoever_set_it() -> None:
    now = {"topics/t": {LEADERS: "0:1", "segment.ms": "5"}, "brokers/<default>": {RATE: "5"}, "topics/u": {LEADERS: ""}}
    checks = check_left(now, [])
    assert [(check.name, check.subject, check.warns) for check in checks] == [
        ("throttle_left", f"brokers/<default> {RATE}", True),
        ("throttle_left", f"topics/t {LEADERS}", True),
    ]
    assert [(check.expectation, check.finding.split()[0]) for check in checks] == [
        ("no throttle once nothing moves", value) for value in ("'5'", "'0:1'")
    ]


def test_a_throttle_that_failed_already_is_not_told_twice() -> None:
    failed = check_throttles(
        {"topics/t": {LEADERS: None}}, {"topics/t": {LEADERS: "0:1"}}, {"topics/t": {LEADERS: "0:1"}}
    )
    assert [check.passed for check in failed] == [False]
    assert check_left({"topics/t": {LEADERS: "0:1"}}, failed) == ()


@pytest.mark.parametrize(
    ("names", "behind"),
    [
        (["in_sync"], True),
        (["in_sync", "leader"], True),
        (["leader"], False),
        (["in_sync", "replicas"], False),
        (["in_sync", "throttle"], False),
        ([], False),
    ],
)
def test_only_replicas_that_are_out_of_sync_and_their_leaders_may_pass_by_themselves(names: Any, behind: bool) -> None:
    checks = [Check(name, "t-0", "as approved", "otherwise", False) for name in names]
    assert only_behind(summarise([GOOD, *checks])) is behind


def test_a_topic_that_was_made_again_is_not_what_was_approved() -> None:
    """A new controller carries out what was asked of a topic that is gone on the next one of its name."""
    moves = [move("t-0", [1, 2], [2, 3]), move("t-1", [1, 2], [2, 3]), move("u-0", [1, 2], [2, 3])]
    placed = {name: partition([2, 3], czxid=20) for name in ("t-0", "t-1", "u-0")}
    then = {"t": TopicIdentity(1, 10), "u": TopicIdentity(1, 20)}
    (found,) = check_same_topics(moves, view(placed), then)
    assert (found.subject, found.passed) == ("topic t", False)
    assert check_same_topics(moves, view(placed), {"t": TopicIdentity(1, None)}) == ()


def test_a_moved_topic_that_is_queued_for_deletion_is_a_failed_check() -> None:
    """2.0 carries the moves of a topic out before it deletes the topic: for that moment all is as approved."""
    moves, placed = [move("t-0", [1, 2], [2, 3])], view({"t-0": partition([2, 3])})
    (found,) = check_not_deleted(moves, replace(placed, deletions=frozenset({"t", "other"})))
    assert (found.name, found.subject, found.passed) == ("not_deleted", "topic t", False)
    assert check_not_deleted(moves, replace(placed, deletions=frozenset({"other"}))) == ()


def test_what_is_set_without_a_lease_fails_each_by_its_entity_and_key() -> None:
    checks = check_unrecorded([("brokers/1", RATE, "5"), ("topics/t", LEADERS, "0:1")])
    assert [(check.name, check.subject, check.passed, check.severity) for check in checks] == [
        ("throttle", f"brokers/1 {RATE}", False, "error"),
        ("throttle", f"topics/t {LEADERS}", False, "error"),
    ]
    assert [check.finding.partition(",")[0] for check in checks] == ["'5'", "'0:1'"]
    assert {check.expectation for check in checks} == {"nothing that this run sets"}
    assert check_unrecorded([]) == ()
    assert check_left({"brokers/1": {RATE: "5"}}, checks) == (), "said already"
