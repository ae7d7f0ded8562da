"""Airflow's control plane over a simulated cluster: its own scheduling decisions, and what people do through its API.

Airflow's own are trigger rules, states of runs and tasks, clearing, marking, deleting, pausing: its code and database.
Simulated are workers and triggerer (the tasks' own functions and operators are called here, each try at once), XCom,
Spark and the answer to an approval. All of it is on a simulated cluster.
"""

from __future__ import annotations

import shutil
import time
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from airflow.dag_processing.bundles.manager import DagBundlesManager
from airflow.dag_processing.dagbag import BundleDagBag, sync_bag_to_db
from airflow.models.dag import DagModel
from airflow.models.dagbag import DBDagBag
from airflow.models.dagrun import DagRun, get_or_create_dagrun
from airflow.models.taskinstance import TaskInstance
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState
from airflow.utils.state import TaskInstanceState as State
from airflow.utils.types import DagRunTriggeredByType
from sqlalchemy import select, update

from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import UnwatchedError
from kafka_rebalance.rebalance import report
from support.airflow.control_workers import Workers, park
from support.runs.janitor_run import Airflow, tend
from support.runs.simulated_cluster import TOPICS, SimulatedCluster, SimulatedRun, batched_run, give_folder_to
from support.zookeeper.fake_zookeeper import REASSIGN

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

DAG = "kafka_rebalance"


class Moment(StrEnum):
    """Where a run stands when somebody does something."""

    BEFORE_APPROVAL = "before approval"
    APPROVED = "approved"
    IN_FLIGHT = "batch in flight"
    BETWEEN = "between batches"
    AFTER_LAST = "after the last"


def bring_dags_in() -> None:
    """The Dags of this repository in Airflow's database, as its Dag processor puts them there, and unpaused.

    The page of a run says that its Dag is paused, and tests of pages share this database.
    """
    manager = DagBundlesManager()
    manager.sync_bundles_to_db()
    for bundle in manager.get_all_dag_bundles():
        bundle.initialize()
        bag = BundleDagBag(dag_folder=bundle.path, bundle_path=bundle.path, bundle_name=bundle.name)
        assert bag.import_errors == {}
        sync_bag_to_db(bag, bundle.name, bundle.version)
    with create_session() as session:
        session.execute(update(DagModel).values(is_paused=False))


