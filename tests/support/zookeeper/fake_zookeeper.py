"""ZooKeeper in memory, with the part of kazoo's client that this project uses, and a simulated Kafka controller.

`FakeZooKeeper` raises kazoo's own errors and counts versions and zxids as ZooKeeper does. `fail_next` makes a call
lose its connection before or after it took effect. `SimulatedController` is a simulation: what it does was observed
on 2.0.1 and 2.8.2, one visible stage of one partition at a time. Integration tests hold both against the real thing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

from kazoo.exceptions import BadVersionError, ConnectionLoss, NodeExistsError, NoNodeError, NotEmptyError
from kazoo.security import ACL, OPEN_ACL_UNSAFE

from support.zookeeper.fake_transaction import FakeTransaction

ELECTION = "/admin/preferred_replica_election"
REASSIGN = "/admin/reassign_partitions"
# What every healthy cluster has even when it is empty (Kafka's ZkData.PersistentZkPaths).
SKELETON = (
    "/admin/delete_topics",
    "/brokers/ids",
    "/brokers/topics",
    "/cluster",
    "/config/brokers",
    "/config/changes",
    "/config/topics",
)


@dataclass
class Znode:
    data: bytes
    czxid: int
    mzxid: int
    acl: list[ACL]
    version: int = 0
    owner: int = 0
    created: int = 0  # sequential children made below it
    # Not shown, because plans are kept for clusters that look alike (`simulated_cluster`).
    mtime: int = field(default_factory=lambda: int(time.time() * 1000), repr=False)


@dataclass
class Answer:
    """kazoo's IAsyncResult of a call that has ended."""

    call: Callable[[], Any]

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        return self.call()


