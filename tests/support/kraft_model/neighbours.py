"""What others do: controllers that come and go, brokers, followers, and strangers with tools of their own."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from kafka_rebalance.kafka.throttles import LIST_KEYS, THROTTLE_KEYS
from kafka_rebalance.model.candidate import Move
from support.histories.actions import Actions
from support.histories.judge import STRANGERS_RATE
from support.histories.papers import Key
from support.kraft_model.cluster_metadata import Partition, Refused
from support.kraft_model.model_controller import APPEND, DELETE, SET, Operation
from support.kraft_model.model_judge import ModelJudge

SESSION_SECONDS = 9.0  # broker.session.timeout.ms
STEPS = 40  # in which a move that nothing holds up has ended


class Neighbours(Actions, ModelJudge):
    """Each action is one that is possible now, chosen by a number."""

    def _do_controller(self, number: int) -> bool:
        """Some brokers hear what the controller has written."""
        live = sorted(self.live())
        return self.controller.hear(1 + number % 3, live if number % 2 else live[number % len(live) :])

    def _do_failover(self, number: int) -> bool:
        """The quorum elects another leader, now and then after minutes."""
        self.seconds += (2.0, 2.0, 6.0, 700.0)[number % 4]
        self.controller.fail_over()
        return True

    def _do_down(self, number: int) -> bool:
        live = sorted(self.live())
        if len(live) < 3:
            return False
        self.seconds += SESSION_SECONDS
        self.controller.fence(live[number % len(live)])
        return True

    def _do_up(self, number: int) -> bool:
        away = sorted(self.controller.image.fenced)
        if away:
            self.controller.unfence(away[number % len(away)])
        return bool(away)

    def _states(self) -> list[tuple[Key, Partition]]:
        return sorted(self.controller.image.partitions.items())

    def _do_join(self, number: int) -> bool:
        """A follower has caught up."""
        live = self.live()
        able = [
            (key, broker)
            for key, one in self._states()
            for broker in one.replicas
            if broker in live and broker not in one.isr and one.leader in live
        ]
        return bool(able) and self.controller.join(*able[number % len(able)])

    def _do_shrink(self, number: int) -> bool:
        """A follower has fallen behind."""
        live = self.live()
        able = [
            (key, broker)
            for key, one in self._states()
            for broker in one.isr
            if broker != one.leader and one.leader in live
        ]
        return bool(able) and self.controller.shrink(*able[number % len(able)])

    # Strangers.

    def _do_foreign_request(self, number: int) -> bool:
        """Another tool moves a partition."""
        states = self._states()
        if not states:
            return False
        return self._send(states[number % len(states)][0], ([1, 3], [4, 2], [2, 4])[number % 3])

    def _do_foreign_delete(self, number: int) -> bool:
        """Somebody cancels every move in flight."""
        moving = sorted(self.controller.targets)
        for key in moving:
            self._send(key, None)
        return bool(moving)

    def _do_foreign_cancel(self, number: int) -> bool:
        moving = sorted(self.controller.targets)
        return bool(moving) and self._send(moving[number % len(moving)], None)

    def _do_foreign_moved(self, number: int) -> bool:
        """The same, and it comes to its end before anybody looks."""
        begun = self._do_foreign_move(number)
        for _ in range(STEPS if begun else 0):
            if not self.act("join", 0):
                break
        return begun

    def _approved_partitions(self) -> list[tuple[Key, list[int], Move]]:
        lists = self.controller.image.partitions
        return [
            (key, list(lists[key].replicas), move)
            for moves in self.moves.values()
            for key, move in sorted(moves.items())
            if key in lists
        ]

    def _send(self, key: Key, replicas: Sequence[int] | None) -> bool:
        with suppress(Refused):
            self.controller.alter(key, replicas)
            self.meddled.add(key)
            self.strangers += 1
            return True
        return False

    def _do_foreign_throttle(self, number: int) -> bool:
        """Somebody sets, adds to or removes a throttle."""
        image = self.controller.image
        entities = [
            *(f"brokers/{one}" for one in sorted(image.live)),
            *(f"topics/{one}" for one in sorted(image.topics)),
        ]
        entity = entities[number % len(entities)]
        if entity.startswith("brokers/"):
            key = THROTTLE_KEYS[2 + number % 2]
            change: Operation = (key, DELETE, None) if number % 5 == 0 else (key, SET, STRANGERS_RATE)
        else:
            key, text = LIST_KEYS[number % 2], f"9:{number % 4}"
            change = (key, APPEND if number % 3 else SET, text)
            self.foreign.setdefault(entity, set()).add((key, text))
        self.controller.change_config(entity, [change])
        self.strangers += 1
        return True

    def _do_delete_topic(self, number: int) -> bool:
        topics = sorted(self.controller.image.topics)
        if not topics or number % 4:
            return False
        self.controller.delete_topic(topics[number % len(topics)])
        self.strangers += 1
        return True
