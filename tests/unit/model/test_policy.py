"""The policy: what the file may say, and how it tightens a request."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_rebalance.errors import PolicyError
from kafka_rebalance.model.policy import TIB, Approver, Policy
from kafka_rebalance.model.settings import BrokerPool, Settings

WHERE = "policies/prod.yaml"


def policy(**given_: Any) -> Any:
    return Policy.from_mapping({"approvers": ["anna"], **given_}, WHERE)


def test_the_defaults_are_the_documented_ones() -> None:
    p = policy()
    assert p.approvers == (Approver("anna", "anna"),)
    assert p.max_bytes_share == 0.10
    assert p.max_bytes == 2 * TIB
    assert (p.copies_per_broker, p.copies_limit) == (0, 20)
    assert (p.partitions_per_batch, p.partitions_limit(249), p.partitions_limit(1000)) == (0, 250, 1000)
    assert not p.requester_may_approve
    assert not p.internal_topics


def test_an_approver_may_have_another_name_than_id() -> None:
    assert policy(approvers=["anna", {"id": 7, "name": "Ben"}]).approvers == (
        Approver("anna", "anna"),
        Approver("7", "Ben"),
    )


@pytest.mark.parametrize("given_", [None, [], "anna", 5])
def test_a_file_that_is_no_mapping_is_refused(given_: Any) -> None:
    with pytest.raises(PolicyError, match=f"{WHERE} is not a mapping"):
        Policy.from_mapping(given_, WHERE)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        *[("approvers", value, "must be a non-empty list") for value in ([], "anna", [5], [""], [None], {"id": 1})],
        ("approvers", [{"id": "a"}], "must be a non-empty list"),
        ("approvers", [{"id": "a", "name": "A", "x": 1}], "must be a non-empty list"),
        ("approvers", [{"id": True, "name": "A"}], "must be a non-empty list"),
        ("approvers", ["a", "a"], "more than once"),
        ("approvers", ["a", {"id": "a", "name": "B"}], "more than once"),
        ("requester_may_approve", "yes", "true or false"),
        ("requester_may_approve", 1, "true or false"),
        *[("max_bytes_share", value, "above 0 and at most 1") for value in (0, 1.1, -1, True, "1", float("nan"))],
        *[("max_bytes", value, "at least 1") for value in (0, -1, 1.5, True, "5")],
        ("copies_per_broker", -1, "at least 0"),
        ("approval_expires_after_seconds", 2**62, "at most 31622400"),
        ("on_conflict", "ask", "must be one of stop, leave_out"),
        ("on_conflict", True, "must be one of stop, leave_out"),
        ("prefer", "light", "must be one of tolerance, fewest_bytes"),
        ("less_even_plan", True, "must be one of offer, refuse"),
        *[("growth_limit", value, "from 0 to 100") for value in (-0.1, 101, True, "1", float("nan"))],
        ("partitions_per_topic", 0, "at least 1"),
        ("replicas_per_broker", "many", "at least 1"),
        ("partitions_per_batch", None, "at least 0"),
        ("topics_out", "x", "list of topic globs"),
        ("topics_out", [""], "list of topic globs"),
        ("brokers_out", [1.0], "list of broker ids"),
        ("brokers_out", [-1], "list of broker ids"),
        *[("broker_pools", value, "list of {topics: [glob") for value in ("x", [5], [{"topics": ["x"]}])],
        ("broker_pools", [{"topics": [], "brokers": [1]}], "must name at least one topic glob"),
        ("broker_pools", [{"topics": ["x"], "brokers": []}], "has a pool of x without brokers"),
        ("broker_pools", [{"topics": ["x"], "brokers": ["1"]}], "must be a list of broker ids"),
        (
            "broker_pools",
            [{"topics": ["x"], "brokers": [1, 2]}, {"topics": ["y"], "brokers": [2, 3]}],
            "has broker 2 in more than one pool",
        ),
        ("internal_topics", None, "true or false"),
        ("more_replicas_than_racks", "spread", "true or false"),
        ("imbalance_limit", 0, "above 0 and at most 1"),
        *[("price_per_gb_between_racks", value, "of at least 0") for value in (-0.01, "2 cents", float("inf"))],
        *[
            ("windows", value, "must be a list of 1 to 50 windows, as in")
            for value in ([], None, "daily", {}, [""] * 51)
        ],
        (
            "windows",
            ["daily 22:00-6:00 UTC"],
            "has 'daily 22:00-6:00 UTC', which is not days, times as HH:MM and a zone",
        ),
        ("windows", ["daily 22:00-06:00 UTC", 7], "windows has 7, which is not a window, as in 'Mon-Fri 22:00-06:00 E"),
    ],
)
def test_a_wrong_value_is_named_with_the_file(key: Any, value: Any, words: Any) -> None:
    with pytest.raises(PolicyError) as refused:
        policy(**{key: value})
    assert str(refused.value).startswith(f"{WHERE}: {key} ")
    assert words in str(refused.value)
    assert "Correct the policy or the request" in str(refused.value)


def test_every_problem_of_a_file_is_named_at_once() -> None:
    with pytest.raises(PolicyError) as refused:
        Policy.from_mapping({"approver": ["anna"], "max_bytes": 0}, WHERE)
    for words in ("'approver' is not a key of a policy", "max_bytes must", "approvers is missing"):
        assert words in str(refused.value)


def test_the_least_throttle_may_not_be_above_the_most() -> None:
    with pytest.raises(PolicyError, match="min_throttle_bytes_per_second is above"):
        policy(min_throttle_bytes_per_second=10, max_throttle_bytes_per_second=9)
    assert policy(min_throttle_bytes_per_second=9, max_throttle_bytes_per_second=9)


def test_a_policy_reads_back_as_written_and_any_change_changes_its_digest() -> None:
    one = policy(approvers=["anna", {"id": 7, "name": "Ben"}], topics_out=["a"], brokers_out=[2, 1, 2])
    pooled = policy(broker_pools=[{"topics": ["x"], "brokers": [2, 1]}])
    assert pooled.broker_pools == (BrokerPool(("x",), (1, 2)),)
    assert Policy.from_mapping(json.loads(json.dumps(pooled.to_mapping())), WHERE) == pooled
    assert Policy.from_mapping(json.loads(json.dumps(one.to_mapping())), WHERE) == one
    changed = {
        "requester_may_approve": True,
        "cancel_needs_another_approver": True,
        "demote_approves_give_back": True,
        "max_bytes_share": 0.5,
        "max_bytes": 5,
        "leader_changes_per_batch": 5,
        "partitions_per_batch": 5,
        "copies_per_broker": 1,
        "partitions_per_topic": 5,
        "replicas_per_broker": 5,
        "min_throttle_bytes_per_second": 5,
        "max_throttle_bytes_per_second": 5_000_000,
        "topics_out": ("x",),
        "pinned_topics": ("x",),
        "rack_pinned_topics": ("x",),
        "spread_leaders": ("x",),
        "spread_topics": ("x",),
        "leader_racks": ("rack-a",),
        "survive": "rack",
        "broker_pools": (BrokerPool(("x",), (1,)),),
        "brokers_out": (9,),
        "rackless_brokers": "one_rack",
        "more_replicas_than_racks": True,
        "even_at_worst_hour": True,
        "cordon_leaving": True,
        "copies_within_racks": True,
        "internal_topics": True,
        "approval_expires_after_seconds": 5,
        "long_pause_seconds": 60,
        "slow_brokers": "receive_nothing",
        "imbalance_limit": 0.5,
        "price_per_gb_between_racks": 0.02,
        "keep_runs_days": 400,
        "keep_ledger_days": 800,
        "broker_away_after_seconds": 3600,
        "on_conflict": "leave_out",
        "growth_limit": 0.5,
        "beside_cruise_control": True,
        "prefer": "fewest_bytes",
        "less_even_plan": "refuse",
        "windows": ("daily 22:00-06:00 UTC",),
        "approvers": (Approver("x", "x"),),
    }
    assert set(changed) == {field.name for field in dataclasses.fields(Policy)}
    digests = {dataclasses.replace(one, **{key: value}).digest for key, value in changed.items()}
    assert len(digests | {one.digest}) == len(changed) + 1


def test_windows_that_are_written_in_another_way_are_the_same_policy() -> None:
    one = policy(windows=["Mon–Fri 22:00 – 06:00 Europe/Berlin", "mon-fri 22:00-06:00 Europe/Berlin"])
    assert one.windows == ("Mon-Fri 22:00-06:00 Europe/Berlin",)
    assert one.digest == policy(windows=["Mon-Fri 22:00-06:00 Europe/Berlin"]).digest


def test_a_policy_without_windows_keeps_the_digest_that_earlier_versions_gave_it() -> None:
    assert "windows" not in policy().to_mapping()


def test_a_key_that_is_left_open_changes_no_digest() -> None:
    assert "more_replicas_than_racks" not in policy().to_mapping()
    assert policy(more_replicas_than_racks=False).digest != policy().digest
    assert tightened().more_replicas_than_racks is False
    assert tightened({"more_replicas_than_racks": True}).more_replicas_than_racks is False, "a request only tightens"
    assert tightened(more_replicas_than_racks=True).more_replicas_than_racks is True
    assert "broker_pools" not in policy().to_mapping()


def test_pools_are_the_policys_alone() -> None:
    pools = [{"topics": ["x"], "brokers": [1]}]
    assert tightened({"broker_pools": pools}).broker_pools == ()
    assert tightened(broker_pools=pools).broker_pools == (BrokerPool(("x",), (1,)),)


@pytest.mark.parametrize("key", ["even_at_worst_hour", "copies_within_racks"])
def test_a_run_does_it_if_the_request_or_the_policy_asks_for_it(key: str) -> None:
    assert key not in policy().to_mapping()
    assert getattr(tightened(), key) is False
    assert getattr(tightened({key: True}), key) is True
    assert getattr(tightened(**{key: True}), key) is True


def tightened(asked: Any = None, *, cluster_bytes: Any = 1000, internal_topics: Any = False, **limits: Any) -> Any:
    settings = Settings.from_mapping(asked or {})
    return policy(**limits).tighten(settings, cluster_bytes=cluster_bytes, brokers=3, internal_topics=internal_topics)


@pytest.mark.parametrize(
    ("asked", "limits", "expected"),
    [
        (None, {}, 100),  # 10 % of 1000
        (50, {}, 50),
        (500, {}, 100),
        (None, {"max_bytes": 70}, 70),
        (None, {"max_bytes_share": 1}, 1000),
        (0, {}, 0),
    ],
)
def test_the_bytes_are_the_least_of_request_share_and_limit(asked: int | None, limits: Any, expected: int) -> None:
    assert tightened({} if asked is None else {"max_bytes": asked}, **limits).max_bytes == expected


@pytest.mark.parametrize("key", ["copies_per_broker", "partitions_per_batch", "leader_changes_per_batch"])
@pytest.mark.parametrize(("asked", "limit", "expected"), [(1, 3, 1), (3, 1, 1), (2, 2, 2)])
def test_a_request_can_only_lower_a_limit(key: str, asked: int, limit: int, expected: int) -> None:
    assert getattr(tightened({key: asked}, **{key: limit}), key) == expected


@pytest.mark.parametrize(
    ("asked", "limit", "expected"),
    [(0, 0, 0), (0, 5, 5), (0, 15, 10), (0, 30, 10), (15, 0, 15), (30, 0, 20), (30, 40, 30)],
)
def test_a_run_may_make_more_copies_than_usual_if_neither_request_nor_policy_gives_a_number(
    asked: int, limit: int, expected: int
) -> None:
    assert tightened({"copies_per_broker": asked}, copies_per_broker=limit).copies_per_broker == expected


def test_a_policy_that_leaves_a_number_open_keeps_the_digest_that_it_had_with_the_number() -> None:
    assert policy().digest == policy(partitions_per_batch=250, copies_per_broker=10).digest
    assert policy().digest != policy(copies_per_broker=20).digest


def test_what_the_policy_keeps_out_is_added_to_what_was_asked() -> None:
    settings = tightened({"topics_out": ["a", "b"], "brokers_out": [1]}, topics_out=["b", "c"], brokers_out=[2, 1])
    assert settings.topics_out == ("a", "b", "c")
    assert settings.brokers_out == (1, 2)
    settings = tightened({"pinned_topics": ["a"], "rack_pinned_topics": []}, rack_pinned_topics=["b"])
    assert (settings.pinned_topics, settings.rack_pinned_topics) == (("a",), ("b",))


def test_a_given_plan_stays_as_it_is_and_meets_the_policys_limits() -> None:
    plan = '{"version":1,"partitions":[]}'
    settings = tightened({"plan": plan}, topics_out=["orders"])
    assert (settings.plan, settings.max_bytes, settings.topics_out) == (plan, 100, ("orders",))


def test_the_policys_digest_is_bound_into_the_settings() -> None:
    assert tightened({"policy_digest": "made up"}).policy_digest == policy().digest


@pytest.mark.parametrize(
    ("asked", "expected"), [(None, 100_000_000), (1_000_000, 1_000_000), (100_000_000, 100_000_000)]
)
def test_the_throttle_is_what_was_asked_or_the_most_allowed(asked: int | None, expected: int) -> None:
    assert tightened({"throttle_bytes_per_second": asked}).throttle_bytes_per_second == expected


@pytest.mark.parametrize(
    ("asked", "limits", "internal", "words"),
    [
        ({"throttle_bytes_per_second": 999_999}, {}, False, "outside the policy's 1000000 to 100000000"),
        ({"throttle_from_bytes_per_second": 999_999}, {}, False, "outside the policy's 1000000 to 100000000"),
        (
            {"throttle_from_bytes_per_second": 3_000_000},
            {"max_throttle_bytes_per_second": 2_000_000},
            False,
            "3000000 bytes/s is outside",
        ),
        ({"throttle_bytes_per_second": 100_000_001}, {}, False, "outside the policy's"),
        ({"job": "drain", "drain": [3]}, {"brokers_out": [3]}, False, "keeps out broker 3"),
        ({"brokers_in": [2, 3]}, {"brokers_out": [3]}, False, "keeps out broker 3, which brokers_in names"),
        ({"job": "replace", "replace": {"3": 4}}, {"brokers_out": [4]}, False, "keeps out broker 4"),
        ({}, {}, True, "does not allow internal topics"),
    ],
)
def test_a_request_beyond_the_policy_is_refused(asked: Any, limits: Any, internal: bool, words: str) -> None:
    with pytest.raises(PolicyError) as refused:
        tightened(asked, internal_topics=internal, **limits)
    assert words in str(refused.value)
    assert "Correct the policy or the request" in str(refused.value)


def test_internal_topics_may_be_ticked_where_the_policy_allows_it() -> None:
    allowing = policy(internal_topics=True)
    assert (
        allowing.tighten(Settings(), cluster_bytes=1, brokers=3, internal_topics=True).policy_digest == allowing.digest
    )


@given(
    st.none() | st.integers(0, 10**15),
    st.integers(0, 10**15),
    st.floats(0.001, 1),
    st.integers(1, 10**15),
)
def test_no_request_gets_more_bytes_than_share_or_limit(asked: Any, cluster_bytes: Any, share: Any, limit: Any) -> None:
    got = tightened({"max_bytes": asked}, cluster_bytes=cluster_bytes, max_bytes_share=share, max_bytes=limit).max_bytes
    assert got is not None
    assert got <= min(limit, share * cluster_bytes)
    assert asked is None or got <= asked
