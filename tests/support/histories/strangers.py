"""What strangers do to partitions that runs were approved to move, and what time and reviewers do to approvals.

Below 2.4 a tool writes the request znode, from then on it asks the controller through the API.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from kafka_rebalance.model.candidate import Move
from kafka_rebalance.steps.run import checks_before_write
from support.histories.controllers_and_brokers import Others
from support.kafka.controller_model import Key
from support.runs.rebalance_run import POLICY
from support.zookeeper.fake_zookeeper import REASSIGN

PLANNED_UNDER = f"{POLICY}partitions_per_batch: 2\n"
CHANGED = f"{POLICY}partitions_per_batch: 3\n"
YEARS = 1e9  # seconds, after which every approval has expired
STEPS = 40  # in which a move that nothing holds up has ended


class Strangers(Others):
    """A number chooses the partition, and what becomes of it."""

    folder: Path
    monkeypatch: pytest.MonkeyPatch
    later_seconds: float
    policy_versions: int

    def _make_clock(self) -> None:
        """Once for a world: the time at which approvals are looked at."""
        world = self

        class Later(datetime):
            @classmethod
            def now(cls, tz: Any = None) -> Any:
                return datetime.fromtimestamp(datetime.now(tz).timestamp() + world.later_seconds, tz)

        self.monkeypatch.setattr(checks_before_write, "datetime", Later)

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

    def _do_approval_expires(self, number: int) -> bool:
        self.later_seconds = YEARS
        return True

    def _do_policy_changes(self, number: int) -> bool:
        """A reviewed change of the policy, or one that takes it back."""
        self.policy_versions += 1
        self._write_policy()
        return True

    @property
    def policy_changed(self) -> bool:
        return self.policy_versions % 2 == 1

    def _write_policy(self) -> None:
        for path in (self.folder / "policies").glob("*.yaml"):
            path.write_text(CHANGED if self.policy_changed else PLANNED_UNDER)

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
