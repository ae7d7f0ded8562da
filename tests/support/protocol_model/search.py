"""Breadth-first through every state that the model can come to. The first broken one ends a shortest way."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from support.protocol_model.actors import Protocol
from support.protocol_model.states import State, left_over, problem


@dataclass(frozen=True)
class Found:
    """`way`: the steps to what is broken, the shortest there is; empty if nothing is."""

    states: int
    broken: str = ""
    way: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.broken:
            return f"{self.states:,} states, nothing of Never is broken"
        steps = "\n".join(f"  {number}. {step}" for number, step in enumerate(self.way, 1))
        return f"{self.states:,} states, broken after {len(self.way)} steps: {self.broken}\n{steps}"


def search(protocol: Protocol) -> Found:
    first = protocol.begin()
    came_from: dict[State, tuple[State, str] | None] = {first: None}
    waiting = deque([first])
    while waiting:
        state = waiting.popleft()
        steps = list(protocol.steps(state))
        broken = problem(state) or ("" if steps else left_over(state))
        if broken:
            return Found(len(came_from), broken, _way_to(state, came_from))
        for label, after in steps:
            if after not in came_from:
                came_from[after] = (state, label)
                waiting.append(after)
    return Found(len(came_from))


def _way_to(state: State, came_from: dict[State, tuple[State, str] | None]) -> tuple[str, ...]:
    labels: list[str] = []
    while (step := came_from[state]) is not None:
        state, label = step
        labels.append(label)
    return tuple(reversed(labels))
