"""A throttle is merged into the config of its broker or topic and told to the brokers at once, or not at all."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kazoo.exceptions import NoAuthError

from kafka_rebalance.errors import ConfigChangedError, CorruptZnodeError, WriteError
from kafka_rebalance.zookeeper.config_writes import merge_config
from support.zookeeper.fake_zookeeper import fake_cluster

RATE, OTHER_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
LIST = "leader.replication.throttled.replicas"
TOLD = "/config/changes/config_change_"


@pytest.fixture(params=["2.0", "2.8"])
def fake(request: pytest.FixtureRequest) -> Any:
    return fake_cluster({"orders": {0: [1, 2], 1: [2, 3]}, "audit": {0: [3, 1]}}, version=request.param)


def notified(fake: Any) -> Any:
    return [
        json.loads(fake.znodes[path].data)["entity_path"]
        for path in sorted(fake.znodes)
        if path.startswith("/config/changes/config_change_")
    ]


def test_a_throttle_is_merged_and_the_brokers_are_told(fake: Any) -> None:
    fake.put_json("/config/topics/orders", {"version": 1, "config": {"segment.bytes": "5", LIST: "9:9"}})
    merge_config(fake, "topics/orders", {LIST: "0:1,0:2"})
    assert fake.json("/config/topics/orders") == {"version": 1, "config": {"segment.bytes": "5", LIST: "0:1,0:2"}}
    assert notified(fake) == ["topics/orders"]


def test_none_removes_a_key_and_only_that(fake: Any) -> None:
    fake.put_json("/config/brokers/1", {"version": 1, "config": {RATE: "1", OTHER_RATE: "2", "log.roll.ms": "7"}})
    merge_config(fake, "brokers/1", {RATE: None})
    assert fake.json("/config/brokers/1")["config"] == {OTHER_RATE: "2", "log.roll.ms": "7"}


def test_an_entity_that_has_no_config_yet_gets_one(fake: Any) -> None:
    merge_config(fake, "brokers/1", {RATE: "1000"})
    assert fake.json("/config/brokers/1") == {"version": 1, "config": {RATE: "1000"}}
    assert notified(fake) == ["brokers/1"]


def test_removing_from_an_entity_that_has_no_config_writes_nothing(fake: Any) -> None:
    merge_config(fake, "brokers/1", {RATE: None})
    assert fake.writes == []


def test_the_brokers_are_told_even_where_nothing_changes(fake: Any) -> None:
    # A run killed between write and notification leaves a throttle that no broker knows of.
    fake.put_json("/config/brokers/1", {"version": 1, "config": {RATE: "1000"}})
    fake.writes.clear()
    merge_config(fake, "brokers/1", {RATE: "1000"})
    assert [call for call, _ in fake.writes] == ["create"]
    assert notified(fake) == ["brokers/1"]


@pytest.mark.parametrize(
    ("entity", "changes", "why"),
    [
        ("topics/gone", {LIST: "*"}, "topic gone does not exist"),
        ("topics/orders", {"retention.ms": "1"}, "^config of topics/orders: "),
        ("brokers/1", {RATE: "fast"}, "^config of brokers/1: "),
        ("users/u", {RATE: "1"}, "^config of users/u: "),
    ],
)
def test_nothing_but_throttles_of_what_is_there_can_be_written(
    fake: Any, entity: str, changes: dict[str, str], why: str
) -> None:
    with pytest.raises(WriteError, match=why):
        merge_config(fake, entity, changes)
    assert fake.writes == []


def test_a_change_made_by_somebody_else_meanwhile_is_kept(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.put_json("/config/brokers/1", {"version": 1, "config": {}})
    reading, raced = fake.get, []

    def racing(path: Any) -> Any:
        answer = reading(path)
        if path == "/config/brokers/1" and not raced:
            raced.append(True)
            fake.put_json(path, {"version": 1, "config": {"log.roll.ms": "7"}})
        return answer

    monkeypatch.setattr(fake, "get", racing)
    merge_config(fake, "brokers/1", {RATE: "1000"})
    assert fake.json("/config/brokers/1")["config"] == {"log.roll.ms": "7", RATE: "1000"}


@pytest.mark.parametrize("took_effect", [False, True])
@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("place", ["/config/brokers/1", TOLD])
def test_a_config_change_survives_a_lost_connection(fake: Any, exists: bool, took_effect: bool, place: Any) -> None:
    if exists:
        fake.put_json("/config/brokers/1", {"version": 1, "config": {"log.roll.ms": "7"}})
    fake.fail_next("set" if exists and place != TOLD else "create", place, took_effect=took_effect)
    merge_config(fake, "brokers/1", {RATE: "1000"}, decided_on={})
    assert fake.json("/config/brokers/1")["config"][RATE] == "1000"
    assert set(notified(fake)) == {"brokers/1"}


@pytest.mark.parametrize("exists", [False, True])
def test_whoever_dies_behind_the_write_of_a_config_has_told_the_brokers(fake: Any, exists: bool) -> None:
    """Who comes after finds the config as it should be, and has no reason to tell them."""
    if exists:
        fake.put_json("/config/brokers/1", {"version": 1, "config": {RATE: "1"}})
    told = []
    fake.after_write.append(lambda call, path: told.append(notified(fake)) if path == "/config/brokers/1" else None)
    merge_config(fake, "brokers/1", {RATE: "1000"})
    assert told == [["brokers/1"]]


@pytest.mark.parametrize("exists", [False, True])
def test_no_config_is_written_of_which_the_brokers_cannot_be_told(fake: Any, exists: bool) -> None:
    if exists:
        fake.put_json("/config/brokers/1", {"version": 1, "config": {"log.roll.ms": "7"}})
    before = fake.znodes.get("/config/brokers/1")
    fake.fail_next("create", TOLD, took_effect=False, error=NoAuthError())
    with pytest.raises(WriteError, match=r"its notification in /config/changes: .*It was not written"):
        merge_config(fake, "brokers/1", {RATE: "1000"})
    assert fake.znodes.get("/config/brokers/1") == before


@pytest.mark.parametrize("now", ["9:9,0:1", None])
def test_a_value_that_somebody_has_given_since_the_decision_stays(fake: Any, now: str | None) -> None:
    config = {"segment.bytes": "5", **({LIST: now} if now else {})}
    fake.put_json("/config/topics/orders", {"version": 1, "config": config})
    with pytest.raises(ConfigChangedError, match=f"config of topics/orders: somebody else has changed {LIST}"):
        merge_config(fake, "topics/orders", {LIST: "0:1,0:2"}, decided_on={LIST: "9:9", "segment.bytes": "5"})
    assert fake.json("/config/topics/orders")["config"] == config
    assert notified(fake) == []


def test_what_others_change_beside_the_decision_is_kept(fake: Any) -> None:
    fake.put_json("/config/brokers/1", {"version": 1, "config": {OTHER_RATE: "2", RATE: "1"}})
    merge_config(fake, "brokers/1", {RATE: None}, decided_on={RATE: "1"})
    assert fake.json("/config/brokers/1")["config"] == {OTHER_RATE: "2"}


def test_a_corrupt_config_is_not_replaced(fake: Any) -> None:
    fake.put_json("/config/brokers/1", {"version": 1, "config": {"a": 1}})
    fake.writes.clear()
    with pytest.raises(CorruptZnodeError, match="/config/brokers/1"):
        merge_config(fake, "brokers/1", {RATE: "1000"})
    assert fake.writes == []


def test_a_config_that_never_stands_still_is_given_up_with_a_reason(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.put_json("/config/brokers/1", {"version": 1, "config": {}})
    reading = fake.get

    def racing(path: Any) -> Any:
        answer = reading(path)
        if path == "/config/brokers/1":
            fake.set(path, answer[0])
        return answer

    monkeypatch.setattr(fake, "get", racing)
    with pytest.raises(WriteError, match="BadVersionError"):
        merge_config(fake, "brokers/1", {RATE: "1000"})
