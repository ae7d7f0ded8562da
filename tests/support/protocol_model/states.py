"""The state of a small model of the protocol: one cluster, its lock and fence, and who acts on them.

A is the run whose worker asks for moves; people and the janitor stop it. B is a second run. Partitions are numbered,
and there is one target for each. A fence is not a number here: each actor knows whether the fence it has is still the
newest one, so that the model is finite.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

NOBODY = ""
A, B = "A", "B"


class Way(StrEnum):
    """How a request reaches the cluster."""

    LOG = "moves without ZooKeeper"  # announced in the lock's log
    TRANSACTION = "moves with ZooKeeper"  # one transaction with the check of the fence
    COPIES = "copies between log dirs"  # announced, on both kinds of cluster

    @property
    def is_announced(self) -> bool:
        return self is not Way.TRANSACTION


class Intent(NamedTuple):
    """An announcement without an end. `young`: it may still be sent."""

    run: str
    partition: int
    young: bool = True


class State(NamedTuple):
    """Each actor has its place in `at`, `fresh`, `before`, `intents` and `runs`.

    `at`: its next step. `fresh`: whether nobody has raised the fence since it did. `before`: what was under way when it
    did. `told`: the ends that were told as success. `wrong`: what must never happen, noted by the step that did it.
    """

    at: tuple[str, ...]
    fresh: tuple[bool, ...]
    before: tuple[frozenset[int], ...]
    intents: tuple[Intent | None, ...]
    holder: str
    lease: str  # the run with an open lease
    limited: str  # the run whose throttle is in force
    flying: tuple[str, ...]  # by partition: the run that has asked for the move under way
    placed: tuple[bool, ...]
    suspended: bool = False
    stopping: bool = False  # what people have asked of A
    cancelled: bool = False
    gone: bool = False  # Airflow knows A no more
    tries: int = 0  # that A has left
    told: frozenset[str] = frozenset()
    wrong: str = ""

    def put(self, actor: int, step: str) -> State:
        return self._replace(at=_with(self.at, actor, step))

    def raising(self, actor: int) -> State:
        """The fence rises, and the actor knows it. It remembers what is under way."""
        flying = frozenset(partition for partition, run in enumerate(self.flying) if run)
        fresh = tuple(other == actor for other in range(len(self.fresh)))
        return self._replace(fresh=fresh, before=_with(self.before, actor, flying))

    def reading_fence(self, actor: int) -> State:
        return self._replace(fresh=_with(self.fresh, actor, True))

    def announcing(self, actor: int, intent: Intent | None) -> State:
        return self._replace(intents=_with(self.intents, actor, intent))

    def under_way(self, partition: int, run: str) -> State:
        return self._replace(flying=_with(self.flying, partition, run))

    def in_place(self, partition: int) -> State:
        return self.under_way(partition, NOBODY)._replace(placed=_with(self.placed, partition, True))

    def telling(self, end: str) -> State:
        return self._replace(told=self.told | {end})

    def flies(self, run: str) -> bool:
        return run in self.flying

    def given_back(self, run: str) -> State:
        """Throttle and lease of this run."""
        limited = NOBODY if self.limited == run else self.limited
        return self._replace(limited=limited, lease=NOBODY, suspended=False)


def _with(values: tuple, place: int, value: object) -> tuple:  # type: ignore[type-arg]
    return (*values[:place], value, *values[place + 1 :])


def problem(state: State) -> str:
    """What must never hold; empty if nothing of it does."""
    if state.wrong:
        return state.wrong
    for run in filter(None, state.flying):
        if state.limited != run:
            return f"a move of {run} is under way without its throttle"
        if state.lease != run or state.holder != run:
            return f"a move of {run} is under way, and nobody will put its throttle back"
    if state.flies(A):
        for end in ("cancel", "release", "janitor"):
            if end in state.told:
                return f"the {end} was told as ended, and a move of A is under way"
    if state.limited and state.lease != state.limited:
        return f"no lease says whose the throttle of {state.limited} is"
    return ""


def left_over(state: State) -> str:
    """The same of a state in which nobody has anything left to do."""
    if state.gone and state.holder == A:
        return "A is gone, and nobody gives its lock back"
    if state.gone and state.limited == A:
        return "A is gone, and nobody puts its throttle back"
    if state.holder == A and not state.gone and state.lease != A and "release" in state.told:
        return "A holds the lock after its release was told as ended"
    return ""
