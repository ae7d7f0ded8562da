"""What must never happen whichever way a cluster is reached: to throttles, leases and ends.

What holds is read from the world's own attributes, never from the product.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from kafka_rebalance.kafka.throttles import LIST_KEYS, THROTTLE_KEYS
from kafka_rebalance.model.candidate import Move
from support.histories.papers import Key
from support.histories.process import Process
from support.histories.tasks import Tasks
from support.runs.simulated_cluster import RATE

STRANGERS_RATE = "777"


class Now(NamedTuple):
    """A partition as the cluster has it."""

    replicas: tuple[int, ...]
    isr: set[int]
    leader: int
    moves: bool  # as its marks tell


class Verdicts(Tasks, ABC):
    foreign: dict[str, set[tuple[str, str]]]  # entries of lists that are not the runs', by entity
    # With ZooKeeper each write is one transaction with the lock, and configs of dead brokers can be read: no exception.
    writes_with_the_lock = True

    @abstractmethod
    def holder(self) -> str | None: ...

    @abstractmethod
    def live(self) -> set[int]: ...

    @abstractmethod
    def _now(self, key: Key) -> Now: ...

    @abstractmethod
    def _entities(self) -> Collection[str]:
        """`topics/T` and `brokers/N`."""

    @abstractmethod
    def _config(self, entity: str) -> dict[str, str]: ...

    @abstractmethod
    def _copies(self, process: Process, key: Key) -> bool:
        """Whether a new replica of the run's move of this partition is being copied."""

    @abstractmethod
    def _lease_texts(self) -> dict[str, Any]:
        """The lease of each cluster: the latest, of its files and of what the cluster has."""

    def _judge_throttle(
        self, process: Process, entity: str, then: Mapping[str, str], now: Mapping[str, str], said: str
    ) -> None:
        changed = {key for key in {*then, *now} if then.get(key) != now.get(key)}
        holds = self.writes_with_the_lock or self.holder() == process.run
        if process.kind == "hold" and changed and process.run not in self.requested and holds:
            self._judge_papers(process, said)
        assert changed <= set(THROTTLE_KEYS), f"{said}: {changed}"
        for key in changed & set(LIST_KEYS):
            gone = set(split(then.get(key))) - set(split(now.get(key)))
            alien = {text for text in gone if (key, text) in self.foreign.get(entity, ())}
            assert not alien, f"{said}: {alien} of somebody else are gone"
            for text in gone:
                tp = (entity.partition("/")[2], int(text.partition(":")[0]))
                assert not self._copies(process, tp), f"{said}: {text} is gone while {tp} copies"
        for key in changed - set(LIST_KEYS):
            if then.get(key) == STRANGERS_RATE and self.strangers == process.strangers:
                assert now.get(key) == str(RATE), f"{said}: the rate of somebody else is gone"

    def _judge_leases(self, before: dict[str, Any]) -> None:
        """What was there before the throttle is recorded once, or as strangers have set it since, and is never ours."""
        for name, now in self._lease_texts().items():
            then = before.get(name)
            is_open = self.writes_with_the_lock or not now["released_at"]
            if then and not then["released_at"] and then["run"] == now["run"] and is_open:
                for entity, key, value in [(e, k, v) for e, values in now["prior"].items() for k, v in values.items()]:
                    theirs = key not in LIST_KEYS and self.strangers and value in (STRANGERS_RATE, None)
                    prior = then["prior"].get(entity, {})
                    known = prior[key] if self.writes_with_the_lock else prior.get(key, value)
                    anew = then.get("suspended_at") is not None  # nothing of it need stand
                    assert value == known or theirs or anew, f"{now['run']}: what was there before is recorded again"
            for entity, values in now["prior"].items():
                for key, value in values.items():
                    if key in LIST_KEYS:
                        own = {t for t in split(value) if (key, t) not in self.foreign.get(entity, ())}
                        assert not own, f"{now['run']}: {own} of {entity} are our own, not what was there before"
                    else:
                        assert value != str(RATE), f"{now['run']}: {key} of {entity} is our own rate"

    def _judge_success(self, run: str) -> None:
        """A verified end is the approved one."""
        for key, move in self.moves[run].items():
            now = self._now(key)
            assert now.replicas == move.after, f"{run} is verified, and {key} is not there"
            assert now.isr == set(move.after), f"{run} is verified, and {key} is not in sync"
            assert now.leader in self.live()
            assert not now.moves
        if self.holder() != run:
            left = self.own_throttle()
            others = any(lease["run"] != f"kafka_rebalance/{run}" for lease in self._open())
            assert not left or others, f"{run} verified: {left}"

    def _judge_cancelled(self, plan: dict[str, Any]) -> None:
        """What is said to be cancelled is whole: each list the recorded or the approved one, nothing in motion.

        What strangers had moved before it was asked for is not of the plan.
        """
        run = plan["run"].rpartition("/")[2]
        for topic, partition, *_ in plan["moves"]:
            move, now = self.moves[run][topic, partition], self._now((topic, partition))
            there = now.replicas in (move.before, move.after)
            assert there, f"{run} is cancelled, and {topic}-{partition} is at {now.replicas}"
            assert not now.moves
        assert self.holder() != run, f"{run} is cancelled and holds the cluster"

    def _open(self) -> list[Any]:
        return [lease for lease in self._lease_texts().values() if not lease["released_at"]]

    def cared_for(self) -> bool:
        """Whether a lease says whose throttle it is."""
        return bool(self._open())

    def own_throttle(self) -> dict[str, Any]:
        """What is set and is nobody's but the runs'."""
        found: dict[str, Any] = {}
        for entity in self._entities():
            own = {one for one in self._entries(entity) if one not in self.foreign.get(entity, ())}
            own |= {(key, value) for key, value in self._config(entity).items() if value == str(RATE)}
            if own:
                found[entity] = own
        return found

    def _wanted(self, move: Move) -> list[tuple[str, str]]:
        partition = move.topic_partition.partition
        sides = zip(LIST_KEYS, (move.before, move.added), strict=True) if move.added else ()
        return [(key, f"{partition}:{broker}") for key, brokers in sides for broker in brokers]

    def _entries(self, entity: str) -> list[tuple[str, str]]:
        config = self._config(entity)
        return [(key, text) for key in LIST_KEYS for text in split(config.get(key))]


def split(value: str | None) -> list[str]:
    return [text for text in (value or "").split(",") if text]
