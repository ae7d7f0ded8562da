"""What people and the janitor do to a run from outside: stop it, cancel it, take care of what it left."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSkipException, DownstreamTasksSkipped
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from kazoo.exceptions import ConnectionLoss

from kafka_rebalance.errors import UnwatchedError, WriteError
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.steps.janitor import look_after_lease
from support.histories.judge import Process
from support.histories.strangers import Strangers
from support.runs.cancel_run import CancelRun
from support.runs.janitor_run import Airflow, tend
from support.runs.simulated_cluster import SimulatedRun

LOOK_SECONDS = 60.0  # pass between two looks of who waits for something
STEPS = 8  # that the controller makes meanwhile


class Custodians(Strangers):
    """Each is a call of a task, as those of the runs are."""

    monkeypatch: pytest.MonkeyPatch
    _perform: Callable[[Process, Sequence[tuple[str, str]], Callable[[], Any]], Any]

    def _make_custodians(self) -> None:
        """Once for a world. Simulated are what Airflow answers, the brokers' API, and the time that is waited."""
        self.airflow, self.silent_seconds, self.asked = Airflow.answering(self.monkeypatch), 0.0, 0
        paused = lambda dag_id: SimpleNamespace(is_paused=self.airflow.paused)  # noqa: E731
        self.monkeypatch.setattr(RuntimeTaskInstance, "get_dag", staticmethod(paused))
        self.monkeypatch.setattr(look_after_lease, "_silent_seconds", lambda *_: self.silent_seconds)
        edge = "kafka_rebalance.admin.running_reassignments"
        self.monkeypatch.setattr(f"{edge}.can_cancel", lambda _: self.version != "2.0")
        self.monkeypatch.setattr(f"{edge}.cancel_reassignments", self._cancel_by_api)
        self.seconds = 0.0
        clock = SimpleNamespace(time=time.time, monotonic=lambda: self.seconds, sleep=lambda _: self._wait())
        self.monkeypatch.setattr("kafka_rebalance.steps.clock.time", clock)

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

    def _ask(self, run: SimulatedRun | None, _: Any) -> CancelRun | None:
        """Asked for and approved: to cancel what runs now."""
        made = self._canceller()
        try:
            made.approved()
        except (AirflowSkipException, DownstreamTasksSkipped):
            return None
        return made

    def _stop(self, run: SimulatedRun | None, _: Any) -> None:
        made = self._canceller()
        try:
            made.request("stop_after_batch")
        except (AirflowSkipException, DownstreamTasksSkipped):
            return
        made.stop()

    def _canceller(self) -> CancelRun:
        self.asked += 1
        return CancelRun(self.monkeypatch, f"cancel-{self.asked}")

    def _cancel(self, run: SimulatedRun | None, canceller: CancelRun) -> Any:
        return canceller.cancel()

    def _end(self, run: SimulatedRun | None, canceller: CancelRun) -> Any:
        return canceller.verify()

    def _pause(self, run: SimulatedRun | None, silent_seconds: float) -> Any:
        """The janitor comes, and finds a next batch that has waited for long."""
        with self.monkeypatch.context() as patched:
            patched.setattr(look_after_lease, "waits_long", lambda *_: "The next batch has waited for 2.0 h.")
            try:
                return self._sweep(run, silent_seconds)
            except UnwatchedError:
                return None

    def _sweep(self, run: SimulatedRun | None, silent_seconds: float) -> Any:
        self.silent_seconds = silent_seconds
        return tend()
