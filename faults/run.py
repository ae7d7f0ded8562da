"""The run of a case: the tasks after the approval in the Dag's order, each in a process that a fault may kill."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from faults import load
from faults.cases import Case, Fault, Moment
from faults.clusters.fault_cluster import AFTER, RATE, FaultCluster, Truth
from faults.operator import Operator
from faults.ours.processes import Processes, Step

TENDINGS = 20  # looks of the janitor, RETRY_SECONDS apart
STAY_SECONDS = 60.0  # as in the Dag
RETRY_SECONDS = 2.0  # the Dag's pauses are longer; the number of retries is the Dag's


_retries: dict[str, dict[str, int]] = {}


class TaskFailedError(Exception):
    """A task has failed and has no retry left; the text is its last error."""


def dag_retries(processes: Processes) -> Mapping[str, Mapping[str, int]]:
    """{dag id: {task id: retries}}, read once."""
    if not _retries:
        _retries.update(processes.call("read_retries", {}))
    return _retries


class Run:
    """Runs the tasks after the approval in the Dag's order, each in a process that a fault may kill."""

    dag_id, moving_task = "kafka_rebalance", "reassign"

    def __init__(self, cluster: FaultCluster, processes: Processes, case: Case, records: load.LoadProcess) -> None:
        self.cluster, self.processes, self.case, self._records = cluster, processes, case, records
        self.errors: list[str] = []
        self.kills = 0
        self.truths: tuple[Truth, Truth] | None = None
        self._random = case.random()
        self._following: Step | None = None  # the triggerer
        self._moving: Step | None = None  # the worker, while it runs the moving task
        self.operator = Operator(cluster)
        self._retries = dag_retries(processes)[self.dag_id]
        stay = STAY_SECONDS if self._stays() else 0
        self._state: dict[str, Any] = {
            "dag_id": self.dag_id,
            "run_id": case.topic,
            "bytes_per_second": RATE,
            "stay_seconds": stay,
        }
        self._to_kill = self._kills_planned()

    @property
    def folder(self) -> Path:
        return Path(self._state["decision"]["run_folder"])

    def approve(self) -> None:
        """Plans the reassignment to `AFTER` and approves it."""
        partitions = [
            {"topic": self.case.topic, "partition": p, "replicas": list(replicas)} for p, replicas in AFTER.items()
        ]
        plan = json.dumps({"version": 1, "partitions": partitions})
        self._state["params"] = {"topics_in": [self.case.topic], "plan": plan, "candidates": ["leaders_only"]}
        self._state["decision"] = self.processes.call("approve_plan", self._state)

    def execute(self) -> str:
        """Runs `hold_throttle` to `record`, also when somebody clears them; returns the state of the Dag run."""
        if not self._succeeds("hold_throttle"):
            return "failed"  # Airflow runs no teardown after a setup that failed
        moved = True
        try:
            self._move()
            self._task("elect_leaders")
        except TaskFailedError:
            moved = False
        released = self._succeeds("release_throttle")
        if released and not self.cluster.has_zookeeper and self._has_left_rates():
            self.processes.start("tend", self._state).wait()  # as the janitor does within a minute
        before = self.cluster.settled(self.case.topic)
        verified = self._succeeds("verify")
        self.truths = before, self.cluster.settled(self.case.topic)
        recorded = self._succeeds("record")
        return "success" if moved and released and verified and recorded else "failed"

    def _has_left_rates(self) -> bool:
        """Whether a broker that was away at the release has come back with its rate; only it can give it back."""
        rates = {
            value for values in self.cluster.settled(self.case.topic).throttles.values() for value in values.values()
        }
        return str(RATE) in rates

    def advice(self) -> str:
        """What the run tells people, in its errors and in the progress on its page.

        The topic's name is left out, because it names the fault.
        """
        notes = self.folder / "progress.json"
        said = [*self.errors, *([notes.read_text(encoding="utf-8")] if notes.exists() else [])]
        return "\n".join(said).replace(self.case.topic, "the topic")

    def told(self) -> str:
        """The advice, and the logs of the run's processes."""
        logs = "\n".join(log.read_text() for log in self.processes.folder.glob("*.log"))
        return "\n".join([self.advice(), logs.replace(self.case.topic, "the topic")])

    def tend(self) -> None:
        """The janitor's looks, until it has nothing more to put back. Airflow tells it that the run has failed."""
        for _ in range(TENDINGS):
            outcome = self.processes.start("tend", self._state).wait()
            if outcome is None or outcome["state"] != "done":
                self.errors.append(f"tend: {(outcome or {}).get('error', 'killed')}")
            if not self.cluster.is_locked():
                return
            time.sleep(RETRY_SECONDS)

    def shift_clock(self, seconds: int) -> None:
        self.processes.shift_clock(seconds)

    def stop_load(self) -> None:
        self._records.stop()

    def kill(self) -> None:
        """kill -9 of our triggerer, as soon as there is one, or of the worker that follows the batch.

        At submit the worker kills itself after one of its writes: `_kills_planned`.
        """
        if (self.case.fault, self.case.moment) == (Fault.WORKER, Moment.SUBMIT):
            return
        give_up = time.monotonic() + 10
        while (process := self._victim()) is None and time.monotonic() < give_up:
            time.sleep(0.01)
        if process is not None:
            process.kill()

    def _victim(self) -> Step | None:
        if self.case.fault is Fault.WORKER:
            return self._moving
        return self._following if self.case.fault is Fault.TRIGGERER else self._following or self._moving

    def _succeeds(self, task: str) -> bool:
        try:
            self._task(task)
        except TaskFailedError:
            return False
        return True

    def _task(self, task: str) -> None:
        for left in range(self._retries[task], -1, -1):
            outcome = self._attempt(task, {})
            if outcome is not None and outcome["state"] == "done":
                return
            self._failed(task, outcome, left)

    def _move(self) -> None:
        """Defers and resumes the moving task until it is done. A retry begins from the start, as in Airflow."""
        for left in range(self._retries[self.moving_task], -1, -1):
            outcome = self._attempt(self.moving_task, {})
            while outcome is not None and outcome["state"] == "deferred":
                followed = self._follow(outcome)
                if followed["state"] != "done":
                    outcome = followed
                    break
                extra = {"event": followed["value"], "method": outcome["method"]}
                outcome = self._attempt("resume", extra)
            if outcome is not None and outcome["state"] == "done":
                return
            self._failed(self.moving_task, outcome, left)

    def _follow(self, deferred: Mapping[str, Any]) -> dict[str, Any]:
        """Runs the trigger in a triggerer, and in another one if that was killed."""
        while True:
            self._following = self.processes.start("follow", self._state | dict(deferred))
            followed = self._following.wait(meanwhile=lambda: self.operator.look(self.folder))
            self._following = None
            if followed is not None:
                return followed
            self.kills += 1

    def _attempt(self, step: str, extra: Mapping[str, Any]) -> dict[str, Any] | None:
        process = self.processes.start(step, self._state | dict(extra), self._to_kill.pop(step, None))
        self._moving = process if step == self.moving_task else None
        outcome = process.wait()
        self._moving = None
        self.kills += outcome is None
        return outcome

    def _failed(self, task: str, outcome: Mapping[str, Any] | None, left: int) -> None:
        """Notes the error and waits for the retry. Raises TaskFailedError if there is none."""
        text = f"{task}: {'killed' if outcome is None else outcome['error']}"
        self.errors.append(text)
        self.operator.clear_request(text)
        if not left or (outcome is not None and outcome["state"] == "failed"):
            raise TaskFailedError(text)
        time.sleep(RETRY_SECONDS)

    def _stays(self) -> bool:
        """Whether the worker follows the moves itself, because the fault kills it. Else a triggerer follows them."""
        return self.case.fault is Fault.WORKER

    def _kills_planned(self) -> dict[str, dict[str, Any]]:
        """{step: after which write, and how long after, the worker dies}."""
        if self.case.fault is not Fault.WORKER:
            return {}
        short = self._random.uniform(0, 0.02)
        if self.case.moment is Moment.SUBMIT:
            hold = {"writes": self._random.randint(2, 9), "seconds": short}
            return {"hold_throttle": hold, "reassign": {"writes": 1, "seconds": short}}
        if self.case.moment is Moment.END:
            release = {"writes": self._random.randint(1, 8), "seconds": short}
            return {"release_throttle": release}
        return {}
