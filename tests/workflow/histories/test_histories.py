"""Executor and controller in any order, with deaths and strangers between: nothing of "Never" is ever broken."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from support.histories.execution_model import ExecutionModel, walk
from support.histories.process import Process
from support.histories.world import World
from support.zookeeper.fake_zookeeper import REASSIGN


def test_nothing_of_never_is_broken_in_any_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.root.manager, "disable", logging.CRITICAL)
    walk(ExecutionModel, World(tmp_path, monkeypatch), ("2.0", "2.8"))


@pytest.mark.parametrize("killed", [False, True], ids=["goes on", "killed"])
@pytest.mark.parametrize("frozen_before", [-3, -4, -5, -6])
def test_a_setup_that_was_frozen_while_its_run_gave_back_leaves_no_throttle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, frozen_before: int, killed: bool
) -> None:
    """Also where it is killed by its next write, and so puts nothing back itself."""
    world = World(tmp_path, monkeypatch)
    world.load("2.8")
    run = next(iter(world.runs))
    mishaps = {frozen_before: "killed after"} if killed else {}
    process = Process(run, mishaps, {frozen_before: [lambda: world.take(run, "release", Process(run))]})  # type: ignore[list-item]
    outcome, said = world.take(run, "hold", process)
    assert outcome == ("killed" if killed else "refused")
    assert killed or "another worker has taken the cluster" in str(said)
    assert world.own_throttle() == {}
    assert world.holder() is None


def test_a_copy_that_strangers_send_elsewhere_on_its_way_is_not_left_without_throttle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, monkeypatch)
    world.load("2.8")
    run = next(iter(world.runs))
    for kind in ("hold", "request"):
        world.take(run, kind, Process(run))
    while world.controller.step():
        pass
    assert world.act("foreign_delete", 0)
    world.act("failover", 0)
    entry = {"topic": "orders", "partition": 0, "replicas": [1, 3]}  # approved is [2, 3]
    world.fake.put_json(REASSIGN, {"version": 1, "partitions": [entry]})
    while world.controller.step():
        pass
    outcome, said = world.take(run, "release", Process(run))
    assert outcome == "refused"
    assert "Copies are still in flight" in str(said)
    assert ("follower.replication.throttled.replicas", "0:3") in world._entries("topics/orders")
