"""What each actor of the model does next: workers of both runs, people who stop A, its teardown and the janitor.

A step is what no other actor can divide: one write of the log or of ZooKeeper, one request, one look. What becomes of
announced requests is decided by the product's own functions (`execution.announced`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kafka_rebalance.moves.announcement_age import COME_SECONDS, came, may_still_come
from support.protocol_model.states import NOBODY, A, B, Intent, State, Way

# Faults that can be put in on purpose. Each is a sentence that the product must not be.
FAULTS = {
    "cancel_does_not_wait": "a cancel raises the fence and does not wait for what was announced",
    "put_back_does_not_wait": "whoever puts a throttle back does not wait for what was announced",
    "clock_is_ahead": "the age of an announcement is told by a clock that is ahead",
    "follows_although_cancelled": "a worker of a cancelled run follows what is under way",
    "announces_without_fence": "a request is announced whatever the fence is",
    "put_back_without_fence": "a throttle is put back whatever the fence is",
    "looks_before_raising": "a worker looks at throttle and stop before it raises the fence",
    "takes_back_nothing": "what comes while it is waited for is not taken back",
}
ENDS = ("stopped", "failed", "done", "dead", "ended", "kept")

Step = tuple[str, State]


@dataclass(frozen=True)
class Protocol:
    """Who acts. `actors`: worker, again (another worker of A beside the first), second (run B), cancel, stop, pause,
    release, janitor. `tries` are of A's workers.
    """

    way: Way
    actors: tuple[str, ...]
    partitions: int = 1
    tries: int = 1
    faults: frozenset[str] = field(default_factory=frozenset)

    def __str__(self) -> str:
        more = f", with a fault: {', '.join(sorted(self.faults))}" if self.faults else ""
        return f"{self.way}, {self.partitions} partition(s), {self.tries} retries: {', '.join(self.actors)}{more}"

    def begin(self) -> State:
        """A holds the cluster and its throttle, and has asked for nothing."""
        count = len(self.actors)
        first = {"worker": "look", "again": "look", "second": "hold"}
        return State(
            at=tuple(first.get(actor, "begin") for actor in self.actors),
            fresh=(False,) * count,
            before=(frozenset(),) * count,
            intents=(None,) * count,
            holder=A,
            lease=A,
            limited=A,
            flying=(NOBODY,) * self.partitions,
            placed=(False,) * self.partitions,
            tries=self.tries,
        )

    def steps(self, state: State) -> Iterator[Step]:
        """Everything that may happen next."""
        for actor, name in enumerate(self.actors):
            if name in ("worker", "again", "second"):
                yield from self._worker(state, actor, B if name == "second" else A)
            else:
                yield from getattr(self, f"_{name}")(state, actor)
        if any(intent is not None and intent.young for intent in state.intents):
            old = tuple(intent and intent._replace(young=False) for intent in state.intents)
            yield "so much time passes that nothing announced can be sent any more", state._replace(intents=old)
        for partition, run in enumerate(state.flying):
            if run:
                yield f"the move of {partition} ends", state.in_place(partition)
        if "janitor" in self.actors and not state.gone:
            yield "Airflow forgets A", state._replace(gone=True)

    # What is shared.

    def _is_waited_for(self, intent: Intent | None) -> bool:
        age = 0.0 if intent is not None and intent.young else COME_SECONDS + 1
        return intent is not None and may_still_come(age + (1200.0 if "clock_is_ahead" in self.faults else 0.0))

    def _settled(self, state: State, actor: int) -> State | None:
        """After the wait for everything announced; None while it is not over. What came since the raise is taken
        back.
        """
        others = [intent for other, intent in enumerate(state.intents) if other != actor]
        if any(map(self._is_waited_for, others)):
            return None
        return self._taken_back(state, [one for one in others if one is not None], state.before[actor])

    def _taken_back(self, state: State, intents: list[Intent], before: frozenset[int] = frozenset()) -> State:
        if "takes_back_nothing" in self.faults:
            return state
        now = {partition: run for partition, run in enumerate(state.flying) if run}
        then = {partition: now.get(partition, NOBODY) for partition in before}
        for intent in intents:
            for partition in came({intent.partition: intent.run}, now, before=then):
                state = state.under_way(partition, NOBODY)
        return state

    # A worker asks for one move after the other.

    def _worker(self, state: State, actor: int, run: str) -> Iterator[Step]:
        at, who = state.at[actor], f"{self.actors[actor]} of {run}"
        if run == A and at not in ENDS:
            yield f"{who} dies", state.put(actor, "dead")
        if run == A and at in ("dead", "failed") and state.tries and not state.gone:
            yield f"{who} is tried again", state._replace(tries=state.tries - 1).put(actor, "look")
        step = {
            "hold": self._hold,
            "look": self._look,
            "raise": self._raise,
            "check": self._check,
            "settle": self._settle,
            "announce": self._announce,
            "announced": self._send,
            "sent": self._look_again,
            "follow": self._follow,
            "give back": self._give_back,
        }.get(at)
        if step is not None:
            for label, after in step(state, actor, run):
                yield f"{who} {label}", after

    def _hold(self, state: State, actor: int, run: str) -> Iterator[Step]:
        if not state.holder and not state.lease:
            taken = state._replace(holder=run, lease=run, limited=run).raising(actor)
            yield "takes the cluster and sets its throttle", taken.put(actor, "look")

    def _look(self, state: State, actor: int, run: str) -> Iterator[Step]:
        if any(one is not None and one.run == run and self._is_waited_for(one) for one in state.intents):
            return  # an earlier try has announced it
        if state.holder != run:
            yield "sees that it does not hold the cluster", state.put(actor, "failed")
            return
        if run == A and state.cancelled and state.flies(run) and "follows_although_cancelled" not in self.faults:
            for partition, by in enumerate(state.flying):
                state = state.under_way(partition, NOBODY) if by == run else state
            yield "takes back what was cancelled", state.put(actor, "stopped")
            return
        others = [one for one in state.intents if one is not None and one.run != run]
        state = self._taken_back(state, others)
        if state.flies(run):
            if run == A and state.cancelled:
                state = state._replace(wrong="A was cancelled, and its worker follows what is under way")
            yield "follows what is under way", state.put(actor, "follow")
        elif any(state.flying):
            yield "sees a move of somebody else", state.put(actor, "failed")
        elif all(state.placed):
            yield "sees that all is in place", state.put(actor, "give back" if run == B else "done")
        else:
            first = "check" if "looks_before_raising" in self.faults else "raise"
            yield "looks at the cluster", state.put(actor, first)

    def _raise(self, state: State, actor: int, run: str) -> Iterator[Step]:
        if state.holder != run:
            yield "does not hold the cluster any more", state.put(actor, "failed")
            return
        raised = state.raising(actor)
        if raised.lease == run and raised.suspended:
            raised = raised._replace(suspended=False, limited=run)
        after = "settle" if "looks_before_raising" in self.faults else "check"
        yield "raises the fence for its request", raised.put(actor, after)

    def _check(self, state: State, actor: int, run: str) -> Iterator[Step]:
        early = "looks_before_raising" in self.faults
        if run == A and (state.stopping or state.cancelled):
            yield "sees that it was stopped", state.put(actor, "stopped")
        elif state.lease != run or (state.limited != run and not early):
            yield "sees that its throttle is not in force", state.put(actor, "failed")
        else:
            yield "sees its throttle in force and no stop", state.put(actor, "raise" if early else "settle")

    def _settle(self, state: State, actor: int, run: str) -> Iterator[Step]:
        if not state.fresh[actor]:
            yield "sees that the fence has risen", state.put(actor, "failed")
        elif not self.way.is_announced:
            yield "is about to write its request", state.put(actor, "announce")
        elif (settled := self._settled(state, actor)) is not None:
            yield "has waited for what others announced", settled.put(actor, "announce")

    def _announce(self, state: State, actor: int, run: str) -> Iterator[Step]:
        may = (state.fresh[actor] and state.holder == run) or "announces_without_fence" in self.faults
        if not may:
            yield "is refused, because the fence has risen", state.put(actor, "failed")
            return
        partition = next((p for p, placed in enumerate(state.placed) if not placed and not state.flying[p]), None)
        if partition is None:
            yield "sees that nothing is left to ask for", state.put(actor, "look")
        elif self.way.is_announced:
            raised = state.announcing(actor, Intent(run, partition)).raising(actor)
            yield f"announces the move of {partition}", raised.put(actor, "announced")
        else:
            yield (
                f"writes the request for {partition}, which checks the fence",
                self._asked(state.raising(actor), partition, run).put(actor, "follow"),
            )

    def _send(self, state: State, actor: int, run: str) -> Iterator[Step]:
        intent = state.intents[actor]
        assert intent is not None
        if not intent.young:
            yield "sees that it is too late, and sends nothing", state.announcing(actor, None).put(actor, "failed")
        elif state.flying[intent.partition] not in (NOBODY, run) or state.placed[intent.partition]:
            yield "sees that it was moved, and sends nothing", state.announcing(actor, None).put(actor, "failed")
        else:
            asked = self._asked(state, intent.partition, run)
            yield f"asks for the move of {intent.partition}", asked.put(actor, "sent")
            if run == A:
                yield f"asks for the move of {intent.partition}, and its answer is lost", asked.put(actor, "dead")

    def _asked(self, state: State, partition: int, run: str) -> State:
        if run == A and "stop" in state.told:
            state = state._replace(wrong="the stop was told as ended, and A asks for another move")
        return state.under_way(partition, run)

    def _look_again(self, state: State, actor: int, run: str) -> Iterator[Step]:
        intent = state.intents[actor]
        if intent is None or state.fresh[actor]:
            yield "sees that the fence is its own", state.announcing(actor, None).put(actor, "follow")
            return
        taken_back = self._taken_back(state, [intent]).announcing(actor, None)
        if taken_back.flying[intent.partition] == run:
            taken_back = taken_back._replace(wrong="a worker says that it took its move back, and it is under way")
        yield "sees that the fence has risen, and takes its request back", taken_back.put(actor, "failed")

    def _follow(self, state: State, actor: int, run: str) -> Iterator[Step]:
        if not state.flies(run):
            yield "sees that nothing is under way any more", state.put(actor, "look")

    def _give_back(self, state: State, actor: int, run: str) -> Iterator[Step]:
        if state.holder == run:
            yield "gives throttle and lock back", state.given_back(run)._replace(holder=NOBODY).put(actor, "done")

    # Who stops A.

    def _cancel(self, state: State, actor: int) -> Iterator[Step]:
        match state.at[actor]:
            case "begin":
                if state.holder != A:
                    yield "the cancel sees that A has ended", state.put(actor, "ended")
                    return
                yield "the cancel notes itself", state._replace(cancelled=True).put(actor, "raise")
            case "raise":
                after = "take" if "cancel_does_not_wait" in self.faults else "settle"
                yield "the cancel raises the fence", state.raising(actor).put(actor, after)
            case "settle":
                yield from self._wait_in(state, actor, "the cancel", "take", "raise")
            case "take":
                for partition, run in enumerate(state.flying):
                    state = state.under_way(partition, NOBODY) if run == A else state
                yield "the cancel takes back what is under way, and ends", state.telling("cancel").put(actor, "done")

    def _stop(self, state: State, actor: int) -> Iterator[Step]:
        match state.at[actor]:
            case "begin":
                yield "the stop notes itself", state._replace(stopping=True).put(actor, "raise")
            case "raise":
                yield "the stop raises the fence", state.raising(actor).put(actor, "settle")
            case "settle":
                yield from self._wait_in(state, actor, "the stop", "end", "raise")
            case "end":
                yield "the stop ends", state.telling("stop").put(actor, "done")

    def _pause(self, state: State, actor: int) -> Iterator[Step]:
        """A long wait: the throttle is put back until the next request."""
        yield from self._put_back(state, actor, "the pause", suspends=True)

    def _release(self, state: State, actor: int) -> Iterator[Step]:
        yield from self._put_back(state, actor, "the release")
        yield from self._give_lock_back(state, actor, "release")

    def _janitor(self, state: State, actor: int) -> Iterator[Step]:
        """It comes again until nothing of A is left."""
        if not state.gone:
            return
        if state.at[actor] == "kept":
            yield "the janitor comes again", state.put(actor, "begin")
        yield from self._put_back(state, actor, "the janitor")
        yield from self._give_lock_back(state, actor, "janitor")

    def _wait_in(self, state: State, actor: int, who: str, then: str, again: str) -> Iterator[Step]:
        if not state.fresh[actor]:
            yield f"{who} sees that the fence has risen", state.put(actor, again)
        elif (settled := self._settled(state, actor)) is not None:
            yield f"{who} has waited for what was announced", settled.put(actor, then)

    def _put_back(self, state: State, actor: int, who: str, *, suspends: bool = False) -> Iterator[Step]:
        match state.at[actor]:
            case "begin":
                waits = "put_back_does_not_wait" not in self.faults and self.way.is_announced
                yield f"{who} raises the fence", state.raising(actor).put(actor, "settle" if waits else "look")
            case "settle":
                yield from self._wait_in(state, actor, who, "look", "begin")
            case "look":
                if state.lease != A:
                    yield f"{who} finds no throttle of A", state.put(actor, "done" if suspends else "lock")
                elif state.flies(A) and self.way is Way.COPIES and not suspends:
                    for partition, run in enumerate(state.flying):
                        state = state.under_way(partition, NOBODY) if run == A else state
                    yield f"{who} cancels the copies under way", state
                elif state.flies(A):
                    yield f"{who} keeps the throttle of moves under way", state.put(actor, "kept")
                else:
                    yield f"{who} sees nothing under way", state.put(actor, "write")
            case "write":
                if not state.fresh[actor] and "put_back_without_fence" not in self.faults:
                    yield f"{who} sees that the fence has risen", state.put(actor, "begin")
                elif suspends:
                    limited = NOBODY if state.limited == A else state.limited
                    paused = state._replace(suspended=state.lease == A, limited=limited)
                    yield f"{who} puts the throttle back until the next request", paused.put(actor, "done")
                else:
                    yield f"{who} puts the throttle back", state.given_back(A).put(actor, "lock")

    def _give_lock_back(self, state: State, actor: int, end: str) -> Iterator[Step]:
        who = f"the {end}"
        match state.at[actor]:
            case "lock":
                if state.holder != A:
                    yield f"{who} ends", state.telling(end).put(actor, "done")
                    return
                yield f"{who} reads the fence", state.reading_fence(actor).put(actor, "unlock")
            case "unlock":
                if not state.fresh[actor] or state.lease == A:
                    yield f"{who} sees that A goes on, and keeps the lock", state.put(actor, "kept")
                else:
                    free = state._replace(holder=NOBODY).raising(actor)
                    yield f"{who} gives the lock back, and ends", free.telling(end).put(actor, "done")
