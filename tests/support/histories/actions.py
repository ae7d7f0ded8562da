"""What others do, whichever way a cluster is reached: how an action is chosen, and a move that strangers begin."""

from __future__ import annotations

from abc import ABC, abstractmethod

from kafka_rebalance.model.candidate import Move
from support.histories.papers import Key
from support.histories.process import Process

STEPS = 40  # in which a move that nothing holds up has ended


class Actions(ABC):
    """Each is a method `_do_` of whoever inherits."""

    process: Process | None
    goes_on: tuple[tuple[str, int], ...]  # what carries a move on by one step

    def act(self, what: str, number: int) -> bool:
        """Somebody else does one thing; `number` chooses among what is possible. False where nothing is."""
        outer, self.process = self.process, None
        try:
            return bool(getattr(self, f"_do_{what}")(number))
        finally:
            self.process = outer

    def _do_foreign_move(self, number: int) -> bool:
        """Begins to re-order, extend, make or take back one approved move."""
        found = self._approved_partitions()
        if not found:
            return False
        key, now, move = found[number % len(found)]
        swapped = [*now[1::-1], *now[2:]]
        towards = (swapped, [*move.after, *move.removed], list(move.after), list(move.before))[number // len(found) % 4]
        return towards != now and self._send(key, towards)

    def _do_foreign_moved(self, number: int) -> bool:
        """The same, and it comes to its end before anybody looks."""
        begun = self._do_foreign_move(number)
        for _ in range(STEPS if begun else 0):
            if not any(self.act(what, one) for what, one in self.goes_on):
                break
        return begun

    @abstractmethod
    def _approved_partitions(self) -> list[tuple[Key, list[int], Move]]:
        """(partition, its list now, the approved move of it) of every plan, where the partition exists."""

    @abstractmethod
    def _send(self, key: Key, replicas: list[int]) -> bool:
        """Strangers ask for this list. False where they cannot."""
