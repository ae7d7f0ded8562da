"""A request that was announced before somebody stopped its run, and that its worker sends within the allowed time.

The worker stands still between the announcement and its last look at the clock, while others act.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.histories.process import Process
from support.kraft_model.model_world import VERSIONS, ModelWorld


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelWorld]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(logging.root.manager, "disable", logging.CRITICAL)
        yield ModelWorld(tmp_path_factory.mktemp("world"), patched)


@pytest.fixture(params=VERSIONS)
def world(made: ModelWorld, request: pytest.FixtureRequest) -> ModelWorld:
    made.load(str(request.param))
    return made


def first(world: ModelWorld) -> str:
    return next(iter(world.runs))


def take(world: ModelWorld, kind: str, argument: Any = None, **process: Any) -> tuple[str, Any]:
    run = first(world) if kind not in ("ask", "cancel", "end", "stop", "sweep", "pause") else "people"
    return world.take(run, kind, Process(run, **process), argument)


def request_beside(world: ModelWorld, *others: Callable[[], tuple[str, Any]]) -> list[tuple[str, Any]]:
    """The outcomes of what others do while the request of the first run is announced, and that of the request."""
    told: list[tuple[str, Any]] = []
    acts = [lambda one=other: told.append(one()) for other in others]
    outcome = take(world, "request", once_announced=acts)
    assert len(told) == len(others), "nothing was announced"
    return [*told, outcome]


def test_a_cancelled_run_moves_nothing_that_it_had_announced(world: ModelWorld) -> None:
    assert take(world, "hold")[0] == "ok"
    _, canceller = take(world, "ask")
    (outcome, cancelled), (asked, said) = request_beside(world, lambda: take(world, "cancel", canceller))
    assert outcome == "ok", cancelled
    assert asked == "refused", said
    assert not world.controller.targets
    outcome, said = take(world, "request")
    assert outcome == "refused"
    assert "No further" in str(said) or "taken back" in str(said)
    assert not world.controller.targets
    assert take(world, "release")[0] == "ok"
    assert world.own_throttle() == {}
    assert world.holder() is None
