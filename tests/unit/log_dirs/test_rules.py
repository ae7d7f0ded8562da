"""What `kafka_log_dirs` is asked to do, what policy and windows let it do, and whether it is done."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Any

import pytest

from kafka_rebalance.documents.log_dir_plan import LogDirMove, LogDirPlan
from kafka_rebalance.errors import PlanningError, PolicyError, SettingsError
from kafka_rebalance.kafka.topics import BY_NAME, KafkasOwn
from kafka_rebalance.log_dirs.rules import (
    AskedLogDirs,
    bytes_in_time,
    check_fits_openings,
    check_log_dirs,
    check_within_policy,
    seconds_at_most,
    window_of,
)
from kafka_rebalance.model.policy import Approver, Policy

POLICY = Policy((Approver("uma", "uma"),), topics_out=("audit*",), brokers_out=(7,))
EMPTY = {"broker": None, "log_dir": None, "of_run": None, "throttle_bytes_per_second": None, "kafka_conn_id": "k"}


def test_the_forms_empty_fields_are_nobodys_answers() -> None:
    assert AskedLogDirs.from_params({**EMPTY, "job": "balance", "reason": ""}) == AskedLogDirs("balance")
    assert AskedLogDirs.from_params({**EMPTY, "job": "drain", "broker": 0, "log_dir": "/a"}).broker == 0


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"job": "drain", "broker": 1}, "drain needs log_dir"),
        ({"job": "drain", "log_dir": "/a"}, "drain needs broker"),
        ({"job": "way_back"}, "way_back needs of_run"),
        ({"job": "balance", "log_dir": "/a"}, "balance does not use log_dir"),
        ({"job": "way_back", "of_run": "x", "broker": 1}, "way_back does not use broker"),
        ({}, "job is empty"),
        ({"job": "move"}, "job must be one of balance, drain, way_back"),
        ({"job": ["balance"]}, "job must be one of"),
        ({"job": "balance", "broker": 1.0}, "broker must be an integer"),
        ({"job": "drain", "broker": 1, "log_dir": ["/a"]}, "log_dir must be a text"),
        ({"job": "balance", "tolerance": float("nan")}, "tolerance must be a number from 0 to 1"),
        ({"job": "balance", "topics_out": "logs-*"}, "topics_out must be a list of topic globs"),
        ({"job": "balance", "internal_topics": "false"}, "internal_topics must be true or false"),
    ],
)
def test_a_job_with_too_little_or_with_what_it_does_not_use_is_refused(params: Any, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        AskedLogDirs.from_params({**EMPTY, **params})


def test_the_policy_gives_the_throttle_that_nobody_named_and_bounds_the_copies() -> None:
    assert AskedLogDirs("balance", copies_per_broker=99).limits(POLICY) == (100_000_000, 20)
    assert AskedLogDirs("balance", throttle_bytes_per_second=2_000_000).limits(POLICY) == (2_000_000, 3)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (AskedLogDirs("balance", throttle_bytes_per_second=1), "throttle of 1 bytes/s"),
        (AskedLogDirs("balance", internal_topics=True), "does not allow internal topics"),
        (AskedLogDirs("drain", 7, "/a"), "keeps out broker 7"),
    ],
)
def test_a_request_beyond_the_policy_is_refused(asked: AskedLogDirs, said: str) -> None:
    with pytest.raises(PolicyError, match=said):
        asked.limits(POLICY)


def test_topics_that_the_request_names_stay_besides_those_of_the_policy() -> None:
    asked = AskedLogDirs.from_params({**EMPTY, "job": "balance", "topics_out": ["logs-*"]})
    assert {topic for topic in ("logs-1", "t", "audit-1") if asked.keeps(topic, POLICY, BY_NAME)} == {
        "logs-1",
        "audit-1",
    }


def test_internal_topics_and_those_of_the_policy_stay() -> None:
    asked = AskedLogDirs("balance")
    assert [asked.keeps(topic, POLICY, BY_NAME) for topic in ("t", "audit-1", "__consumer_offsets")] == [
        False,
        True,
        True,
    ]
    assert not replace(asked, internal_topics=True).keeps("__consumer_offsets", POLICY, BY_NAME)
    assert asked.keeps("t", POLICY, KafkasOwn(frozenset({"t"})))


def plan(**fields: Any) -> LogDirPlan:
    moves = (LogDirMove("t", 0, 1, "/a", "/b", 100),)
    return replace(LogDirPlan("id", "drain", moves, 2_000_000, 3, 0.1), **fields)


def test_a_plan_within_the_policy_passes_and_each_limit_is_told() -> None:
    check_within_policy(plan(), POLICY, 1000, BY_NAME)
    for wrong, cluster_bytes, said in (
        (plan(), 999, "max_bytes"),
        (plan(throttle_bytes_per_second=1), 1000, "throttle"),
        (plan(copies_per_broker=21), 1000, "copies_per_broker"),
        (plan(moves=(LogDirMove("t", 0, 7, "/a", "/b", 1),)), 1000, "broker 7"),
        (plan(moves=(LogDirMove("audit", 0, 1, "/a", "/b", 1),)), 1000, "audit"),
        (plan(moves=(LogDirMove("__consumer_offsets", 0, 1, "/a", "/b", 1),)), 1000, "__consumer_offsets"),
    ):
        with pytest.raises(PolicyError, match=said):
            check_within_policy(wrong, POLICY, cluster_bytes, BY_NAME)


def test_a_topic_that_only_the_brokers_call_internal_stays_too() -> None:
    with pytest.raises(PolicyError, match="internal_topics keeps out t"):
        check_within_policy(plan(), POLICY, 1000, KafkasOwn(frozenset({"t"})))


def test_the_digest_is_of_every_field_and_the_time_of_the_broker_with_most_bytes() -> None:
    digests = {
        one.digest
        for one in (
            plan(),
            plan(throttle_bytes_per_second=3_000_000),
            plan(copies_per_broker=4),
            plan(moves=(LogDirMove("t", 0, 1, "/b", "/a", 100),)),
            plan(cluster_id="other"),
        )
    }
    assert len(digests) == 5
    two = plan(moves=(LogDirMove("t", 0, 1, "/a", "/b", 100), LogDirMove("t", 0, 2, "/a", "/b", 300)))
    assert replace(two, throttle_bytes_per_second=100).seconds == 3


# Windows of the policy.

RATE = 1000
MOVES = tuple(LogDirMove("t", number, 1, "/a", "/b", size) for number, size in enumerate((500, 300, 100)))
PLAN = LogDirPlan("id", "drain", MOVES, RATE, 3, 0.1, ("daily 22:00-23:00 UTC",))
NIGHT = datetime(2026, 1, 5, 22, 30, tzinfo=UTC)  # half an hour before it closes


def test_a_window_lets_through_what_ends_in_it_even_at_the_slow_estimate() -> None:
    assert bytes_in_time(window_of(PLAN), RATE, NIGHT) == 1800 * RATE / 1.5
    assert seconds_at_most(1800 * RATE, RATE) == 2700
    assert bytes_in_time(window_of(PLAN), 2 * RATE, NIGHT) == 2 * 1800 * RATE / 1.5


@pytest.mark.parametrize("at", [NIGHT + timedelta(minutes=30), NIGHT - timedelta(minutes=31)])
def test_a_closed_window_lets_nothing_through_and_no_window_everything(at: datetime) -> None:
    assert bytes_in_time(window_of(PLAN), RATE, at) == 0
    assert bytes_in_time(window_of(replace(PLAN, windows=())), RATE, at) == inf


def test_only_the_largest_copy_decides_whether_the_openings_are_long_enough() -> None:
    hour = LogDirMove("t", 3, 1, "/a", "/b", 2400 * RATE)
    check_fits_openings(replace(PLAN, moves=(*MOVES, hour)), NIGHT)
    too_large = replace(PLAN, moves=(*MOVES, replace(hour, size_bytes=2401 * RATE)))
    with pytest.raises(
        PlanningError, match=r"t-3 on broker 1 may take up to 1 h.*open for 1 h at most.*higher throttle"
    ):
        check_fits_openings(too_large, NIGHT)
    check_fits_openings(replace(too_large, windows=()), NIGHT)
    check_fits_openings(replace(too_large, throttle_bytes_per_second=2 * RATE), NIGHT)


# Where a replica lies in the end.


def test_a_replica_passes_only_in_its_log_dir_and_without_a_copy() -> None:
    replica = MOVES[0].replica
    (good,) = check_log_dirs([MOVES[0]], {replica: "/b"}, {})
    assert (good.passed, good.warns) == (True, False)
    for paths, future in (
        ({replica: "/a"}, {}),
        ({replica: "/b"}, {replica: "/a"}),
        ({replica: "/a"}, {replica: "/b"}),
    ):
        (bad,) = check_log_dirs([MOVES[0]], paths, future)
        assert not bad.passed
        assert bad.subject == "t-0 on broker 1"


def test_a_replica_that_its_broker_no_longer_has_is_a_warning() -> None:
    (gone,) = check_log_dirs([MOVES[0]], {}, {})
    assert gone.warns
