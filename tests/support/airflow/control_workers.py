"""Workers and triggerer of the control plane's tests, simulated: the tasks' own functions, operators and triggers.

Each try follows the one before at once, XCom is a mapping, and the answer to an approval is uma's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from airflow.sdk.exceptions import AirflowFailException, DownstreamTasksSkipped
from airflow.utils.state import TaskInstanceState as State

from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import RebalanceError
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.rebalance import elect_leaders, report, snapshot, spark_checks, verify
from kafka_rebalance.rebalance.request import CandidateApproval
from kafka_rebalance.run.approval_rules import labels
from kafka_rebalance.throttle.hold_throttle import hold_throttle
from kafka_rebalance.throttle.release_throttle import release_throttle
from kafka_rebalance.workflow.hooks import read_connection
from kafka_rebalance.workflow.operators.approval import ApprovalOperator
from kafka_rebalance.workflow.run_step import run_step
from kafka_rebalance.workflow.triggers import BatchTrigger
from support.airflow.approval_requests import APPROVAL
from support.airflow.spark_submits import rebalance_submit
from support.plans.plan_once import plan_once
from support.runs.rebalance_run import CONNECTION
from support.runs.simulated_cluster import RATE, SimulatedCluster, SimulatedRun

PARAMS = {"kafka_conn_id": CONNECTION, "job": "drain", "drain": [2], "topics_out": ["idle"]}


class Workers:
    """What runs a task; who decides which one is `ControlPlane`."""

    def __init__(self, cluster: SimulatedCluster, run: SimulatedRun) -> None:
        self.cluster, self.run = cluster, run
        self.xcoms: dict[str, dict[str, Any]] = {}
        self.said: dict[str, str] = {}  # the last error of each task
        self.events: dict[str, Any] = {}  # of triggers that have fired, and the answer
        self.reserialise: Callable[[dict[str, Any]], dict[str, Any]] = dict  # what another version has written

    def tries_left(self, task: str) -> int:
        raise NotImplementedError

    def set_state(self, task: str, state: State) -> None:
        raise NotImplementedError

    def work(self, task: str) -> None:
        """Try after try until the task is over, deferred or parked; between two the controller goes on."""
        tries_left = self.tries_left(task)
        if task not in self.events:
            self.xcoms.pop(task, None)  # XComs go when their task starts, and stay when it resumes
        call: Callable[[], State | None] = getattr(self, f"_{task}")
        while True:
            try:
                state = call() or State.SUCCESS
            except AirflowFailException as final:
                self.said[task], state = str(final), State.FAILED
            except Exception as failed:
                self.said[task], state = f"{type(failed).__name__}: {failed}", State.FAILED
                if tries_left > 0:
                    tries_left -= 1
                    self.events.pop(task, None)
                    self.cluster.step()
                    continue
            self.events.pop(task, None)
            self.set_state(task, state)
            return

    def fire(self, task: str) -> None:
        """Some triggerer follows the batch, from what was serialised; the controller goes on between its looks."""
        assert self.run.deferred is not None
        kind, arguments = self.run.deferred.trigger.serialize()
        assert kind.endswith(".BatchTrigger")
        try:
            watcher = BatchTrigger(**self.reserialise(arguments))._watcher(read_connection(CONNECTION))
        except RebalanceError:
            self.set_state(task, State.SCHEDULED)  # the trigger fails, and with it this try; the next one begins anew
            return
        seen = None
        while seen is None:
            seen = watcher.look(time.time(), lambda _: None)
            self.cluster.step()
        watcher.close()
        self.events[task] = seen.to_event()
        self.set_state(task, State.SCHEDULED)

    def _snapshot(self) -> None:
        pushed = self.xcoms.setdefault("snapshot", {})
        run_step(snapshot.take_snapshot, self.run.dag_run, PARAMS, ti=SimpleNamespace(xcom_push=pushed.__setitem__))

    def _plan(self) -> None:
        folder = Path(self._pull("snapshot", "run_folder"))
        nonce, metrics = (self._pull("snapshot", key) for key in ("nonce", "metrics"))
        dag_run = self.run.dag_run
        run_step(spark_checks.check_spark_arguments, dag_run, rebalance_submit(folder, nonce, metrics, dag_run))
        given = Settings.from_mapping(json_files.read_json(folder, json_files.SETTINGS))
        plan_once(folder, given)

    def _render_report(self) -> None:
        run_step(report.render_report, self.run.dag_run, self._pull("snapshot", "run_folder"))

    def _approve(self) -> State | None:
        folder = self._pull("snapshot", "run_folder")
        operator = ApprovalOperator(
            task_id="approve", approval=APPROVAL, run_folder=folder, nonce=self._pull("snapshot", "nonce")
        )
        pushed = self.xcoms.setdefault("approve", {})
        behind = ("hold_throttle", "reassign", "elect_leaders", "verify", "record")
        context: Any = {
            "dag_run": self.run.dag_run,
            "ti": SimpleNamespace(
                xcom_push=pushed.__setitem__,
                xcom_pull=lambda task_ids, key: pushed.get(key),
                task_id="approve",
                map_index=-1,
            ),
            "task": SimpleNamespace(
                get_flat_relatives=lambda upstream: [SimpleNamespace(task_id=t, is_teardown=False) for t in behind]
            ),
        }
        choice = self.events.get("approve")
        try:
            if choice is None:
                operator.execute(context)
            else:
                offered = labels(CandidateApproval().offer(Path(folder)).digests)
                answered = {
                    "chosen_options": [next(option for option in offered if option.startswith(choice))],
                    "params_input": {"throttle_bytes_per_second": RATE, "note": None},
                    "responded_at": datetime.now(UTC),
                    "responded_by_user": {"id": "uma", "name": "uma"},
                }
                operator.execute_complete(context, answered)
        except Parked:
            return State.AWAITING_INPUT
        except DownstreamTasksSkipped as skipped:
            for task in skipped.tasks:
                self.set_state(getattr(task, "task_id", task), State.SKIPPED)
        return None

    def _hold_throttle(self) -> None:
        run_step(hold_throttle, self.run.dag_run, self._decision())

    def _reassign(self) -> State | None:
        self.run.decision = self._decision()
        seen = self.events.get("reassign")
        _ = self.run.request() if seen is None else self.run.resume(seen)
        return State.DEFERRED if self.run.deferred is not None else None

    def _release_throttle(self) -> None:
        run_step(release_throttle, self.run.dag_run, self._decision())

    def _elect_leaders(self) -> None:
        run_step(elect_leaders.elect_leaders, self.run.dag_run, self._decision())

    def _verify(self) -> None:
        run_step(verify.verify, self.run.dag_run, self._decision())

    def _check_verified(self) -> None:
        run_step(verify.check_verified, self.run.dag_run)

    def _record(self) -> None:
        run_step(verify.record, self.run.dag_run, self._decision())

    def _decision(self) -> dict[str, Any]:
        found: dict[str, Any] = self._pull("approve", "decision")
        return found

    def _pull(self, task_ids: str, key: str) -> Any:
        if key not in self.xcoms.get(task_ids, {}):
            raise LookupError(f"XComNotFound: {key} of {task_ids}")
        return self.xcoms[task_ids][key]


class Parked(Exception):
    """Airflow parks the task and waits for an answer."""


def park(*_: object) -> None:
    """In the place of `HITLOperator.execute`."""
    raise Parked