@dataclass
class FakeZooKeeper:
    znodes: dict[str, Znode] = field(default_factory=dict)
    zxid: int = 0
    chroot: str = ""
    hosts: tuple[tuple[str, int], ...] = (("fake", 2181),)
    writes: list[tuple[str, str]] = field(default_factory=list)  # (create|set|delete, path), in order
    reads: list[tuple[str, str]] = field(default_factory=list)  # (sync|exists|get|get_children|get_acls, path)
    after_write: list[Callable[[str, str], None]] = field(default_factory=list)
    _failures: list[tuple[str, str, bool, BaseException]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.znodes.setdefault("/", Znode(b"", 0, 0, list(OPEN_ACL_UNSAFE)))

    def copied(self) -> dict[str, Znode]:
        """The znodes as they are now."""
        return {path: replace(znode) for path, znode in self.znodes.items()}

    def fail_next(self, call: str, path: str, *, took_effect: bool, error: BaseException | None = None) -> None:
        """The next `call` ("create", "set", "get", ...) on this path fails, with or without having taken effect.

        "commit": the next transaction that names this path.
        """
        self._failures.append((call, path, took_effect, error or ConnectionLoss()))

    def __getattr__(self, name: str) -> Any:
        if not name.endswith("_async") or name.startswith("_"):
            raise AttributeError(name)
        call = getattr(self, name.removesuffix("_async"))
        return lambda *args, **kwargs: Answer(lambda: call(*args, **kwargs))

    def _call(self, name: str, path: str, act: Callable[[], Any]) -> Any:
        for failure in self._failures:
            call, failing_path, took_effect, error = failure
            if (call, failing_path) == (name, path):
                self._failures.remove(failure)
                if took_effect:
                    self._act(name, path, act)
                raise error
        return self._act(name, path, act)

    def _act(self, name: str, path: str, act: Callable[[], Any]) -> Any:
        if name in ("sync", "exists", "get", "get_children", "get_acls"):
            self.reads.append((name, path))
        result = act()
        if name in ("create", "set", "delete"):
            self.writes.append((name, path))
            for listener in list(self.after_write):
                listener(name, path)
        return result

    def _znode(self, path: str) -> Znode:
        if path not in self.znodes:
            raise NoNodeError(path)
        return self.znodes[path]

    def _stat(self, path: str) -> SimpleNamespace:
        znode = self._znode(path)
        names = ("version", "czxid", "mzxid", "mtime")
        return SimpleNamespace(ephemeralOwner=znode.owner, **{name: getattr(znode, name) for name in names})

    def sync(self, path: str) -> str:
        return self._call("sync", path, lambda: path)

    def exists(self, path: str) -> SimpleNamespace | None:
        return self._call("exists", path, lambda: self._stat(path) if path in self.znodes else None)

    def get(self, path: str) -> tuple[bytes, SimpleNamespace]:
        return self._call("get", path, lambda: (self._znode(path).data, self._stat(path)))

    def get_acls(self, path: str) -> tuple[list[ACL], SimpleNamespace]:
        return self._call("get_acls", path, lambda: (self._znode(path).acl, self._stat(path)))

    def get_children(self, path: str) -> list[str]:
        return self._call("get_children", path, lambda: self._children(path))

    def _children(self, path: str) -> list[str]:
        self._znode(path)
        parent = path.rstrip("/") + "/"
        return [
            name[len(parent) :] for name in self.znodes if name.startswith(parent) and "/" not in name[len(parent) :]
        ]

    def create(
        self,
        path: str,
        value: bytes = b"",
        acl: Iterable[ACL] | None = None,
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        makepath: bool = False,
    ) -> str:
        """`ephemeral` only gives the znode an owner: there are no sessions that could end."""

        def act() -> str:
            parent = path.rpartition("/")[0] or "/"
            if makepath and parent not in self.znodes:
                self.create(parent, makepath=True)
            return self._create(path, value, acl, owner=1 if ephemeral else 0, sequence=sequence)

        return self._call("create", path, act)

    def _create(self, path: str, value: bytes, acl: Iterable[ACL] | None, *, owner: int = 0, sequence: bool) -> str:
        above = self._znode(path.rpartition("/")[0] or "/")
        full = f"{path}{above.created:010d}" if sequence else path
        if full in self.znodes:
            raise NodeExistsError(full)
        above.created += 1
        self.zxid += 1
        rights = list(acl) if acl else list(OPEN_ACL_UNSAFE)
        self.znodes[full] = Znode(value, self.zxid, self.zxid, rights, owner=owner)
        return full

    def _versioned(self, path: str, version: int) -> Znode:
        znode = self._znode(path)
        if version not in (-1, znode.version):
            raise BadVersionError(path)
        return znode

    def set(self, path: str, value: bytes, version: int = -1) -> None:
        self._call("set", path, lambda: self._set(path, value, version))

    def _set(self, path: str, value: bytes, version: int) -> None:
        znode = self._versioned(path, version)
        self.zxid += 1
        znode.data, znode.version, znode.mzxid = value, znode.version + 1, self.zxid
        znode.mtime = int(time.time() * 1000)

    def delete(self, path: str, version: int = -1, recursive: bool = False) -> None:
        def act() -> None:
            self._versioned(path, version)
            children = [name for name in self.znodes if name.startswith(path + "/")]
            if children and not recursive:
                raise NotEmptyError(path)
            for name in (*children, path):
                del self.znodes[name]

        self._call("delete", path, act)

    def transaction(self) -> FakeTransaction:
        return FakeTransaction(self)

    # What tests put there and look at.

    def put_json(self, path: str, document: object, *, ephemeral: bool = False) -> None:
        """Creates or replaces a znode as a broker or the controller would."""
        data = json.dumps(document, separators=(",", ":")).encode()
        if path in self.znodes:
            self.set(path, data)
        else:
            self.create(path, data, ephemeral=ephemeral, makepath=True)

    def json(self, path: str) -> Any:
        return json.loads(self._znode(path).data)


def fake_cluster(
    topics: Mapping[str, Mapping[int, Sequence[int]]],
    *,
    brokers: Mapping[int, str | None] | int = 4,
    version: str = "2.8",
) -> FakeZooKeeper:
    """A healthy cluster: brokers (`{id: rack}` or how many, from 1, without racks), controller 1, topics led by
    their first replica with every replica in sync."""
    fake = FakeZooKeeper()
    for path in SKELETON:
        fake.create(path, makepath=True)
    fake.put_json("/cluster/id", {"version": "1", "id": "simulated-cluster-0001"})
    fake.create("/controller_epoch", b"1")
    racks = dict.fromkeys(range(1, brokers + 1)) if isinstance(brokers, int) else brokers
    for broker, rack in racks.items():
        register(fake, broker, rack)
    controller = {"version": 1, "brokerid": min(racks), "timestamp": "1529210278988"}
    fake.put_json("/controller", controller, ephemeral=True)
    for topic, partitions in topics.items():
        put_topic(fake, topic, partitions, version=version)
    fake.writes.clear()
    return fake


def register(fake: FakeZooKeeper, broker: int, rack: str | None = None) -> None:
    """Registers a broker as version 4 does."""
    fake.put_json(
        f"/brokers/ids/{broker}",
        {
            "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
            "endpoints": [f"PLAINTEXT://broker{broker}:9092"],
            **({"rack": rack} if rack is not None else {}),
            "jmx_port": -1,
            "host": f"broker{broker}",
            "timestamp": "1529210278988",
            "port": 9092,
            "version": 4,
        },
        ephemeral=True,
    )


def put_topic(
    fake: FakeZooKeeper, topic: str, partitions: Mapping[int, Sequence[int]], *, version: str = "2.8"
) -> None:
    """Config, assignment, and a state for each partition."""
    fake.put_json(f"/config/topics/{topic}", {"version": 1, "config": {}})
    document = {"version": 1, "partitions": {str(p): list(replicas) for p, replicas in partitions.items()}}
    if version != "2.0":
        topic_id = f"{topic:A<22}"[:22]
        document |= {"version": 3, "topic_id": topic_id, "adding_replicas": {}, "removing_replicas": {}}
    fake.put_json(f"/brokers/topics/{topic}", document)
    for partition, replicas in partitions.items():
        state = {"version": 1, "leader": replicas[0], "leader_epoch": 0, "controller_epoch": 1, "isr": list(replicas)}
        fake.put_json(f"/brokers/topics/{topic}/partitions/{partition}/state", state)


@dataclass
class SimulatedController:
    """Honours reassignment and election znodes one stage of one partition a `step()`; version "2.0" or "2.8".

    Stages of a move: union list (with adding/removing on 2.8) -> new replicas join the ISR -> leader and ISR of the
    target -> target list -> entry gone. A move waits at the union while one of its targets is not registered.
    """

    fake: FakeZooKeeper
    version: str = "2.8"
    dropped: list[tuple[str, int]] = field(default_factory=list)  # refused without an error, as the real one does
    _targets: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    _origins: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    _taken: int | None = None  # czxid of the reassignment znode taken up

    def step(self) -> bool:
        """One stage of every partition in motion; False where there was nothing to do."""
        elected = self._elect()
        if REASSIGN in self.fake.znodes and self.fake.znodes[REASSIGN].czxid != self._taken:
            self._take_up()
            return True
        moved = [self._advance(key) for key in list(self._targets)]
        return elected or any(moved)

    def run(self, steps: int = 50) -> None:
        """Steps until nothing is left to do."""
        for _ in range(steps):
            if not self.step():
                return
        raise AssertionError(f"the simulated controller is still busy after {steps} steps")

    def _take_up(self) -> None:
        self._taken = self.fake.znodes[REASSIGN].czxid
        for entry in self.fake.json(REASSIGN)["partitions"]:
            key, target = (entry["topic"], entry["partition"]), entry["replicas"]
            current = self._replicas(key)
            if current is None or current == target:
                self.dropped.append(key)
                continue
            self._targets[key], self._origins[key] = target, current
            if not set(target) <= set(current):
                union = [*target, *(broker for broker in current if broker not in target)]
                self._write_topic(key, union, adding=[b for b in target if b not in current])
        self._rewrite_request()

    def _advance(self, key: tuple[str, int]) -> bool:
        target, origin, state_path = self._targets[key], self._origins[key], self._state_path(key)
        if self._replicas(key) is None:  # its topic was deleted in the middle of the move
            del self._targets[key], self._origins[key]
            self._rewrite_request()
            return True
        state = self.fake.json(state_path)
        live = {int(name) for name in self.fake.get_children("/brokers/ids")}
        if not set(target) <= live:
            return False
        missing = [broker for broker in target if broker not in state["isr"]]
        if missing:
            self.fake.put_json(state_path, {**state, "isr": [*state["isr"], missing[0]]})
        elif state["leader"] not in target or set(state["isr"]) != set(target):
            leader = state["leader"] if state["leader"] in target else target[0]
            epoch = state["leader_epoch"] + 1
            self.fake.put_json(state_path, {**state, "leader": leader, "leader_epoch": epoch, "isr": target})
        else:
            assert origin != target
            self._write_topic(key, target, adding=[])
            del self._targets[key], self._origins[key]
            self._rewrite_request()
        return True

    def _rewrite_request(self) -> None:
        if REASSIGN not in self.fake.znodes:
            return
        if not self._targets:
            self.fake.delete(REASSIGN)
        elif self.version == "2.0":
            entries = [{"topic": t, "partition": p, "replicas": r} for (t, p), r in self._targets.items()]
            self.fake.put_json(REASSIGN, {"version": 1, "partitions": entries})

    def _elect(self) -> bool:
        if ELECTION not in self.fake.znodes:
            return False
        for entry in self.fake.json(ELECTION)["partitions"]:
            key = (entry["topic"], entry["partition"])
            replicas, state = self._replicas(key), self.fake.json(self._state_path(key))
            if replicas and replicas[0] in state["isr"] and state["leader"] != replicas[0]:
                epoch = state["leader_epoch"] + 1
                self.fake.put_json(self._state_path(key), {**state, "leader": replicas[0], "leader_epoch": epoch})
        self.fake.delete(ELECTION)
        return True

    def _replicas(self, key: tuple[str, int]) -> list[int] | None:
        path = f"/brokers/topics/{key[0]}"
        return self.fake.json(path)["partitions"].get(str(key[1])) if path in self.fake.znodes else None

    def _state_path(self, key: tuple[str, int]) -> str:
        return f"/brokers/topics/{key[0]}/partitions/{key[1]}/state"

    def _write_topic(self, key: tuple[str, int], replicas: list[int], *, adding: list[int]) -> None:
        topic, partition = key[0], str(key[1])
        document = self.fake.json(f"/brokers/topics/{topic}")
        document["partitions"][partition] = replicas
        if self.version != "2.0":
            removing = [broker for broker in self._origins[key] if broker not in self._targets[key]]
            for name, brokers in (("adding_replicas", adding), ("removing_replicas", removing if adding else [])):
                document.setdefault(name, {}).pop(partition, None)
                if brokers:
                    document[name][partition] = brokers
        self.fake.put_json(f"/brokers/topics/{topic}", document)
