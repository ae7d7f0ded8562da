"""A state machine of two approved runs of one cluster: tasks in any order, with deaths and strangers between.

`KAFKA_REBALANCE_MODEL_RUNS` says how many histories are tried (by default as many as half a minute holds);
`KAFKA_REBALANCE_MODEL_SHRINK=1` makes the first broken one shorter, which takes minutes.
"""

from __future__ import annotations

import functools
import os
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from support.histories.lost_leases import LOSSES
from support.histories.process import Process
from support.histories.tasks import OURS, OUTSIDE

FEWEST = 40  # histories, below which not every task comes to an end in one of them
RUNS = int(os.environ.get("KAFKA_REBALANCE_MODEL_RUNS", FEWEST))
# The first broken history is shown as it is: to make it shorter takes minutes.
PHASES = (Phase.generate, Phase.shrink) if "KAFKA_REBALANCE_MODEL_SHRINK" in os.environ else (Phase.generate,)
BROKERS = (*["controller"] * 3, *["join"] * 3, "failover", "down", "up", "up", "shrink", "window")
STRANGERS = ("foreign_request", "foreign_delete", "foreign_throttle", "foreign_throttle", "delete_topic")
MOVERS = ("foreign_move", "foreign_moved", "foreign_moved", "foreign_cancel")  # of partitions of approved plans
PAPERS = ("approval_expires", "policy_changes")
MISHAPS = ("killed before", "killed after", "lost before", "lost after")
NUMBERS = st.integers(0, 23)
CALLS = st.one_of(st.integers(-8, -1), st.integers(-3, -1), st.integers(1, 40))  # to ZooKeeper, of one task
OTHERS = st.tuples(st.sampled_from((*BROKERS, *BROKERS, *STRANGERS, *MOVERS, *PAPERS)), NUMBERS)
TROUBLE = st.one_of(st.just({}), st.just({}), st.dictionaries(CALLS, st.sampled_from(MISHAPS), min_size=1, max_size=2))
MEANWHILE = st.one_of(OTHERS, OTHERS, st.tuples(st.just("beside"), st.integers(0, 20)))
BETWEEN = st.one_of(st.just([]), st.just([]), st.lists(st.tuples(CALLS, MEANWHILE), min_size=1, max_size=4))
SILENT = {"sweep": 0.0, "sweep late": 100.0, "sweep very late": 1000.0}  # seconds in which nobody has followed
WAYS = ("ask", "cancel", "end", "stop", *SILENT, *SILENT, "pause", "pause", "long pause", "long pause", "delete")
ODDLY = st.sampled_from((*(False,) * 9, True))
WITH_PAPERS = ("hold", "request", "elect", "release", "verify")
NEXT = {"hold": "request", "request": "elect", "elect": "release", "release": "verify", "verify": "over"}


