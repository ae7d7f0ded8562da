"""What people and the janitor do to a run from outside: stop it, cancel it, take care of what it left."""

from __future__ import annotations

import time
from abc import abstractmethod
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSkipException, DownstreamTasksSkipped
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from kafka_rebalance.errors import UnwatchedError
from kafka_rebalance.throttle.janitor import look_after_lease
from support.runs.cancel_run import CancelRun
from support.runs.janitor_run import Airflow, tend
from support.runs.simulated_cluster import SimulatedRun


class Custodians:
    """Each is a call of a task, as those of the runs are."""

    monkeypatch: pytest.MonkeyPatch

    def _make_custodians(self) -> None:
        """Once for a world. Simulated are what Airflow answers, and the time that is waited."""
        self.airflow, self.silent_seconds, self.asked = Airflow.answering(self.monkeypatch), 0.0, 0
        paused = lambda dag_id: SimpleNamespace(is_paused=self.airflow.paused)  # noqa: E731
        self.monkeypatch.setattr(RuntimeTaskInstance, "get_dag", staticmethod(paused))
        self.monkeypatch.setattr(look_after_lease, "_silent_seconds", lambda *_: self.silent_seconds)
        self.seconds = 0.0
        clock = SimpleNamespace(time=time.time, monotonic=lambda: self.seconds, sleep=lambda _: self._wait())
        self.monkeypatch.setattr("kafka_rebalance.clock.time", clock)

    @abstractmethod
    def _wait(self) -> None:
        """While a task waits, the cluster goes on."""

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