class Template:
    """An approved plan of two batches, made once: each cell of the matrix starts from a copy."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.live, self.kept = root / "live", root / "kept"
        self.live.mkdir()
        made = batched_run(self.live, SimulatedCluster(monkeypatch, TOPICS), monkeypatch)
        self.xcom, self.decision = made.xcom, made.decision
        shutil.copytree(self.live, self.kept)
        with create_session() as session:
            self.dag: Any = DBDagBag().get_latest_version_of_dag(DAG, session=session)

    def restore(self) -> None:
        shutil.rmtree(self.live)
        shutil.copytree(self.kept, self.live)


class ControlPlane(Workers):
    """One run of `kafka_rebalance`. `moment` brings it there, acts are people's, `go_on` lets Airflow work on."""

    def __init__(
        self, template: Template, client: TestClient, headers: dict[str, str], patch: pytest.MonkeyPatch
    ) -> None:
        template.restore()
        cluster = SimulatedCluster(patch, TOPICS)
        super().__init__(cluster, SimulatedRun(template.live, cluster, patch, f"run-{time.time_ns()}"))
        self.run.policy_file.write_text((template.kept / "policies" / self.run.policy_file.name).read_text())
        self.run.xcom, self.run.decision = dict(template.xcom), dict(template.decision)
        give_folder_to(self.run)
        self.approved = self.run.candidate
        self.airflow = Airflow.answering(patch)
        self.dag = template.dag
        self.client, self.headers = client, headers
        self.xcoms["snapshot"] = dict(self.run.xcom)
        self.lifted: list[str] = []  # throttles taken from partitions in motion
        self.cluster.fake.after_write.append(self._watch)
        patch.setattr(HITLOperator, "execute", park)
        patch.setattr(report, "write_report", lambda _: None)  # the page shows what is tested elsewhere
        patch.setattr(RuntimeTaskInstance, "get_task_states", staticmethod(self._task_states))
        with create_session() as session:
            now = datetime.now(UTC)
            get_or_create_dagrun(
                dag=template.dag,
                start_date=now,
                logical_date=None,
                data_interval=None,
                run_after=now,
                run_id=self.run_id,
                session=session,
                conf={},
                triggered_by=DagRunTriggeredByType.TEST,
                triggering_user_name="olive",
            )

    @property
    def run_id(self) -> str:
        return str(self.run.dag_run.run_id)

    # Where it stands

    def moment(self, moment: Moment) -> ControlPlane:
        for task in ("snapshot", "plan", "render_report"):
            self.set_state(task, State.SUCCESS)
        self.set_state("approve", State.AWAITING_INPUT)
        if moment is Moment.BEFORE_APPROVAL:
            (self.run.folder / json_files.DECISION).unlink()
            return self
        self.set_state("approve", State.SUCCESS)
        self.xcoms["approve"] = {"decision": dict(self.run.decision)}
        if moment is Moment.APPROVED:
            return self
        assert self._schedule() == ["hold_throttle"]
        self.work("hold_throttle")
        assert self._schedule() == ["reassign"]
        self.work("reassign")
        self.cluster.step()
        if moment is Moment.IN_FLIGHT:
            return self
        self.fire("reassign")
        if moment is Moment.BETWEEN:
            return self
        while self.tasks()["reassign"] != State.SUCCESS:
            self.work("reassign")
            if self.tasks()["reassign"] == State.DEFERRED:
                self.fire("reassign")
        return self

    def tasks(self) -> dict[str, State | None]:
        asked = select(TaskInstance.task_id, TaskInstance.state).where(*self._mine)
        with create_session() as session:
            return {task: None if state is None else State(state) for task, state in session.execute(asked)}

    def state(self) -> str:
        """Of the run; `deleted` where there is none."""
        with create_session() as session:
            found = self._dag_run(session)
            return str(found.state.value if hasattr(found.state, "value") else found.state) if found else "deleted"

    # What people do, through the public API

    def clear(self, task: str, *, downstream: bool = True) -> None:
        body = {
            "dry_run": False,
            "dag_run_id": self.run_id,
            "task_ids": [task],
            "include_downstream": downstream,
            "only_failed": False,
        }
        self._ask("POST", f"/api/v2/dags/{DAG}/clearTaskInstances", body)

    def mark(self, task: str, state: str) -> None:
        self._ask("PATCH", f"{self._path}/taskInstances/{task}", {"new_state": state})

    def mark_run(self, state: str) -> None:
        self._ask("PATCH", self._path, {"state": state})

    def delete(self) -> None:
        """Airflow deletes ended runs only, so people end it first, its teardown with it."""
        self.mark_run("failed")
        if self.state() == "running" and self.tasks()["release_throttle"] is None:
            self.mark("release_throttle", "failed")
        self.go_on()
        self._ask("DELETE", self._path, None)

    def pause(self, paused: bool = True) -> None:
        self._ask("PATCH", f"/api/v2/dags/{DAG}", {"is_paused": paused})
        self.airflow.paused = paused

    def answer(self, choice: str = "light") -> None:
        """uma answers the request that waits."""
        self.events["approve"] = choice
        self.work("approve")

    def do(self, act: str) -> None:
        """`clear T`, `mark T STATE`, `mark run STATE`, `delete`, `pause`, `unpause`, `answer`."""
        match act.split():
            case ["clear", task]:
                self.clear(task)
            case ["mark", "run", state]:
                self.mark_run(state)
            case ["mark", task, state]:
                self.mark(task, state)
            case ["delete"]:
                self.delete()
            case ["pause" | "unpause"]:
                self.pause(act == "pause")
            case ["answer"]:
                self.answer()
            case _:
                raise ValueError(act)

    # What Airflow does then

    def go_on(self) -> str:
        """Schedules and works until there is nothing to do; the run's state."""
        for _ in range(200):
            state, before = self.state(), self.tasks()
            if state not in ("running", "queued"):
                return state
            waiting = [task for task, found in self.tasks().items() if found == State.DEFERRED]
            if waiting:
                self.fire(waiting[0])
            if self.airflow.paused:
                return state
            ready = self._schedule()
            ready += [task for task, found in self.tasks().items() if found == State.SCHEDULED and task not in ready]
            for task in ready:
                if self.tasks()[task] != State.SCHEDULED:
                    continue
                self.work(task)
            if not ready and not waiting and (self.state(), self.tasks()) == (state, before):
                return state
        raise AssertionError(f"the run does not end: {self.tasks()}, {self.said}")

    def janitor(self) -> list[str]:
        """The janitor until it has nothing to do, while the controller goes on; its alerts."""
        alerts = []
        for _ in range(60):
            state = self.state()
            self.airflow.states = {} if state == "deleted" else {self.run_id: state}
            try:
                tend()
            except UnwatchedError as alert:
                alerts.append(str(alert))
            if not self.cluster.step() and not self.cluster.leftovers():
                break
        tend()
        return alerts

    # What came of it

    def requested_once(self) -> bool:
        """No batch was requested twice, and nothing but approved lists."""
        asked = [tuple(sorted(request)) for request in self.cluster.requests]
        after = {move.topic_partition: list(move.after) for move in self.approved.moves}
        return len(asked) == len(set(asked)) and all(
            after[tp] == replicas for request in self.cluster.requests for tp, replicas in request.items()
        )

    def placed(self) -> int:
        """How many of the two batches have their approved lists."""
        done = 0
        for batch in self.approved.batches:
            lists = [self.cluster.replicas(m.topic_partition.topic)[m.topic_partition.partition] for m in batch.moves]
            if lists == [list(move.after) for move in batch.moves]:
                done += 1
            else:
                assert lists == [list(move.before) for move in batch.moves], "neither as before nor as approved"
        return done

    @property
    def in_flight(self) -> bool:
        return REASSIGN in self.cluster.fake.znodes

    # The cluster, and Airflow's database

    def _watch(self, call: str, path: str) -> None:
        """Notes what a write to a config takes from a partition that is being copied."""
        if not path.startswith("/config/") or not self.in_flight:
            return
        for move in self.approved.moves:
            topic, partition = move.topic_partition
            adding = self.cluster.fake.json(f"/brokers/topics/{topic}").get("adding_replicas", {})
            listed = self.cluster.config(f"topics/{topic}").get("follower.replication.throttled.replicas", "")
            rates = [self.cluster.config(f"brokers/{b}").get("follower.replication.throttled.rate") for b in move.added]
            if str(partition) in adding and (f"{partition}:" not in listed or None in rates):
                self.lifted.append(str(move.topic_partition))

    @property
    def _path(self) -> str:
        return f"/api/v2/dags/{DAG}/dagRuns/{quote(self.run_id, safe='')}"

    def _ask(self, method: str, path: str, body: Any) -> None:
        reply = self.client.request(method, path, json=body, headers=self.headers)
        assert reply.is_success, f"{method} {path}: {reply.status_code} {reply.text}"
        for task, state in self.tasks().items():
            if state is None:
                self.events.pop(task, None)

    def _schedule(self) -> list[str]:
        """The tasks that Airflow starts now."""
        with create_session() as session:
            dag_run = self._dag_run(session)
            assert dag_run is not None
            dag_run.dag = self.dag
            dag_run.state = DagRunState.RUNNING
            ready, _ = dag_run.update_state(session=session, execute_callbacks=False)
            for instance in ready:
                instance.state, instance.try_number = State.SCHEDULED, instance.try_number + 1
            return [instance.task_id for instance in ready]

    def _task_states(self, dag_id: str, task_ids: list[str], run_ids: list[str]) -> dict[str, Any]:
        states = self.tasks()
        return {run_id: {task: states[task] for task in task_ids} for run_id in run_ids}

    def tries_left(self, task: str) -> int:
        asked = select(TaskInstance.max_tries - TaskInstance.try_number + 1)
        with create_session() as session:
            return int(session.scalar(asked.where(*self._mine, TaskInstance.task_id == task)) or 0)

    def set_state(self, task: str, state: State) -> None:
        with create_session() as session:
            session.execute(update(TaskInstance).where(*self._mine, TaskInstance.task_id == task).values(state=state))

    @property
    def _mine(self) -> tuple[Any, Any]:
        return TaskInstance.dag_id == DAG, TaskInstance.run_id == self.run_id

    def _dag_run(self, session: Any) -> DagRun | None:
        found: DagRun | None = session.scalar(select(DagRun).where(DagRun.dag_id == DAG, DagRun.run_id == self.run_id))
        return found
