"""A request that was announced before somebody stopped its run, and that its worker sends within the allowed time.

The worker stands still between the announcement and its last look at the clock, while others act.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kafka_rebalance import clock
from kafka_rebalance.moves.announcement_age import LATE_SECONDS
from support.histories.process import Process
from support.kraft_model.model_world import VERSIONS, ModelWorld
from support.runs.janitor_run import tend


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


def test_a_release_ends_when_nothing_announced_can_come_any_more(world: ModelWorld) -> None:
    assert take(world, "hold")[0] == "ok"
    (outcome, released), (asked, said) = request_beside(world, lambda: take(world, "release"))
    assert outcome == "ok", released
    assert asked == "refused", said
    assert not world.controller.targets
    assert world.holder() is None
    assert world.own_throttle() == {}


def test_a_worker_that_stood_still_for_longer_takes_back_what_it_has_asked_for(world: ModelWorld) -> None:
    """Between its last look at the clock and the network, where only its own next look can tell."""
    assert take(world, "hold")[0] == "ok"
    (number,) = [-at for at, (wrote, _) in enumerate(written(world, "request"), 1) if wrote == "alter"]
    told: list[tuple[str, Any]] = []
    outcome = take(world, "request", meanwhile={number: [lambda: told.append(take(world, "release"))]})
    assert told[0][0] == "ok", told
    assert outcome[0] == "refused"
    assert "taken back" in str(outcome[1])
    assert not world.controller.targets


@pytest.mark.parametrize("how", ["deleted", "broken"])
def test_the_janitor_puts_back_nothing_under_a_request_that_may_still_come(world: ModelWorld, how: str) -> None:
    assert take(world, "hold")[0] == "ok"
    if how == "deleted":
        world.airflow.states.pop(first(world))
    sweep = lambda: take(world, "sweep", 0.0)  # noqa: E731
    breaks = lambda: ("ok", tend("uma", break_lock=f"kafka_rebalance/{first(world)} of {owner(world)}"))  # noqa: E731
    (outcome, report), (asked, said) = request_beside(world, sweep if how == "deleted" else breaks)
    assert outcome == "ok", report
    assert asked == "refused", said
    assert not world.controller.targets
    assert world.holder() is None
    assert world.own_throttle() == {}


def test_a_long_pause_puts_nothing_back_under_a_request_that_may_still_come(world: ModelWorld) -> None:
    assert take(world, "hold")[0] == "ok"
    (outcome, paused), (asked, said) = request_beside(world, lambda: take(world, "pause", 0.0))
    assert outcome == "ok", paused
    assert asked == "refused", said
    assert not world.controller.targets


def test_a_stopped_run_moves_nothing_that_it_had_announced(world: ModelWorld) -> None:
    assert take(world, "hold")[0] == "ok"
    (outcome, stopped), (asked, said) = request_beside(world, lambda: take(world, "stop"))
    assert outcome == "ok", stopped
    assert asked == "refused", said
    assert take(world, "request")[0] == "refused"
    assert not world.controller.targets


def owner(world: ModelWorld) -> str:
    state = world.lock_topic.state
    assert state is not None
    assert state.lock is not None
    return state.lock.owner


def written(world: ModelWorld, kind: str) -> list[tuple[str, str]]:
    """What this task of the first run writes, in a world that is thrown away."""
    process = Process(first(world))
    assert world.take(first(world), kind, process)[0] == "ok"
    world.load(world.version)
    assert take(world, "hold")[0] == "ok"
    return process.written


def test_a_worker_whose_clock_is_ahead_ends_no_watch_too_early(
    world: ModelWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What may yet be set late is watched for a quarter of an hour by the cluster's clock."""

    monkeypatch.setattr(clock, "utc_now", lambda: datetime.now(UTC) + timedelta(minutes=20))
    assert take(world, "hold")[0] == "ok"
    assert take(world, "release")[0] == "ok"
    until = late_until(world)
    assert until is not None
    left = (datetime.fromisoformat(until) - world.cluster.now()).total_seconds()
    assert 880 < left <= LATE_SECONDS
    assert take(world, "sweep", 0.0)[0] == "ok"
    assert late_until(world) == until
    world.seconds += LATE_SECONDS + 1
    assert take(world, "sweep", 0.0)[0] == "ok"
    assert late_until(world) is None


def late_until(world: ModelWorld) -> str | None:
    (lease,) = world._lease_texts().values()
    found: str | None = lease["late_until"]
    return found
