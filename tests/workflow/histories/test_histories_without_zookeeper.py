"""Executor and controller of a cluster without ZooKeeper in any order: nothing of "Never" is ever broken."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from support.histories.execution_model import ExecutionModel, walk
from support.histories.process import Process
from support.kraft_model.model_world import VERSIONS, ModelWorld

LATE_SECONDS = 900.0  # after that, nothing that was decided on can still come


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelWorld]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(logging.root.manager, "disable", logging.CRITICAL)
        yield ModelWorld(tmp_path_factory.mktemp("world"), patched)


@pytest.fixture(params=VERSIONS)
def world(made: ModelWorld, request: pytest.FixtureRequest) -> ModelWorld:
    made.load(str(request.param))
    return made


class WithoutZooKeeper(ExecutionModel):
    """What a worker that stood still has set late, the janitor puts back within a quarter of an hour."""

    def last_looks(self) -> None:
        self.world.seconds += LATE_SECONDS + 1
        self.task("janitor", "sweep", {}, [])


def test_nothing_of_never_is_broken_in_any_order(made: ModelWorld) -> None:
    walk(WithoutZooKeeper, made, VERSIONS)


def test_a_plain_run_ends_as_approved(world: ModelWorld) -> None:
    run = next(iter(world.runs))
    assert world.take(run, "hold", Process(run))[0] == "ok"
    kind, argument = "request", None
    for _ in range(40):
        outcome, found = world.take(run, kind, Process(run), argument)
        assert outcome == "ok", found
        if kind != "look" and found is None:
            break
        kind, argument = ("resume", found) if kind == "look" and found is not None else ("look", found or argument)
        world.settle()
    for kind in ("elect", "release", "verify"):
        outcome, found = world.take(run, kind, Process(run))
        assert outcome == "ok", found
    assert world.own_throttle() == {}
    assert world.holder() is None
