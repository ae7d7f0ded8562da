"""Executor and controller of a cluster without ZooKeeper in any order: nothing of "Never" is ever broken."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

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


BESIDE = st.lists(
    st.one_of(
        st.tuples(st.just(0), st.sampled_from(("release", "release", "hold", "request"))),
        st.tuples(st.just(1), st.sampled_from(("hold", "request", "release"))),
    ),
    min_size=1,
    max_size=4,
)
STOPS = ("cancel", "cancel", "release", "release", "pause", "stop", "sweep", "deleted")


class WithoutZooKeeper(ExecutionModel):
    """What a worker that stood still has set late, the janitor puts back within a quarter of an hour."""

    @rule(
        kind=st.sampled_from(("hold", "hold", "request")), at=st.integers(-8, -1), beside=BESIDE, killed=st.booleans()
    )
    def stands_still(self, kind: str, at: int, beside: list[tuple[int, str]], killed: bool) -> None:
        """The worker of the first run, at one of its writes, while others work on. Its write comes late."""
        run, airflow = self.names[0], self.world.airflow
        if airflow.paused or run not in airflow.states:
            return
        process = Process(run, {at: "killed after"} if killed else {})
        process.meanwhile[at] = [functools.partial(self.task, self.names[who], what, {}, []) for who, what in beside]
        outcome, result = self.world.take(run, kind, process)
        self.after(run, kind, outcome, result)

    @rule(
        others=st.lists(st.sampled_from(STOPS), min_size=1, max_size=3), seconds=st.sampled_from((0.0, 2.0, 5.0, 30.0))
    )
    def announces_late(self, others: list[str], seconds: float) -> None:
        """The worker of the first run stands still once it has announced its request, while others stop that run. Then
        it sends within the allowed time, or sees that it is too late.
        """
        run, airflow = self.names[0], self.world.airflow
        if airflow.paused or run not in airflow.states or self.stage[run] != "request" or run in self.event:
            return
        acts = [functools.partial(self.stops, what) for what in others]
        process = Process(run, once_announced=[*acts, functools.partial(self.world.sleep, seconds)])
        outcome, result = self.world.take(run, "request", process)
        self.after(run, "request", outcome, result)

    def stops(self, what: str) -> None:
        run = self.names[0]
        if what == "cancel":
            self.task("people", "ask", {}, [])
            if self.cancelling is not None:
                self.task("people", "cancel", {}, [])
        elif what == "deleted":
            self.world.airflow.states.pop(run, None)
            self.stage[run] = "over"
            self.task("janitor", "sweep", {}, [])
        elif what == "release":
            self.task(run, "release", {}, [])
        else:
            self.silent = 0.0
            self.task("people" if what == "stop" else "janitor", what, {}, [])

    def last_looks(self) -> None:
        self.world.seconds += LATE_SECONDS + 1
        self.task("janitor", "sweep", {}, [])


def test_nothing_of_never_is_broken_in_any_order(made: ModelWorld) -> None:
    walk(WithoutZooKeeper, made, VERSIONS, fewest=400)  # fewer may miss a task, and which one differs by worker


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


def sweep(world: ModelWorld, seconds: float) -> None:
    """The janitor comes every minute for so long, and once after that."""
    until = world.seconds + seconds
    while world.seconds < until:
        world.controller.hear(1000)
        world.take("janitor", "sweep", Process("janitor"), 0.0)
        world.seconds += 60.0
    world.take("janitor", "sweep", Process("janitor"), 0.0)


def writes_of(world: ModelWorld, kind: str, what: str) -> list[int]:
    """Of this task of the first run: the numbers by which those of its writes are counted."""
    run = next(iter(world.runs))
    process = Process(run)
    assert world.take(run, kind, process)[0] == "ok"
    return [-number for number, (wrote, _) in enumerate(process.written, 1) if wrote == what]


@pytest.mark.parametrize("killed", [False, True], ids=["goes on", "killed"])
def test_a_setup_that_stood_still_while_its_run_gave_back_leaves_no_throttle(world: ModelWorld, killed: bool) -> None:
    """At each of its writes of a config, which comes late."""
    run = next(iter(world.runs))
    numbers = writes_of(world, "hold", "config")
    assert len(numbers) >= 4
    for number in numbers:
        world.load(world.version)
        given_back: list[str] = []

        def give_back(done: list[str] = given_back) -> None:
            done.append(world.take(run, "release", Process(run))[0])

        process = Process(run, {number: "killed after"} if killed else {}, {number: [give_back]})
        outcome, said = world.take(run, "hold", process)
        assert given_back == ["ok"]
        assert outcome == ("killed" if killed else "refused"), said
        sweep(world, LATE_SECONDS)
        assert world.own_throttle() == {}, f"write {number}"
        assert world.holder() is None


@pytest.mark.parametrize("killed", [False, True], ids=["goes on", "killed"])
def test_a_request_that_comes_late_is_taken_back_by_its_worker_or_by_who_has_taken_the_cluster(
    world: ModelWorld, killed: bool
) -> None:
    first, second = world.runs
    assert world.take(first, "hold", Process(first))[0] == "ok"
    (number,) = writes_of(world, "request", "alter")
    world.load(world.version)
    assert world.take(first, "hold", Process(first))[0] == "ok"
    outcomes: list[tuple[str, object]] = []

    def hand_over() -> None:
        outcomes.append(world.take(first, "release", Process(first)))
        outcomes.append(world.take(second, "hold", Process(second)))

    mishaps = {number: "killed after"} if killed else {}
    world.take(first, "request", Process(first, mishaps, {number: [hand_over]}))
    assert [outcome for outcome, _ in outcomes] == ["ok", "ok"], outcomes
    late = set(world.controller.targets)
    assert bool(late) == killed, "its worker looks again"
    assert world.late_requests, "nothing came late"
    world.take(second, "request", Process(second))
    assert not set(world.controller.targets) & (late - world.requested.get(second, set()))
