"""A model of Kafka's controller over a ZooKeeper in memory, one write at a time, with what it forgets when it fails.

Each event of its queue is worked off as the real one does it (KafkaController, 2.0 and 2.8), and may be broken off
between any two writes. Watches are ZooKeeper's: they fire once, so only the creation of a request that is waited for is
seen. The recordings in `data/moves` hold it against real controllers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from support.zookeeper.fake_zookeeper import ELECTION, REASSIGN, FakeZooKeeper

Key = tuple[str, int]
DELETIONS = "/admin/delete_topics"


class ModelController:
    """`step()` makes its next write. `ordered` chooses the order in which it takes what has none."""

    def __init__(
        self,
        fake: FakeZooKeeper,
        version: str,
        ordered: Callable[[Sequence[Any]], Sequence[Any]] = lambda several: several,
    ) -> None:
        self.fake, self.marks, self.ordered = fake, version != "2.0", ordered
        self.targets: dict[Key, list[int]] = {}
        self.origins: dict[Key, list[int]] = {}
        self.waits_for: set[str] = set()  # paths whose creation it is told of
        self.active = True
        self.events: deque[tuple[str, Any]] = deque([("start", None)])
        self.work: Iterator[tuple[str, str, Any]] | None = None
        self.next: tuple[str, str, Any] | None = None  # the write it is about to make: call, path, content
        self.writing = False
        fake.after_write.append(self._watch)

    def retire(self) -> None:
        """Another one has been elected: nothing reaches this one any more, and what it was doing it may still do."""
        self.active = False
        self.events.clear()
        self.fake.after_write.remove(self._watch)

    def tell(self, event: str, about: Any = None) -> None:
        """Of a broker that came ("up") or went ("down")."""
        self.events.append((event, about))

    def peek(self) -> tuple[str, str, Any] | None:
        """The write it makes next, None where it has nothing to do."""
        while self.next is None:
            if self.work is None:
                if not self.events:
                    return None
                self.work = self._handle(*self.events.popleft())
            self.next = next(self.work, None)
            if self.next is None:
                self.work = None
        return self.next

    def step(self) -> bool:
        """Makes that write; False where there was none to make. What is gone meanwhile is not written."""
        write = self.peek()
        if write is None:
            return False
        call, path, content = write
        self.next = None
        self.writing = True
        try:
            if call == "delete":
                if path in self.fake.znodes:
                    self.fake.delete(path, recursive=True)
            elif path in self.fake.znodes or path == REASSIGN:
                self.fake.put_json(path, content)
        finally:
            self.writing = False
        return True

    def _watch(self, call: str, path: str) -> None:
        if path in self.waits_for:
            self.waits_for.discard(path)
            if call == "create":
                self.events.append(("request" if path == REASSIGN else "election", None))
        parts = path.split("/")
        if path.endswith("/state") and not self.writing:
            key = (parts[3], int(parts[5]))
            if key in self.targets:
                self.events.append(("isr", key))
        if call == "create" and path.startswith(f"{DELETIONS}/"):
            self.events.append(("deletion", parts[-1]))

    def _handle(self, event: str, about: Any) -> Iterator[tuple[str, str, Any]]:
        match event:
            case "start":
                yield from self._start()
            case "request":
                yield from self._request()
            case "election":
                yield from self._elect()
            case "isr" if about in self.targets and self._complete(about):
                yield from self._advance(about)
            case "cancel" if about in self.targets:
                yield from self._cancel(about)
            case "alter":
                yield from self._alter(*about)
            case "up" | "down":
                yield from self._brokers(event, about)
            case "deletion":
                yield from self._delete(about)

    # What it does on each event.

    def _start(self) -> Iterator[tuple[str, str, Any]]:
        """All that is known is what the znodes say."""
        for key in self._all():
            document = self._topic(key)
            gone = document.get("removing_replicas", {}).get(str(key[1]), [])
            new = document.get("adding_replicas", {}).get(str(key[1]), [])
            if gone or new:
                lists = document["partitions"][str(key[1])]
                self.targets[key] = [broker for broker in lists if broker not in gone]
                self.origins[key] = [broker for broker in lists if broker not in new]
        resumed = list(self.targets)
        yield from self._leaders()
        yield from self._elect()
        named = yield from self._request()
        for key in resumed:
            if key in self.targets and key not in named:
                yield from self._advance(key)
        for topic in list(self.fake.get_children(DELETIONS)):
            yield from self._delete(topic)

    def _request(self) -> Any:
        """Takes up the znode; the partitions it named."""
        self.waits_for.add(REASSIGN)
        if REASSIGN not in self.fake.znodes:
            return set()
        asked = {(e["topic"], e["partition"]): e["replicas"] for e in self.fake.json(REASSIGN)["partitions"]}
        done: list[Key] = []
        if not self.marks:
            self.targets |= asked
            for key in asked:
                self.origins[key] = self._replicas(key) or []
        for key in self.ordered(list(asked)):
            now = self._replicas(key)
            deleted = key[0] in self.fake.get_children(DELETIONS)
            if now is None or deleted or (not self.marks and now == asked[key]):
                done.append(key)
                continue
            if self.marks:
                # A request replaces one that runs: it starts from what was there before that.
                self.origins[key] = self.origins.get(key, now)
                self.targets[key] = asked[key]
            yield from self._advance(key)
        if not self.marks or done:
            yield from self._settle(done, asked)
        return set(asked)

    def _advance(self, key: Key) -> Iterator[tuple[str, str, Any]]:
        """onPartitionReassignment: to the union, or where the target is in sync, to the end."""
        if self._replicas(key) is None or not self._has_state(key):
            yield from self._settle([key], {})
            return
        target, origin = self.targets[key], self.origins[key]
        new = [broker for broker in target if broker not in origin]
        gone = [broker for broker in origin if broker not in target]
        if self.marks and self._list(key) != ([*target, *gone], new, gone):
            yield self._write_list(key, [*target, *gone], new, gone)
        if not self._complete(key):
            if not self.marks:
                yield self._write_list(key, [*target, *gone], [], [])
            yield self._state(key)
            return
        state = self.fake.json(self._state_path(key))
        if state["leader"] in target and state["leader"] in self._live():
            yield self._state(key)
        else:
            leaders = [broker for broker in target if broker in self._live() and broker in state["isr"]]
            if not leaders:
                return
            yield self._state(key, leader=leaders[0])
        for broker in self.ordered([broker for broker in state["isr"] if broker in gone]):
            yield self._state(key, leaves=broker)
        yield self._write_list(key, target, [], [])
        yield from self._settle([key], {key: target})

    def _cancel(self, key: Key) -> Iterator[tuple[str, str, Any]]:
        """AlterPartitionReassignments with None (2.4+): back to the list without what was added, in its order."""
        replicas, new, _ = self._list(key)
        back = [broker for broker in replicas if broker not in new]
        yield from self._settle([key], {})
        yield self._write_list(key, back, [], [])
        state = self.fake.json(self._state_path(key))
        if state["leader"] not in back or state["leader"] not in self._live():
            leaders = [broker for broker in back if broker in self._live() and broker in state["isr"]]
            if not leaders:
                return
            yield self._state(key, leader=leaders[0])
        for broker in self.ordered([broker for broker in state["isr"] if broker not in back]):
            yield self._state(key, leaves=broker)

    def _alter(self, key: Key, target: list[int]) -> Iterator[tuple[str, str, Any]]:
        """AlterPartitionReassignments with a target (2.4+): it takes the place of whatever runs, and of its request."""
        now = self._replicas(key)
        if now is None or not self._has_state(key) or (key not in self.targets and now == target):
            return
        origin = self.origins.get(key, now)
        yield from self._settle([key], {})
        self.targets[key], self.origins[key] = target, origin
        for broker in [
            broker for broker in self.fake.json(self._state_path(key))["isr"] if broker not in {*origin, *target}
        ]:
            yield self._state(key, leaves=broker)  # of a copy that is not wanted any more
        yield from self._advance(key)

    def _settle(self, done: Sequence[Key], asked: dict[Key, list[int]]) -> Iterator[tuple[str, str, Any]]:
        """Takes what is over out of its memory and out of the znode, which goes when it is empty."""
        for key in done:
            self.targets.pop(key, None)
            self.origins.pop(key, None)
        if self.marks:
            if REASSIGN not in self.fake.znodes:
                return
            listed = [((e["topic"], e["partition"]), e["replicas"]) for e in self.fake.json(REASSIGN)["partitions"]]
            left = [(key, r) for key, r in listed if not (key in done and asked.get(key, r) == r)]
            if len(left) == len(listed):
                return
        else:
            left = list(self.targets.items())
        if left:
            entries = [{"topic": t, "partition": p, "replicas": replicas} for (t, p), replicas in left]
            yield "set", REASSIGN, {"version": 1, "partitions": entries}
        else:
            if REASSIGN in self.fake.znodes:
                yield "delete", REASSIGN, None
            self.events.append(("request", None))

    def _elect(self) -> Iterator[tuple[str, str, Any]]:
        self.waits_for.add(ELECTION)
        if ELECTION not in self.fake.znodes:
            return
        for entry in self.fake.json(ELECTION)["partitions"]:
            key = (entry["topic"], entry["partition"])
            replicas = self._replicas(key)
            if replicas and self._has_state(key):
                state = self.fake.json(self._state_path(key))
                first = replicas[0]
                if state["leader"] != first and first in state["isr"] and first in self._live():
                    yield self._state(key, leader=first)
        yield "delete", ELECTION, None
        self.events.append(("election", None))

    def _brokers(self, event: str, broker: int) -> Iterator[tuple[str, str, Any]]:
        yield from self._leaders()
        if event == "up":
            for key in [key for key, target in self.targets.items() if broker in target]:
                if key in self.targets:
                    yield from self._advance(key)
            for topic in list(self.fake.get_children(DELETIONS)):
                yield from self._delete(topic)

    def _leaders(self) -> Iterator[tuple[str, str, Any]]:
        """A leader for each partition whose leader is gone; what is down leaves the ISR, the last one excepted."""
        for key in self._all():
            if not self._has_state(key):
                continue
            state, live = self.fake.json(self._state_path(key)), self._live()
            remaining = [broker for broker in state["isr"] if broker in live]
            if remaining and (state["leader"] not in live or remaining != state["isr"]):
                leader = state["leader"] if state["leader"] in live else remaining[0]
                yield self._written(key, {**state, "leader": leader, "isr": remaining})
            elif not remaining and state["leader"] != -1:
                yield self._written(key, {**state, "leader": -1})

    def _delete(self, topic: str) -> Iterator[tuple[str, str, Any]]:
        """A deletion that waits until every replica is up; moves of the topic are forgotten."""
        held = [broker for key in self._all() if key[0] == topic for broker in self._replicas(key) or ()]
        if not set(held) <= set(self._live()):
            return
        moved = [key for key in self.targets if key[0] == topic]
        yield "delete", f"/brokers/topics/{topic}", None
        yield "delete", f"/config/topics/{topic}", None
        yield "delete", f"{DELETIONS}/{topic}", None
        if moved:
            yield from self._settle(moved, {})

    # What it reads and writes.

    def _all(self) -> list[Key]:
        topics = self.fake.get_children("/brokers/topics")
        return [(t, int(p)) for t in topics for p in self.fake.json(f"/brokers/topics/{t}")["partitions"]]

    def _live(self) -> list[int]:
        return [int(name) for name in self.fake.get_children("/brokers/ids")]

    def _complete(self, key: Key) -> bool:
        isr = self.fake.json(self._state_path(key))["isr"] if self._has_state(key) else []
        return set(self.targets[key]) <= set(isr)

    def _topic(self, key: Key) -> Any:
        path = f"/brokers/topics/{key[0]}"
        return self.fake.json(path) if path in self.fake.znodes else {"partitions": {}}

    def _replicas(self, key: Key) -> list[int] | None:
        found: list[int] | None = self._topic(key)["partitions"].get(str(key[1]))
        return found

    def _list(self, key: Key) -> tuple[Any, ...]:
        document, partition = self._topic(key), str(key[1])
        names = ("partitions", "adding_replicas", "removing_replicas")
        return tuple(document.get(name, {}).get(partition, []) for name in names)

    def _state_path(self, key: Key) -> str:
        return f"/brokers/topics/{key[0]}/partitions/{key[1]}/state"

    def _has_state(self, key: Key) -> bool:
        return self._state_path(key) in self.fake.znodes

    def _write_list(self, key: Key, replicas: list[int], new: list[int], gone: list[int]) -> tuple[str, str, Any]:
        document, partition = self._topic(key), str(key[1])
        document["partitions"][partition] = replicas
        if self.marks:
            for name, brokers in (("adding_replicas", new), ("removing_replicas", gone)):
                document.setdefault(name, {}).pop(partition, None)
                if brokers:
                    document[name][partition] = brokers
        return "set", f"/brokers/topics/{key[0]}", document

    def _state(self, key: Key, *, leader: int | None = None, leaves: int | None = None) -> tuple[str, str, Any]:
        state = self.fake.json(self._state_path(key)) if self._has_state(key) else {}
        if leader is not None:
            state["leader"] = leader
        if leaves is not None:
            state["isr"] = [broker for broker in state["isr"] if broker != leaves]
        return self._written(key, state)

    def _written(self, key: Key, state: dict[str, Any]) -> tuple[str, str, Any]:
        return "set", self._state_path(key), {**state, "leader_epoch": state.get("leader_epoch", 0) + 1}
