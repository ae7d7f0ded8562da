"""Runs, a controller, brokers and strangers around one ZooKeeper in memory.

The runs are the tasks' own functions. Each of their calls to ZooKeeper may be the last (the process is killed), may
lose its connection with or without having taken effect, and others may act just before it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import pytest
from kazoo.exceptions import ConnectionLoss, KazooException
from kazoo.protocol.serialization import Create, Delete, SetData
from kazoo.retry import KazooRetry

from kafka_rebalance.errors import WriteError
from kafka_rebalance.model.partition import TopicPartition
from support.histories.controllers_and_brokers import Others
from support.histories.lost_leases import lose_lease
from support.histories.process import Process
from support.histories.tasks import TOPICS
from support.kafka.controller_model import ModelController
from support.runs.simulated_cluster import SimulatedClient, SimulatedCluster, SimulatedRun
from support.zookeeper.fake_transaction import FakeTransaction
from support.zookeeper.fake_zookeeper import Answer, FakeZooKeeper

LOOK_SECONDS = 60.0  # pass between two looks of who waits for something
RECORD = "/kafka_rebalance/lease"
STEPS = 8  # that the controller makes meanwhile


class World(Others):
    """Everything there is. `load` starts it anew for a version, without planning again."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster = SimulatedCluster(monkeypatch, TOPICS)
        client = "kafka_rebalance.zookeeper.client"
        monkeypatch.setattr(f"{client}.Client", lambda **_: self._connect())
        monkeypatch.setattr(f"{client}.KazooRetry", functools.partial(KazooRetry, sleep_func=lambda _: None))
        self._make_tasks(folder, monkeypatch)
        monkeypatch.setattr("kafka_rebalance.admin.reassignments.can_cancel", lambda _: self.version != "2.0")
        monkeypatch.setattr("kafka_rebalance.admin.reassignments.cancel_reassignments", self._cancel_by_api)
        self.templates: dict[str, tuple[dict[str, Any], dict[str, SimulatedRun]]] = {}
        for version in ("2.0", "2.8"):
            self._plan(version)

    @property
    def fake(self) -> FakeZooKeeper:  # type: ignore[override]
        return self.cluster.fake

    def _plan(self, version: str) -> None:
        """Two approved runs on one cluster: folders, and the znodes as they were."""
        self.cluster.__init__(self.monkeypatch, TOPICS, version)  # type: ignore[misc]
        self.monkeypatch.setattr("kafka_rebalance.zookeeper.client.Client", lambda **_: self._connect())
        runs = self._approved_runs(self.cluster, version)
        self.templates[version] = (self.fake.copied(), runs)

    def load(self, version: str) -> None:
        znodes, runs = self.templates[version]
        self._begin_history(runs)
        self.version = version
        self.fake.znodes = znodes
        self.fake.znodes = self.fake.copied()
        self.fake.zxid = max(znode.mzxid for znode in znodes.values())
        self.fake.after_write.clear()
        self.fake.after_write.append(self._elect_another)
        self.zombies: list[ModelController] = []
        self.controller = ModelController(self.fake, version)
        self.foreign = {e: set(self._entries(e)) for e in self._entities()}
        self.priors: dict[str, Any] = {}
        while self.controller.step():
            pass

    # The runs.

    def _connect(self) -> SimulatedClient:
        return _Client(self, self.process) if self.process else SimulatedClient(self.fake)

    def call(self, process: Process, name: str, args: Sequence[Any], options: Any) -> Any:
        """One call to ZooKeeper by a run."""
        writes = [(name, args[0])] if name in ("create", "set", "delete") else []
        return self._perform(process, writes, lambda: getattr(self.fake, name)(*args, **options))

    def commit(self, process: Process, transaction: FakeTransaction) -> Any:
        """A transaction of a run: one call, whose writes are judged each."""
        calls = {Create: "create", SetData: "set", Delete: "delete"}
        writes = [(calls[type(one)], one.path) for one in transaction.operations if type(one) in calls]
        return self._perform(process, writes, lambda: FakeTransaction.commit_async(transaction).get(timeout=0))

    def _perform(self, process: Process, writes: Sequence[tuple[str, str]], act: Callable[[], Any]) -> Any:
        mishap = self._begin(process, is_write=bool(writes))
        self._suffer(process, mishap, "before")
        before = {path: self.fake.znodes[path].data for _, path in writes if path in self.fake.znodes}
        result = act()
        failed = isinstance(result, list) and any(isinstance(one, KazooException) for one in result)
        for call, path in () if failed else writes:
            process.written.append((call, path))
            try:
                self._judge_write(process, call, path, before.get(path))
            except AssertionError as broken:
                self.broken.append(broken)  # what is tried may catch it
        self._suffer(process, mishap, "after")
        return result

    def _lost(self, took_effect: bool) -> Exception:
        return ConnectionLoss()

    def _wait(self) -> None:
        self.seconds += LOOK_SECONDS
        for _ in range(STEPS):
            self.act("controller", 1)
        self.act("join", 0)

    def _elect_another(self, call: str, path: str) -> None:
        """Where the controller's znode is deleted, as cancelling below 2.4 does."""
        if (call, path) == ("delete", "/controller"):
            self.act("failover", self.asked)

    def _cancel_by_api(self, _: object, partitions: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        def act() -> frozenset[TopicPartition]:
            moving = [(tp.topic, tp.partition) for tp in partitions if tuple(tp) in self.controller.targets]
            for key in moving:
                self.controller.tell("cancel", key)
            while any(event == "cancel" for event, _ in self.controller.events) or self.controller.work is not None:
                if not self.controller.step():
                    break
            return frozenset(TopicPartition(*key) for key in moving if key not in self.controller.targets)

        assert self.process is not None
        try:
            result: frozenset[TopicPartition] = self._perform(self.process, [], act)
        except ConnectionLoss as lost:
            raise WriteError("The brokers did not answer; what was cancelled is unknown.") from lost
        return result

    def lose_lease(self, how: str) -> bool:
        def lose_record() -> None:
            if how == "record":
                self.fake.delete(RECORD)
            else:
                self.fake.set(RECORD, b"{}")

        return lose_lease(self.folder / "runs" / "leases", self._recorded_lease(), how, lose_record)

    def settle(self) -> None:
        """Every broker is back and in sync, and the controller has nothing left to do."""
        for _ in range(300):
            if not (self.act("up", 0) or self.act("controller", 1) or self.act("join", 0)):
                return
        raise AssertionError("the cluster does not settle")


class _Client(SimulatedClient):
    """kazoo's client of one process."""

    def __init__(self, world: World, process: Process) -> None:
        super().__init__(world.fake)
        self._world, self._process = world, process

    def transaction(self) -> FakeTransaction:
        made = FakeTransaction(self._fake)
        made.commit_async = lambda: Answer(lambda: self._world.commit(self._process, made))  # type: ignore[assignment,return-value]
        return made

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_async"):
            call = name.removesuffix("_async")
            return lambda *args, **kw: Answer(lambda: self._world.call(self._process, call, args, kw))
        return getattr(self._fake, name)
