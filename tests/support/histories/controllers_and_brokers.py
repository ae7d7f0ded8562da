"""What others do: controllers that come and go, brokers, followers, and strangers with tools of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafka_rebalance.kafka.throttles import LIST_KEYS, THROTTLE_KEYS
from kafka_rebalance.model.candidate import Move
from support.histories.actions import Actions
from support.histories.judge import Judge
from support.histories.verdicts import STRANGERS_RATE, split
from support.kafka.controller_model import DELETIONS, Key, ModelController
from support.runs.simulated_cluster import RACKS
from support.zookeeper.fake_zookeeper import REASSIGN, register


class Others(Actions, Judge):
    """Each action is one that is possible now, chosen by a number."""

    version: str
    zombies: list[ModelController]
    goes_on = (("controller", 1), ("join", 0))

    def _do_controller(self, number: int) -> bool:
        zombie = self.zombies[-1] if self.version == "2.0" and self.zombies and number % 3 == 0 else None
        return (zombie or self.controller).step()

    def _do_failover(self, number: int) -> bool:
        live = sorted(self.live())
        if not live:
            return False
        self.controller.retire()
        self.zombies.append(self.controller)
        epoch = int(self.fake.znodes["/controller_epoch"].data) + 1
        self.fake.set("/controller_epoch", str(epoch).encode())
        document = {"version": 1, "brokerid": live[number % len(live)], "timestamp": "1529210278988"}
        self.fake.put_json("/controller", document, ephemeral=True)
        self.controller = ModelController(self.fake, self.version)
        return True

    def _do_down(self, number: int) -> bool:
        live = sorted(self.live())
        if len(live) < 3:
            return False
        broker = live[number % len(live)]
        self.fake.delete(f"/brokers/ids/{broker}")
        self.controller.tell("down", broker)
        if self.fake.json("/controller")["brokerid"] == broker:
            self._do_failover(number)
        return True

    def _do_up(self, number: int) -> bool:
        away = sorted(set(RACKS) - self.live())
        if away:
            register(self.fake, away[number % len(away)], RACKS[away[number % len(away)]])
            self.controller.tell("up", away[number % len(away)])
        return bool(away)

    def _states(self) -> list[tuple[Key, str, Any, list[int]]]:
        found = []
        for topic in self.fake.get_children("/brokers/topics"):
            for partition, replicas in self.cluster.replicas(topic).items():
                path = f"/brokers/topics/{topic}/partitions/{partition}/state"
                if path in self.fake.znodes:
                    found.append(((topic, partition), path, self.fake.json(path), replicas))
        return found

    def _do_join(self, number: int) -> bool:
        """A follower has caught up."""
        live = self.live()
        able = [
            (path, state, broker)
            for key, path, state, replicas in self._states()
            for broker in replicas
            if broker in live and broker not in state["isr"] and state["leader"] in live
            if not self._is_leaving(key, broker, state["isr"])
        ]
        if able:
            path, state, broker = able[number % len(able)]
            self.fake.put_json(path, {**state, "isr": [*state["isr"], broker]})
        return bool(able)

    def _is_leaving(self, key: Key, broker: int, isr: Sequence[int]) -> bool:
        """Whether the controller has stopped this replica, or is about to: it does not come back."""
        target = self.controller.targets.get(key)
        return target is not None and broker not in target and set(target) <= set(isr)

    def _do_shrink(self, number: int) -> bool:
        """A follower has fallen behind."""
        able = [
            (path, state, broker)
            for _, path, state, _ in self._states()
            for broker in state["isr"]
            if broker != state["leader"] and state["leader"] in self.live()
        ]
        if able:
            path, state, broker = able[number % len(able)]
            self.fake.put_json(path, {**state, "isr": [other for other in state["isr"] if other != broker]})
        return bool(able)

    def _do_foreign_request(self, number: int) -> bool:
        """Another tool moves a partition."""
        if REASSIGN in self.fake.znodes:
            return False
        states = self._states()
        if not states:
            return False
        (topic, partition), *_ = states[number % len(states)]
        replicas = [[1, 3], [4, 2], [2, 4]][number % 3]
        entry = {"topic": topic, "partition": partition, "replicas": replicas}
        self.fake.put_json(REASSIGN, {"version": 1, "partitions": [entry]})
        self.meddled.add((topic, partition))
        self.strangers += 1
        return True

    def _do_foreign_delete(self, number: int) -> bool:
        """Somebody deletes the request, which cancels nothing."""
        if REASSIGN not in self.fake.znodes:
            return False
        self.meddled |= self._named(REASSIGN)
        self.fake.delete(REASSIGN)
        self.strangers += 1
        return True

    def _do_foreign_throttle(self, number: int) -> bool:
        """Somebody sets, adds to or removes a throttle."""
        entities = self._entities()
        if not entities:
            return False
        entity = entities[number % len(entities)]
        config = self.cluster.config(entity)
        if entity.startswith("brokers/"):
            key = THROTTLE_KEYS[2 + number % 2]
            config[key] = STRANGERS_RATE
            if number % 5 == 0:
                del config[key]
        else:
            key = LIST_KEYS[number % 2]
            text = f"9:{number % 4}"
            entries = [*split(config.get(key)), text] if number % 3 else [text]
            config[key] = ",".join(dict.fromkeys(entries))
            self.foreign.setdefault(entity, set()).add((key, text))
        self.fake.put_json(f"/config/{entity}", {"version": 1, "config": config})
        self.strangers += 1
        return True

    def _do_delete_topic(self, number: int) -> bool:
        topics = self.fake.get_children("/brokers/topics")
        if not topics or number % 4:
            return False
        topic = topics[number % len(topics)]
        if f"{DELETIONS}/{topic}" in self.fake.znodes:
            return False
        self.fake.create(f"{DELETIONS}/{topic}")
        self.strangers += 1
        return True

    # What strangers do to partitions that runs were approved to move: below 2.4 a tool writes the request znode, from
    # then on it asks the controller through the API.

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