class ExecutionModel(RuleBasedStateMachine):
    """Two approved runs of one cluster, each where Airflow would have it; any task may be cleared at any time."""

    world: Any
    versions: tuple[str, str]

    @initialize(
        version=st.integers(0, 1),
        begun=st.integers(0, 4),
        able=st.sampled_from(((), (), (), STRANGERS, STRANGERS, MOVERS, (*MOVERS, *PAPERS), (*STRANGERS, *MOVERS))),
    )
    def start(self, version: int, begun: int, able: tuple[str, ...]) -> None:
        """A history may begin with the throttle held, a batch requested, in motion or over; strangers are in half."""
        self.world.load(self.versions[version])
        self.names = tuple(self.world.runs)
        self.able = able
        self.stage = dict.fromkeys(self.names, "hold")
        self.batch: dict[str, Any] = {}
        self.event: dict[str, Any] = {}
        self.cancelling: Any = None
        self.silent = 0.0
        for _ in range(min(begun, 2)):
            self.task(self.names[0], self.stage[self.names[0]], {}, [])
        for _ in range((0, 0, 0, 3, 30)[begun]):
            self.time_passes(1)

    @rule(number=st.integers(0, 4), trouble=TROUBLE, between=BETWEEN)
    def goes_on(self, number: int, trouble: dict[int, str], between: list[Any]) -> None:
        """The next thing that Airflow would do of a run; mostly of the first."""
        run = self.names[0 if number else 1]
        if self.stage[run] != "over":
            self.task(run, self.stage[run], trouble, between)

    @rule(trouble=TROUBLE, between=BETWEEN, opens=st.booleans())
    def goes_on_outside_its_window(self, trouble: dict[int, str], between: list[Any], opens: bool) -> None:
        """The same of the first run, while its window is closed."""
        self.world.act("window", 0)
        if self.stage[self.names[0]] != "over":
            self.task(self.names[0], self.stage[self.names[0]], trouble, between)
        if opens:
            self.world.act("window", 1)

    @rule()
    def goes_well(self) -> None:
        """A batch of the first run comes to its end."""
        run = self.names[0]
        for _ in range(3):
            if self.stage[run] != "over":
                self.task(run, self.stage[run], {}, [])
                self.time_passes(25)

    @rule(number=st.integers(0, 2), kind=st.sampled_from(OURS), trouble=TROUBLE, between=BETWEEN, papers=ODDLY)
    def is_cleared(self, number: int, kind: str, trouble: dict[int, str], between: list[Any], papers: bool) -> None:
        """Any task is run again, or beside the one that runs; now and then somebody has pointed its XComs to the folder
        of the other run, which was approved as well.
        """
        run, other = self.names[0 if number else 1], self.names[1 if number else 0]
        if papers and kind in WITH_PAPERS:
            self.world.take(run, kind, Process(run, papers_of=other))
        else:
            self.task(run, kind, trouble, between)

    @rule(what=st.sampled_from(WAYS), trouble=TROUBLE, between=BETWEEN)
    def from_outside(self, what: str, trouble: dict[int, str], between: list[Any]) -> None:
        """People stop or cancel whoever holds the cluster, a step at a time; the janitor comes, and sees a run that is
        slow or silent; the Dag is paused and unpaused; a run is deleted, with nobody to put anything back.
        """
        airflow = self.world.airflow
        if what == "pause":
            airflow.paused = not airflow.paused
        elif what == "delete":
            run = self.names[len(airflow.states) % 2]
            airflow.states.pop(run, None)
            self.stage[run] = "over"
        elif what in SILENT:
            self.silent = SILENT[what]
            self.task("janitor", "sweep", trouble, between)
        elif what == "long pause":
            self.silent = 0.0
            self.task("janitor", "pause", trouble, between)
        elif what in ("ask", "stop") or self.cancelling is not None:
            self.task("people", what, trouble, between)

    @rule(trouble=TROUBLE, between=BETWEEN, ends=st.booleans())
    def is_cancelled(self, trouble: dict[int, str], between: list[Any], ends: bool) -> None:
        """What a person approved is done, perhaps by a worker that dies and another."""
        self.task("people", "ask", {}, [])
        if self.cancelling is not None:
            self.task("people", "cancel", trouble, between)
            self.task("people", "cancel", {}, [])
            if ends:
                self.world.settle()
                self.task("people", "end", {}, [])

    @rule(what=st.lists(OTHERS, min_size=1, max_size=6))
    def others(self, what: list[tuple[str, int]]) -> None:
        for one, number in what:
            self.other(one, number)

    @rule(how=st.sampled_from(LOSSES))
    def a_copy_of_the_lease_is_lost(self, how: str) -> None:
        """The folder below runs_url, or the cluster's record, is deleted or written over; never both."""
        self.world.lose_lease(how)

    @rule(steps=st.integers(1, 12))
    def time_passes(self, steps: int) -> None:
        """The controller works and followers catch up."""
        for _ in range(steps):
            self.other("controller", 1)
            self.other("join", 0)

    def other(self, what: str, number: int) -> None:
        if what == "beside":  # another worker of a run, which the one that was frozen does not know of
            self.task(self.names[number // len(OURS) == 2], OURS[number % len(OURS)], {}, [])
        elif what in self.able or what in BROKERS:
            self.world.act(what, number)

    def task(self, run: str, kind: str, trouble: dict[int, str], between: list[Any]) -> tuple[str, Any]:
        airflow = self.world.airflow
        if kind not in OUTSIDE and (airflow.paused or run not in airflow.states):
            return "nothing", None
        process = Process(run, dict(trouble))
        for call, (what, number) in between:
            process.meanwhile.setdefault(call, []).append(functools.partial(self.other, what, number))
        if kind == "request" and run in self.event:
            kind = "resume"
        elif kind == "request" and run in self.batch:
            kind = "look"
        if (kind == "look" and run not in self.batch) or (kind == "resume" and run not in self.event):
            return "nothing", None
        argument = self.batch.get(run) if kind == "look" else self.event.get(run)
        if kind in OUTSIDE:
            argument = self.silent if kind in ("sweep", "pause") else self.cancelling
        outcome, result = self.world.take(run, kind, process, argument)
        self.after(run, kind, outcome, result)
        return outcome, result

    def after(self, run: str, kind: str, outcome: str, result: Any) -> None:
        """Where Airflow has the run then: what was killed is tried again, what is refused goes to the teardown."""
        if kind == "ask" and outcome == "ok":
            self.cancelling = result
        if kind in OUTSIDE:
            return
        if kind == "look":
            if result is not None:
                self.event[run] = result
                self.batch.pop(run, None)
        elif kind in ("request", "resume"):
            if kind == "resume" and outcome != "killed":
                self.event.pop(run, None)
            if outcome == "ok" and result is not None:
                self.batch[run] = result
            elif outcome in {"ok", "refused"}:
                self.stage[run] = "elect"
        elif outcome == "ok" or (outcome == "refused" and kind in ("elect", "verify")):
            self.stage[run] = NEXT[kind]

    @invariant()
    def nothing_of_a_run_is_left_without_a_lease(self) -> None:
        """A throttle of ours is always in a lease that somebody can put back."""
        if hasattr(self, "names") and self.world.own_throttle():
            assert self.world.cared_for(), f"no lease says whose {self.world.own_throttle()} are"

    def teardown(self) -> None:
        """In the end, with nothing going wrong any more: every run gives back what it took."""
        if not hasattr(self, "names"):
            return
        self.world.airflow.paused = self.world.is_closed = False
        self.silent = 1000.0
        self.world.act("failover", 0)
        self.world.settle()
        self.task("janitor", "sweep", {}, [])  # what nobody else can put back
        for run in sorted(self.names, key=lambda name: name != self.world.holder()):
            self.batch.pop(run, None)
            self.event.pop(run, None)
            if run == self.names[0] and self.stage[run] in ("hold", "request"):
                self.task(run, "hold", {}, [])
            for _ in range(8):
                outcome, _result = self.task(run, "request", {}, [])
                self.world.settle()
                if outcome != "ok" or (run not in self.batch and run not in self.event):
                    break
            self.task(run, "elect", {}, [])
            self.world.settle()
            self.task(run, "release", {}, [])
            self.task(run, "verify", {}, [])
        if self.cancelling is not None:
            self.task("people", "end", {}, [])
        self.last_looks()
        assert self.world.own_throttle() == {}
        assert self.world.holder() is None

    def last_looks(self) -> None:
        """What comes after the runs, before nothing of them may be left."""


def walk(
    model: type[ExecutionModel], world: Any, versions: tuple[str, str], runs: int = RUNS, fewest: int = FEWEST
) -> None:
    """Tries so many histories, the same each time. From `fewest` on, each task must have come to its end in one."""
    machine = type("Model", (model,), {"world": world, "versions": versions})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=runs,
            stateful_step_count=30,
            deadline=None,
            phases=PHASES,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    if runs >= fewest:
        assert [kind for kind in OURS if not world.seen[kind, "ok"]] == [], "some task has never come to its end"
        assert [kind for kind in OUTSIDE if not world.seen[kind, "ok"]] == [], "something from outside has never ended"
        assert any(world.seen[kind, "killed"] for kind in OURS), "nothing was killed"
        assert world.pauses, "no window was ever closed before a batch"
