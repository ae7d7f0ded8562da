"""Runs, a controller, brokers and strangers around one cluster without ZooKeeper, in memory.

Simulated are kafka-python's client, the topic of the lock, the clock, and the calls to brokers that go through
librdkafka. Wire, lock, views, moves and config changes are the product's own.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_rebalance.admin.cluster_lock import TopicLock, Write
from kafka_rebalance.admin.wire import Wire
from kafka_rebalance.cluster.with_admin_api import AdminApiCluster
from kafka_rebalance.kafka.throttles import LIST_KEYS, THROTTLE_KEYS
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.cluster_view import ConfigValue
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.pages.plots import Plot
from kafka_rebalance.run.checks.cluster_ready import ELECT_LEADERS
from support.documents.segment_configs import KAFKAS_DEFAULTS
from support.histories.actions import Actions
from support.histories.lost_leases import lose_lease
from support.histories.papers import Key
from support.histories.process import Process
from support.histories.tasks import TOPICS
from support.histories.verdicts import STRANGERS_RATE
from support.kraft_model.broker_answers import config_changes
from support.kraft_model.cluster_metadata import Partition, Refused
from support.kraft_model.model_controller import APPEND, DELETE, SET, ModelController, Operation
from support.kraft_model.model_judge import ModelJudge
from support.kraft_model.model_log import LockTopic, Lost, ModelLog
from support.kraft_model.model_wire import IDLE_SECONDS, model_wire
from support.runs import rebalance_run
from support.runs.simulated_cluster import RACKS, SimulatedRun

DEFAULTS = KAFKAS_DEFAULTS | {"min.insync.replicas": "1"}
SERVERS = "model:9092"
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
# Modules that measure time, or wait.
TIMED = (
    "kafka_rebalance.admin.wire",
    "kafka_rebalance.admin.quorum",
    "kafka_rebalance.admin.cluster_view",
    "kafka_rebalance.cluster.with_admin_api",
    "kafka_rebalance.cluster.announced_requests",
    "kafka_rebalance.run.checks_before_write",
)


class ModelCluster:
    """Looks like a `LocalCluster` to an `InProcessRun`."""

    kraft = True
    bootstrap_servers = SERVERS

    def __init__(self, world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world = world
        for opens in ("cluster.open_cluster.open_wire", "admin.log_dirs.kept_or_open_wire"):
            monkeypatch.setattr(f"kafka_rebalance.{opens}", self._open_wire)
        monkeypatch.setattr("kafka_rebalance.admin.cluster_lock.TransactionLog", self._open_log)
        clock = SimpleNamespace(time=lambda: self.now().timestamp(), monotonic=lambda: world.seconds, sleep=world.sleep)
        for module in TIMED:
            monkeypatch.setattr(f"{module}.time", clock)
        monkeypatch.setattr("kafka_rebalance.admin.wire.read_api_versions", self._spoken)
        for name, offset in (("read_end_offsets", 1), ("read_start_offsets", 0)):
            monkeypatch.setattr(f"kafka_rebalance.admin.offsets.{name}", _offsets(offset))
        monkeypatch.setattr("kafka_rebalance.admin.groups.read_committed_offsets", lambda *_: {})
        for module in ("kafka_rebalance.admin.configs", "kafka_rebalance.segments.audit_io"):
            monkeypatch.setattr(f"{module}.read_effective_configs", self._effective)
        monkeypatch.setattr(rebalance_run, "LOOK_SECONDS", 0)
        monkeypatch.setattr(Plot, "source", "")  # to draw the pictures takes most of a page's time

    def now(self) -> datetime:
        return BEGAN + timedelta(seconds=self.world.seconds)

    def opened(self) -> AdminApiCluster:
        """As a task finds it behind its connection, with nothing in its way."""
        kafka = KafkaConnection(SERVERS)
        wire = model_wire(kafka, self.world, None)
        return AdminApiCluster(kafka, wire, TopicLock(kafka, wire))

    @contextlib.contextmanager
    def _open_wire(self, kafka: KafkaConnection) -> Iterator[Wire]:
        yield model_wire(kafka, self.world, self.world.process)

    def _open_log(self, _: KafkaConnection, wire: Wire) -> ModelLog:
        return ModelLog(self.world, self.world.process, wire.forget_fresh)

    def _spoken(self, _: object, brokers: Collection[int]) -> dict[int, dict[int, tuple[int, int]]]:
        return {broker: {0: (0, 12), 18: (0, 4), ELECT_LEADERS: (0, 2)} for broker in brokers}

    def _effective(
        self, _: object, brokers: Collection[int], *, of_the_rest: bool = False
    ) -> dict[int, dict[str, ConfigValue]]:
        values = {key: ConfigValue(value, "DEFAULT_CONFIG") for key, value in DEFAULTS.items()}
        return {broker: dict(values) for broker in brokers}


def _offsets(offset: int) -> Callable[..., Any]:
    return lambda _, partitions, of_the_rest=False: dict.fromkeys(partitions, offset)


def racks() -> dict[int, str | None]:
    return dict(RACKS)


SESSION_SECONDS = 9.0  # broker.session.timeout.ms


class Neighbours(Actions, ModelJudge):
    """Each action is one that is possible now, chosen by a number."""

    goes_on = (("join", 0),)

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


WRITES = ("AlterPartitionReassignmentsRequest", "IncrementalAlterConfigsRequest", "ElectLeadersRequest")
LOOK_SECONDS = 60.0  # pass between two looks of who waits for something
STEPS = 8  # followers that may catch up meanwhile
VERSIONS = ("3.9", "4.4")


class ModelWorld(Neighbours):
    """Everything there is. `load` starts it anew for a version, without planning again."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, versions: Sequence[str] = VERSIONS) -> None:
        self.seconds = 0.0  # the one clock
        self.controller = ModelController(versions[0], racks())
        self.lock_topic = LockTopic()
        self._begin_judging()
        self.cluster = ModelCluster(self, monkeypatch)
        self._make_tasks(folder, monkeypatch)
        self.templates: dict[str, tuple[ModelController, LockTopic, float, dict[str, SimulatedRun]]] = {}
        for version in versions:
            self._plan(version)

    def _plan(self, version: str) -> None:
        self.controller, self.lock_topic = ModelController(version, racks()), LockTopic()
        for topic, lists in TOPICS.items():
            self.controller.create_topic(topic, lists)
        self.controller.hear(1000)
        runs = self._approved_runs(self.cluster, version)
        self.templates[version] = (copy.deepcopy(self.controller), copy.deepcopy(self.lock_topic), self.seconds, runs)

    def load(self, version: str) -> None:
        controller, lock_topic, self.seconds, runs = self.templates[version]
        self.version = version
        self.controller, self.lock_topic = copy.deepcopy(controller), copy.deepcopy(lock_topic)
        self._begin_judging()
        self._begin_history(runs)
        self.foreign = {entity: set(self._entries(entity)) for entity in self.controller.image.configs}

    # The clock.

    def now_ms(self) -> int:
        return int((BEGAN.timestamp() + self.seconds) * 1000)

    def sleep(self, seconds: float) -> None:
        """Brokers hear of what was written."""
        self.seconds += seconds
        if not self.controller.hear(1):
            self.controller.fill_pause()

    def _wait(self) -> None:
        self.seconds += LOOK_SECONDS
        self.controller.hear(1000)
        for _ in range(STEPS):
            self.act("join", 0)

    # Calls of the tasks.

    def request(self, process: Process, request: Any, act: Callable[[], Any]) -> Any:
        is_write, sent_at = type(request).__name__ in WRITES, self.seconds
        mishap = self._begin(process, is_write=is_write)
        try:
            self._suffer(process, mishap, "before")
        except Lost as lost:
            raise OSError("the connection is lost") from lost
        before = self.controller.image
        if is_write and self.seconds - sent_at <= IDLE_SECONDS:
            self._note_broken(lambda: self._judge_request(process, request, before, sent_at))
        result = act()
        if type(request).__name__ == "IncrementalAlterConfigsRequest":
            for entity in config_changes(request):
                after = self.controller.image
                self._note_broken(lambda e=entity, a=after: self._judge_configs(process, e, before, a))
        try:
            self._suffer(process, mishap, "after")
        except Lost as lost:
            raise OSError("the connection is lost") from lost
        return result

    def log_call(self, process: Process | None, write: Write | None, act: Callable[[], Any]) -> Any:
        if process is None:
            return act()
        mishap = self._begin(process, is_write=write is not None)
        self._suffer(process, mishap, "before")
        before = self.lock_topic.state
        result = act()
        if write is not None:
            self._note_broken(lambda: self._judge_record(process, write, before))
        self._suffer(process, mishap, "after")
        if write is not None and write.kind == "intent":
            self._let_others(process, process.once_announced)
        return result

    def _lost(self, took_effect: bool) -> Exception:
        return Lost(took_effect)

    def _note_broken(self, judge: Callable[[], None]) -> None:
        """What is tried may catch it."""
        try:
            judge()
        except AssertionError as broken:
            self.broken.append(broken)

    # The ends of histories.

    def lose_lease(self, how: str) -> bool:
        """Its file is lost or damaged, and the record in the lock's topic says the same or more."""
        return lose_lease(self.folder / "runs" / "leases", self._recorded_lease(), how)

    def settle(self) -> None:
        """Every broker is back and in sync, and has heard all; what can end has ended."""
        for _ in range(300):
            self.controller.hear(1000)
            if not (self.act("up", 0) or self.act("join", 0)):
                return
        raise AssertionError("the cluster does not settle")
