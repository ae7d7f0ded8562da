"""Runs, a controller, brokers and strangers around one cluster without ZooKeeper, in memory."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from kafka_rebalance.admin.transaction_log import Write
from support.histories.process import Process
from support.histories.tasks import TOPICS
from support.kraft_model.broker_answers import config_changes
from support.kraft_model.model_cluster import BEGAN, ModelCluster, racks
from support.kraft_model.model_controller import ModelController
from support.kraft_model.model_log import LockTopic, Lost
from support.kraft_model.model_wire import IDLE_SECONDS
from support.kraft_model.neighbours import Neighbours
from support.runs.simulated_cluster import SimulatedRun

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
        files = [max(cluster.glob("*.json"), default=None) for cluster in (self.folder / "runs" / "leases").glob("*")]
        latest, record = next((file for file in files if file is not None), None), self._recorded_lease()
        if latest is None or record is None or "record" in how:
            return False
        try:
            generation = json.loads(latest.read_text())["generation"]
        except ValueError:
            return False
        if record["generation"] < generation:
            return False
        if how == "folder":
            shutil.rmtree(latest.parents[1])
        else:
            latest.write_text("{")
        return True

    def settle(self) -> None:
        """Every broker is back and in sync, and has heard all; what can end has ended."""
        for _ in range(300):
            self.controller.hear(1000)
            if not (self.act("up", 0) or self.act("join", 0)):
                return
        raise AssertionError("the cluster does not settle")
