"""Settings of a run: checked once, every wrong key named."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_rebalance.errors import SettingsError
from kafka_rebalance.model.digests import digest_of
from kafka_rebalance.model.settings import CANDIDATES, JOBS, Settings


def test_nothing_given_means_the_defaults() -> None:
    assert Settings.from_mapping({}) == Settings()
    assert Settings.from_mapping({"format_version": 1}) == Settings()


def test_a_past_setting_is_read_where_it_asked_for_what_is_still_done() -> None:
    assert Settings.from_mapping({"trials": 1}) == Settings()
    with pytest.raises(SettingsError, match="'trials' is not a setting"):
        Settings.from_mapping({"trials": 2})


def test_every_setting_is_read_and_written() -> None:
    given_ = {
        "job": "replace",
        "tolerance": 0.2,
        "seed": 7,
        "topics_in": ["orders*"],
        "topics_out": ["*-internal"],
        "pinned_topics": ["ledger"],
        "rack_pinned_topics": ["eu-*"],
        "spread_leaders": ["orders*"],
        "spread_topics": ["logs*"],
        "leader_racks": ["rack-a"],
        "survive": "rack",
        "broker_pools": [{"topics": ["billing.*"], "brokers": [1, 2, 3]}],
        "replicas_per_broker": 100,
        "brokers_out": [3, 1],
        "brokers_in": [5, 2],
        "rackless_brokers": "one_rack",
        "more_replicas_than_racks": True,
        "even_at_worst_hour": True,
        "copies_within_racks": True,
        "drain": [9],
        "replace": {"4": 5},
        "replication_factor": None,
        "relieve_above": None,
        "max_bytes": 0,
        "max_leader_changes": 20,
        "candidates": ["as_kafka", "balanced", "light"],
        "prefer": "fewest_bytes",
        "less_even_plan": "refuse",
        "plan": '{"version":1,"partitions":[]}',
        "copies_per_broker": 2,
        "partitions_per_batch": 3,
        "leader_changes_per_batch": 4,
        "throttle_bytes_per_second": 5,
        "throttle_from_bytes_per_second": 2,
        "disk_headroom": 0,
        "policy_digest": "abc",
    }
    settings = Settings.from_mapping(given_)
    assert set(given_) == {field.name for field in dataclasses.fields(Settings)}
    assert settings.replace == {4: 5}
    assert settings.brokers_out == (1, 3)
    assert settings.candidates == ("light", "balanced", "as_kafka")
    written = given_ | {"brokers_out": [1, 3], "brokers_in": [2, 5], "candidates": ["light", "balanced", "as_kafka"]}
    assert settings.to_mapping() == written | {"max_replicas": None}
    assert settings.leaving == {9, 4}


DEFAULT_DIGEST = "c1b9950b90fa369b701f480e30896be2ee64b8c5d34168250f70af13fe6aed99"


def test_a_later_setting_that_is_left_open_changes_no_digest() -> None:
    # Of Settings() in version 0.1.0: an approval that waits for its answer outlives an upgrade.
    assert digest_of(Settings(copies_per_broker=10).for_brokers(3).to_mapping()) == DEFAULT_DIGEST
    assert "brokers_in" not in Settings().to_mapping()
    assert "replicas_per_broker" not in Settings().to_mapping()
    assert "copies_within_racks" not in Settings().to_mapping()
    assert "even_at_worst_hour" not in Settings().to_mapping()


@pytest.mark.parametrize(
    ("retired", "instead"), [({"max_replicas": 5}, "max_bytes"), ({"new_brokers_only": True}, 'brokers_in: "new"')]
)
def test_a_retired_setting_is_refused_with_what_to_give_instead(retired: dict[str, Any], instead: str) -> None:
    with pytest.raises(SettingsError, match=f"{next(iter(retired))}' is no longer a setting: .*{instead}"):
        Settings.from_mapping(retired)


def test_a_run_that_an_earlier_version_planned_with_a_retired_setting_goes_on() -> None:
    planned = Settings(tolerance=0.2).to_mapping() | {"max_replicas": 5, "new_brokers_only": True}
    assert Settings.from_document(planned) == Settings(tolerance=0.2, brokers_in="new")


def test_a_limit_that_nobody_gave_follows_the_brokers_and_one_that_somebody_gave_stays() -> None:
    limits = [Settings().for_brokers(brokers).partitions_per_batch for brokers in (3, 250, 251, 1000)]
    assert limits == [250, 250, 251, 1000]
    assert Settings(partitions_per_batch=40).for_brokers(1000).partitions_per_batch == 40


def test_copies_that_nobody_gave_are_ten_and_at_most_twenty() -> None:
    assert [Settings(copies_per_broker=copies).copies for copies in (0, 1, 10, 30)] == [
        (10, 20),
        (1, 1),
        (10, 10),
        (30, 30),
    ]


@pytest.mark.parametrize("given_", [None, [], "drain", 5])
def test_what_is_no_object_is_refused(given_: Any) -> None:
    with pytest.raises(SettingsError, match="not an object of settings"):
        Settings.from_mapping(given_)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("job", "rebalance", "must be one of balance, leaders"),
        ("job", ["drain"], "must be one of"),
        *[("tolerance", value, "above 0 and below 1") for value in (0, 1, -0.1, "0.1", True, float("nan"), None)],
        *[("seed", value, "integer of at least 0 and at most 4294967295") for value in (-1, 2**32, 1.0, True)],
        ("topics_in", [], "at least one topic glob"),
        ("topics_in", "orders", "list of topic globs"),
        ("topics_in", [""], "list of topic globs, non-empty texts"),
        ("topics_out", [1], "list of topic globs, non-empty texts"),
        ("brokers_out", [-1], "non-negative integers"),
        ("brokers_out", [True], "non-negative integers"),
        ("brokers_in", [-1], "non-negative integers"),
        ("brokers_in", "old", "list of broker ids, non-negative integers, or 'new'"),
        ("brokers_in", ["new", 4], "non-negative integers, or 'new'"),
        ("even_at_worst_hour", "yes", "true or false"),
        ("copies_within_racks", 1, "true or false"),
        ("drain", [1, 1], "more than once"),
        ("drain", "1", "list of broker ids"),
        ("replace", [1], "must be an object"),
        ("replace", {"a": 1}, "must be an object"),
        ("replace", {"1": "2"}, "must be an object"),
        ("replace", {"1": True}, "must be an object"),
        ("replace", {"-1": 2}, "must be an object"),
        ("replace", {"1": 2, "01": 3}, "more than once"),
        ("replication_factor", 0, "integer of at least 1"),
        ("max_bytes", -1, "integer of at least 0"),
        ("max_bytes", 1e9, "integer of at least 0"),
        ("max_bytes", 2**63, "at most 9223372036854775807"),
        ("throttle_bytes_per_second", 10**400, "at most 9223372036854775807"),
        ("candidates", ["best"], "must be a list of some of"),
        ("candidates", ["given"], "must be a list of some of leaders_only, light, balanced, optimal, as_kafka"),
        ("plan", "  ", "must be a text: a plan in the JSON of kafka-reassign-partitions"),
        ("plan", {"partitions": []}, "must be a text: a plan in the JSON"),
        ("candidates", "light", "must be a list of some of"),
        ("copies_per_broker", -1, "at least 0"),
        ("partitions_per_batch", -1, "at least 0"),
        ("leader_changes_per_batch", 0, "at least 1"),
        ("throttle_bytes_per_second", 0, "at least 1"),
        ("disk_headroom", 1, "from 0 to below 1"),
        ("disk_headroom", -0.1, "from 0 to below 1"),
        ("disk_headroom", float("nan"), "from 0 to below 1"),
        ("policy_digest", 5, "must be text"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(key: Any, value: Any, words: Any) -> None:
    with pytest.raises(SettingsError) as refused:
        Settings.from_mapping({key: value})
    assert f"{key} must" in str(refused.value) or f"{key} names" in str(refused.value)
    assert words in str(refused.value)
    assert repr(value) in str(refused.value)
    assert "Nothing was read or written" in str(refused.value)


def test_every_wrong_key_is_named_at_once() -> None:
    with pytest.raises(SettingsError) as refused:
        Settings.from_mapping({"tolerence": 0.1, "seed": -1, "job": "x"})
    for words in ("'tolerence' is not a setting; settings are job, tolerance", "seed must", "job must"):
        assert words in str(refused.value)


@pytest.mark.parametrize(
    ("given_", "words"),
    [
        ({"job": "drain"}, "job 'drain' needs the brokers to empty"),
        ({"job": "replace"}, "job 'replace' needs"),
        ({"job": "replication_factor"}, "needs 'replication_factor'"),
        ({"replication_factor": 3}, "needs job 'replication_factor'"),
        ({"job": "replace", "replace": {"1": 1}}, "broker 1 is to be emptied and also to receive"),
        ({"job": "replace", "replace": {"1": 2, "2": 3}}, "broker 2 is to be emptied and also to receive"),
        ({"job": "replace", "replace": {"1": 2}, "drain": [2]}, "broker 2 is to be emptied and also to receive"),
        ({"job": "replace", "replace": {"1": 2}, "drain": [1]}, "in both 'drain' and 'replace'"),
        ({"job": "replace", "replace": {"1": 3, "2": 3}}, "'replace' names one new broker for two old ones"),
        (
            {"job": "replace", "replace": {"1": 3}, "brokers_out": [3]},
            "broker 3 is to receive by 'replace', and is in 'brokers_out'",
        ),
        (
            {"job": "drain", "drain": [3], "brokers_in": [3, 4]},
            "broker 3 is to be emptied by 'drain' or 'replace', and is in 'brokers_in'",
        ),
        (
            {"brokers_out": [3], "brokers_in": [3, 4]},
            "broker 3 is in 'brokers_in', which receive, and in 'brokers_out'",
        ),
        (
            {"job": "replace", "replace": {"1": 3}, "brokers_in": [4]},
            "broker 3 is to receive by 'replace', and is not in 'brokers_in'",
        ),
        ({"job": "leaders", "brokers_in": [4]}, "job 'leaders' moves no replica, so it cannot have 'brokers_in'"),
        ({"job": "elect", "brokers_in": "new"}, "job 'elect' moves no replica, so it cannot have 'brokers_in'"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(given_: Any, words: str) -> None:
    with pytest.raises(SettingsError) as refused:
        Settings.from_mapping(given_)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("topics_in", "topics_out", "topic", "selected"),
    [
        (["*"], [], "orders", True),
        (["orders*"], [], "orders-eu", True),
        (["orders*"], [], "Orders", False),
        (["a", "b"], [], "b", True),
        (["*"], ["__*"], "__consumer_offsets", False),
        (["orders"], ["orders"], "orders", False),
    ],
)
def test_topics_are_selected_by_glob(topics_in: Any, topics_out: Any, topic: str, selected: bool) -> None:
    assert Settings.from_mapping({"topics_in": topics_in, "topics_out": topics_out}).selects(topic) is selected


IDS = st.lists(st.integers(0, 9), unique=True, max_size=3)
OPTIONAL = st.none() | st.integers(1, 100)
SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "job": st.sampled_from(JOBS),
        "tolerance": st.floats(0.01, 0.99),
        "seed": st.integers(0, 2**32 - 1),
        "topics_in": st.lists(st.text(min_size=1), min_size=1),
        "brokers_out": IDS,
        "brokers_in": IDS | st.just("new"),
        "even_at_worst_hour": st.booleans(),
        "copies_within_racks": st.booleans(),
        "drain": IDS,
        "replace": st.dictionaries(st.integers(0, 9).map(str), st.integers(0, 9), max_size=2),
        "replication_factor": OPTIONAL,
        "max_bytes": OPTIONAL,
        "candidates": st.lists(st.sampled_from(CANDIDATES), min_size=1),
        "throttle_bytes_per_second": OPTIONAL,
        "disk_headroom": st.floats(0, 0.99),
    },
)


@given(SETTINGS)
def test_settings_read_back_from_json_as_written_or_are_refused(given_: Any) -> None:
    try:
        settings = Settings.from_mapping(given_)
    except SettingsError:
        return
    written = settings.to_mapping()
    again = Settings.from_mapping(json.loads(json.dumps(written)))
    assert again == settings
    assert digest_of(again.to_mapping()) == digest_of(written)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from([f.name for f in dataclasses.fields(Settings)]), JSON, max_size=4) | JSON)
def test_no_json_raises_anything_but_the_own_error(given_: Any) -> None:
    try:
        settings = Settings.from_mapping(given_)
    except SettingsError:
        return
    assert isinstance(settings, Settings)


def test_only_a_run_with_a_plan_may_ask_for_no_candidate_of_ours() -> None:
    with pytest.raises(SettingsError, match="'candidates' is empty, which is allowed only with a 'plan'"):
        Settings.from_mapping({"candidates": []})
    assert Settings.from_mapping({"candidates": [], "plan": "{}"}).candidates == ()


def test_a_range_of_rates_is_part_of_a_digest_and_no_range_is_not() -> None:
    assert "throttle_from_bytes_per_second" not in Settings().to_mapping()
    ranged = Settings.from_mapping({"throttle_from_bytes_per_second": 5})
    assert ranged.to_mapping()["throttle_from_bytes_per_second"] == 5


def test_a_range_upside_down_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"\(6\) is above 'throttle_bytes_per_second' \(5\)"):
        Settings.from_mapping({"throttle_from_bytes_per_second": 6, "throttle_bytes_per_second": 5})
