"""What strangers do to partitions that runs were approved to move.

Below 2.4 a tool writes the request znode, from then on it asks the controller through the API.
"""

from __future__ import annotations

from typing import Any

from kafka_rebalance.model.candidate import Move
from support.histories.controllers_and_brokers import Others
from support.kafka.controller_model import Key
from support.zookeeper.fake_zookeeper import REASSIGN

STEPS = 40  # in which a move that nothing holds up has ended


class Strangers(Others):
    """A number chooses the partition, and what becomes of it."""

    def _do_foreign_moved(self, number: int) -> bool:
        """The same, and it comes to its end before anybody looks."""
        begun = self._do_foreign_move(number)
        for _ in range(STEPS if begun else 0):
            if not (self.act("controller", 1) or self.act("join", 0)):
                break
        return begun

    def _do_foreign_cancel(self, number: int) -> bool:
        """Cancels a move in mid-copy, whoever asked for it."""
        moving = sorted(self.controller.targets)
        if self.version == "2.0" or not moving:
            return False
        self._tell("cancel", moving[number % len(moving)], moving[number % len(moving)])
        return True

    def _approved_partitions(self) -> list[tuple[Key, list[int], Move]]:
        found = []
        for moves in self.moves.values():
            for key, move in sorted(moves.items()):
                if f"/brokers/topics/{key[0]}" in self.fake.znodes:
                    found.append((key, self.cluster.replicas(key[0])[key[1]], move))
        return found

    def _send(self, key: Key, replicas: list[int]) -> bool:
        if self.version != "2.0":
            self._tell("alter", (key, replicas), key)
            return True
        if REASSIGN in self.fake.znodes:
            return False
        entry = {"topic": key[0], "partition": key[1], "replicas": replicas}
        self.fake.put_json(REASSIGN, {"version": 1, "partitions": [entry]})
        self.meddled.add(key)
        self.strangers += 1
        return True

    def _tell(self, event: str, about: Any, key: Key) -> None:
        """Of the controller, and waits for its answer: it has written then what it does."""
        self.controller.tell(event, about)
        while any(waits == event for waits, _ in self.controller.events) or self.controller.work is not None:
            if not self.controller.step():
                break
        self.meddled.add(key)
        self.strangers += 1
