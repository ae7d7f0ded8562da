"""Connections are lost and others are at work at every point, and topics are still written once and whole."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from kazoo.exceptions import ConnectionLoss, NoAuthError, OperationTimeoutError, SessionExpiredError

from kafka_rebalance.errors import (
    KafkaRuleError,
    StaleProposalError,
    WriteError,
)
from kafka_rebalance.model.cluster_writes import Outcome
from kafka_rebalance.model.topic_change import Created
from kafka_rebalance.zookeeper.topic_writes import set_topic_configs
from kafka_rebalance.zookeeper.writer import ATTEMPTS
from support.zookeeper.fake_zookeeper import fake_cluster
from support.zookeeper.topic_changes import (
    CONFIG,
    MARKER,
    NEW,
    NEW_CONFIG,
    TOPIC,
    create,
    every_change,
    expand,
    identity,
    make_again,
    put,
)


@pytest.fixture(params=["2.0", "2.8"])
def version(request: pytest.FixtureRequest) -> Any:
    return request.param


def act(name: Any, fake: Any, version: Any, expected: Any) -> Any:
    return create(fake, version) if name.startswith("create") else every_change(fake, expected, version)[name]()


def cluster_for(name: Any, version: Any) -> Any:
    topics = {"audit": {0: [3, 1]}} | ({} if name.startswith("create") else {"orders": NEW})
    fake = fake_cluster(topics, version=version)
    if name == "create over an orphan":
        put(fake, CONFIG, {"version": 1, "config": {"a": "b"}})
    return fake, None if name.startswith("create") else identity(fake)


def calls_of(fake: Any) -> Any:
    """The calls that reach the fake from now on."""
    calls, original = [], fake._call

    def recorded(name: Any, path: Any, act: Any) -> Any:
        calls.append((name, path))
        return original(name, path, act)

    fake._call = recorded
    return calls


def content(fake: Any) -> Any:
    """All znodes; how often brokers were told of a change does not matter."""
    return {path: (znode.data, znode.acl) for path, znode in fake.znodes.items() if not path.endswith(f"{1:010d}")}


# What is written, and the call that does.
WRITES = {
    "create": ("commit", TOPIC),
    "create over an orphan": ("commit", TOPIC),
    "expand": ("set", TOPIC),
    "configs": ("commit", CONFIG),
    "delete": ("commit", MARKER),
}


@pytest.mark.parametrize("took_effect", [False, True])
@pytest.mark.parametrize("error", [ConnectionLoss, SessionExpiredError, OperationTimeoutError])
@pytest.mark.parametrize("change", WRITES)
def test_a_connection_lost_over_the_write_leaves_what_an_unbroken_one_does(
    change: Any, took_effect: bool, error: Any, version: Any
) -> None:
    fake, expected = cluster_for(change, version)
    outcome = act(change, fake, version, expected)
    wanted = content(fake)
    fake, expected = cluster_for(change, version)
    fake.fail_next(*WRITES[change], took_effect=took_effect, error=error())
    again = act(change, fake, version, expected)
    assert not fake._failures, "the connection was lost"
    assert content(fake) == wanted
    if change.startswith("create"):
        assert again == Created(Outcome.ALREADY_THERE if took_effect else Outcome.CREATED, outcome.orphaned_config)


@pytest.mark.slow
@pytest.mark.parametrize("change", WRITES)
def test_a_connection_lost_over_any_other_call_leaves_what_an_unbroken_one_does(change: Any, version: Any) -> None:
    fake, expected = cluster_for(change, version)
    calls = calls_of(fake)
    act(change, fake, version, expected)
    wanted = content(fake)
    points = [call for call in dict.fromkeys(calls) if call[0] not in ("create", "set", "commit")]
    assert len(points) >= 6
    for point in points:
        fake, expected = cluster_for(change, version)
        fake.fail_next(*point, took_effect=False)
        act(change, fake, version, expected)
        assert not fake._failures, f"{point} was not called"
        assert content(fake) == wanted, point


@pytest.mark.parametrize("change", WRITES)
def test_a_connection_that_stays_lost_is_an_unknown_outcome(change: Any, version: Any) -> None:
    fake, expected = cluster_for(change, version)
    name, path = WRITES[change]
    for _ in range(ATTEMPTS):
        fake.fail_next(name, path, took_effect=False)
    with pytest.raises(WriteError, match=f"{path}: the connection was lost, so whether it was written is unknown"):
        act(change, fake, version, expected)


def test_a_write_that_cannot_be_read_back_is_an_unknown_outcome(version: Any) -> None:
    fake, _ = cluster_for("create", version)
    fake.fail_next("commit", TOPIC, took_effect=True)
    unreadable = NoAuthError()
    fake.after_write.append(lambda *_: fake.fail_next("get", CONFIG, took_effect=False, error=unreadable))
    with pytest.raises(WriteError, match="whether it was written is unknown"):
        create(fake, version)


def test_without_the_right_to_write_it_is_said_what_to_grant(version: Any) -> None:
    fake, _ = cluster_for("create", version)
    fake.fail_next("commit", TOPIC, took_effect=False, error=NoAuthError())
    with pytest.raises(WriteError, match="does not let this client write it"):
        create(fake, version)


def before_call(fake: Any, number: Any, act: Any) -> None:
    """Calls `act` right before this call, counted from now on."""
    original, seen = fake._call, []

    def counted(name: Any, path: Any, do: Any) -> Any:
        seen.append(path)
        if len(seen) == number:
            fake._call = original
            act()
        return original(name, path, do)

    fake._call = counted


def all_points(change: Any, version: Any) -> Any:
    fake, expected = cluster_for(change, version)
    calls = calls_of(fake)
    act(change, fake, version, expected)
    return range(1, 1 + len(calls))


OTHER, OTHER_CONFIG = {0: [4, 3]}, {"cleanup.policy": "compact"}


@pytest.mark.parametrize("change", ["create", "create over an orphan"])
def test_of_two_creators_at_once_one_wins_with_its_assignment_and_its_config(change: str, version: Any) -> None:
    for point in all_points(change, version):
        fake, _ = cluster_for(change, version)
        before_call(fake, point, lambda fake=fake: create(fake, version, assignment=OTHER, configs=OTHER_CONFIG))
        with pytest.raises(KafkaRuleError, match="Topic 'orders' already exists"):
            create(fake, version)
        assert fake.json(TOPIC)["partitions"] == {"0": [4, 3]}
        assert fake.json(CONFIG)["config"] == OTHER_CONFIG


def test_of_two_identical_creations_at_once_both_succeed(version: Any) -> None:
    outcomes = set()
    for point in all_points("create", version):
        fake, _ = cluster_for("create", version)
        before_call(fake, point, lambda fake=fake: outcomes.add(create(fake, version).outcome))
        outcomes.add(create(fake, version).outcome)
        assert fake.writes == [("create", CONFIG), ("create", TOPIC)]
    assert outcomes == set(Outcome)


@pytest.mark.parametrize("change", ["create", "create over an orphan"])
def test_a_creation_by_kafkas_own_tool_at_the_same_time_is_never_mixed_with_ours(change: str, version: Any) -> None:
    for point in all_points(change, version):
        for tool_writes in ([CONFIG], [CONFIG, TOPIC]):
            fake, _ = cluster_for(change, version)

            def tool(fake: Any = fake, tool_writes: Any = tool_writes) -> None:
                for path in tool_writes:
                    document = {"config": OTHER_CONFIG} if path == CONFIG else {"partitions": {"0": [4, 3]}}
                    fake.put_json(path, {"version": 1, **document})

            before_call(fake, point, tool)
            if tool_writes == [CONFIG]:
                assert create(fake, version) == Created(Outcome.CREATED, OTHER_CONFIG)
                assert fake.json(CONFIG)["config"] == NEW_CONFIG
            else:
                with pytest.raises(KafkaRuleError, match="already exists"):
                    create(fake, version)
                assert fake.json(CONFIG)["config"] == OTHER_CONFIG


def test_a_topic_that_another_expands_meanwhile_keeps_the_others_partitions(version: Any) -> None:
    for point in all_points("expand", version):
        fake, approved = cluster_for("expand", version)
        before_call(fake, point, lambda fake=fake: expand(fake, {2: [4, 1]}))
        with pytest.raises(StaleProposalError):
            expand(fake, expected=approved)
        assert fake.json(TOPIC)["partitions"]["2"] == [4, 1]


def test_a_config_that_another_changes_meanwhile_keeps_the_others_keys(version: Any) -> None:
    for point in all_points("configs", version):
        fake, approved = cluster_for("configs", version)
        before_call(fake, point, lambda fake=fake: put(fake, CONFIG, {"version": 1, "config": OTHER_CONFIG}))
        set_topic_configs(fake, "orders", NEW_CONFIG, version=version, expected=approved)
        assert fake.json(CONFIG)["config"] == OTHER_CONFIG | NEW_CONFIG


@pytest.mark.parametrize("change", ["expand", "configs", "delete"])
def test_a_topic_that_goes_and_comes_meanwhile_is_not_changed(change: str, version: Any) -> None:
    for point in all_points(change, version):
        fake, approved = cluster_for(change, version)

        def other(fake: Any = fake) -> None:
            make_again(fake, version)
            fake.put_json(TOPIC, fake.json(TOPIC))  # its version is another one than that of the first

        before_call(fake, point, other)
        with pytest.raises(StaleProposalError, match="made again"):
            every_change(fake, approved, version)[change]()
        assert len(fake.json(TOPIC)["partitions"]) == 2
        assert MARKER not in fake.znodes
        assert fake.json(CONFIG)["config"] == {}


@pytest.mark.parametrize("change", ["expand", "configs", "delete"])
def test_who_always_comes_second_gives_up_and_has_written_nothing(change: str, version: Any) -> None:
    fake, approved = cluster_for(change, version)
    approved = dataclasses.replace(approved, znode_version=None)
    original = fake._call

    def always_first(name: Any, path: Any, do: Any) -> Any:
        if name in ("commit", "set"):
            fake.znodes[TOPIC].version += 1
        return original(name, path, do)

    fake._call = always_first
    with pytest.raises(WriteError, match="because somebody else changed it during each of 5 attempts"):
        every_change(fake, approved, version)[change]()
    assert fake.writes == []
