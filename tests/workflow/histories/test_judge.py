"""The model's judge can fail: with the product broken on purpose it names what must never happen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kafka_rebalance.errors import RebalanceError
from kafka_rebalance.moves.run_position import Position
from kafka_rebalance.rebalance import request_batch
from kafka_rebalance.run import approved_plan, checks_before_write, inputs
from kafka_rebalance.run.run_folder import open_run_folder
from kafka_rebalance.throttle import hold_throttle
from support.histories.process import Process
from support.histories.world import World

# Of the first run: the partitions in their order, and what strangers make of them.
AUDIT, ORDERS_0, ORDERS_1, RANKS = range(4)
SWAPPED, EXTENDED, AS_APPROVED, BACK = range(0, 24, 6)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with pytest.MonkeyPatch.context() as patched:
        yield World(tmp_path_factory.mktemp("world"), patched)


@pytest.fixture(params=["2.0", "2.8"])
def world(made: World, request: pytest.FixtureRequest) -> World:
    made.load(str(request.param))
    return made


def first(world: World) -> str:
    return next(iter(world.runs))


def take(world: World, kind: str, **process: Any) -> tuple[str, Any]:
    return world.take(first(world), kind, Process(first(world), **process))


def believe_zookeeper_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the run had asked for whatever it was approved to ask for."""
    for room in (hold_throttle, request_batch):
        monkeypatch.setattr(
            room, "asked_for", lambda folder, moves, cluster: frozenset(move.topic_partition for move in moves)
        )


def test_an_expired_approval_that_is_executed_although_nothing_of_ours_was_begun(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert world.act("foreign_moved", AUDIT + AS_APPROVED)
    assert world.act("approval_expires", 0)
    outcome, said = take(world, "hold")
    assert outcome == "refused"
    assert "has expired" in str(said)
    believe_zookeeper_alone(monkeypatch)
    with pytest.raises(AssertionError, match="with an expired approval, and nothing of this run was begun"):
        take(world, "hold")


def test_a_policy_that_was_not_approved(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.act("policy_changes", 0)
    assert take(world, "hold")[0] == "refused"
    monkeypatch.setattr(inputs, "check_policy_unchanged", lambda *_: None)
    with pytest.raises(AssertionError, match="under a policy that was not approved"):
        take(world, "hold")


def test_a_batch_that_is_followed_and_was_never_requested(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert take(world, "hold")[0] == "ok"
    assert world.act("foreign_move", ORDERS_0 + AS_APPROVED)
    world.act("controller", 1)
    outcome, said = take(world, "request")
    assert outcome == "refused"
    assert "this run has not asked for it" in str(said)
    believe_zookeeper_alone(monkeypatch)
    with pytest.raises(AssertionError, match="follows batch 1, which it has never requested"):
        take(world, "request")


@pytest.mark.parametrize("moved", [AUDIT + AS_APPROVED, ORDERS_0 + EXTENDED, RANKS + SWAPPED])
def test_a_request_from_other_lists_than_were_approved(
    world: World, monkeypatch: pytest.MonkeyPatch, moved: int
) -> None:
    assert take(world, "hold")[0] == "ok"
    assert world.act("foreign_moved", moved)
    outcome, said = take(world, "request")
    assert outcome == "refused"
    assert "replicas are now" in str(said)
    monkeypatch.setattr(checks_before_write, "check_no_conflict", lambda *_, **__: None)
    named = sorted(world.moves[first(world)].items())[moved % 6][1].batch - 1
    monkeypatch.setattr(request_batch, "position", lambda planned, *_, **__: Position((), None, planned[named]))
    with pytest.raises(AssertionError, match=r"is at \[.*approved from"):
        take(world, "request")


def test_the_papers_of_another_run(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    other = list(world.runs)[1]
    for kind in ("hold", "request", "elect", "release", "verify"):
        outcome, said = take(world, kind, papers_of=other)
        assert outcome == "refused", kind
        assert isinstance(said, RebalanceError) or "RunFolderError" in str(said)
    monkeypatch.setattr(
        approved_plan, "open_own_folder", lambda deployment, url, started, nonce: open_run_folder(deployment, url)
    )
    with pytest.raises(AssertionError, match=f"by the files of {other}"):
        take(world, "hold", papers_of=other)
