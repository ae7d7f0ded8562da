"""One run of `kafka_rebalance` without Airflow's processes: the tasks' own functions, called in the Dag's order.

The cluster is real, and so are planner, tables, throttle, batches and checks. Simulated are Airflow's XCom, the answer
to the approval, and the triggerer, whose looks are taken here.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.proposals import PROPOSALS_FILE
from kafka_rebalance.documents.snapshot import SNAPSHOT_FILE, read_settings
from kafka_rebalance.documents.throttle_lease import ThrottleLease
from kafka_rebalance.kafka.reassignment_json import format_reassignment
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.digests import digest_of
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.rebalance.elect_leaders import elect_leaders
from kafka_rebalance.rebalance.follow import BatchFollower
from kafka_rebalance.rebalance.report import render_report
from kafka_rebalance.rebalance.request import offered_digests, stopped_candidates
from kafka_rebalance.rebalance.snapshot import take_snapshot
from kafka_rebalance.rebalance.verify import record, verify
from kafka_rebalance.run.watch_batch import BatchSeen
from kafka_rebalance.throttle import lease_files
from kafka_rebalance.throttle.hold_throttle import hold_throttle
from kafka_rebalance.throttle.release_throttle import release_throttle
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.hooks import read_connection
from kafka_rebalance.workflow.operators.moves import ReassignOperator
from kafka_rebalance.workflow.run_step import run_step
from support.plans.plan_once import plan_once

CONNECTION = "kafka_in_process"
POLICY = "approvers: [uma]\nmax_bytes_share: 1.0\nmax_throttle_bytes_per_second: 100000000\n"
LOOK_SECONDS = 0.2

Event = dict[str, Any]


def set_up_airflow(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    cluster: LocalCluster,
    connection_id: str,
    policy: str,
    connection: Mapping[str, Any] | None = None,
) -> None:
    """The cluster's Airflow connection, its policy, and a folder for runs."""
    given = connection or connection_fields(cluster)
    monkeypatch.setenv(f"AIRFLOW_CONN_{connection_id.upper()}", json.dumps(given))
    monkeypatch.setenv("AIRFLOW__KAFKA_REBALANCE__RUNS_URL", str(folder / "runs"))
    monkeypatch.setenv("AIRFLOW__KAFKA_REBALANCE__POLICIES_FOLDER", str(folder / "policies"))
    monkeypatch.setattr("kafka_rebalance.run.snapshot_reader.STORM_PAUSE_SECONDS", 0.1)
    (folder / "policies").mkdir(exist_ok=True)
    (folder / "policies" / f"{connection_id}.yaml").write_text(policy)


def connection_fields(cluster: LocalCluster) -> dict[str, Any]:
    """The Airflow connection of a cluster, with ZooKeeper or without."""
    if cluster.kraft:
        return {"conn_type": "kafka_admin_api", "host": cluster.bootstrap_servers}
    extra = {"bootstrap_servers": cluster.bootstrap_servers}
    return {"conn_type": "kafka_zookeeper", "host": cluster.zookeeper, "extra": extra}


def open_lease(cluster_id: str) -> ThrottleLease | None:
    """The lease below `runs_url` that nobody has given back."""
    lease = lease_files.read(airflow_deployment(), cluster_id)
    return None if lease is None or lease.released_at is not None else lease


class InProcessRun:
    """Steps are called in order; each may be called again, as a cleared or retried task would be."""

    def __init__(
        self,
        folder: Path,
        cluster: LocalCluster,
        monkeypatch: pytest.MonkeyPatch,
        run_id: str = "one",
        connection: Mapping[str, Any] | None = None,
    ) -> None:
        """`connection`: the fields of the Airflow connection; by default one without any security."""
        set_up_airflow(monkeypatch, folder, cluster, CONNECTION, POLICY, connection)
        self.dag_run = SimpleNamespace(
            dag_id="kafka_rebalance", run_id=run_id, triggering_user_name="olive", run_type="manual"
        )
        self.xcom: dict[str, Any] = {}
        self.decision: dict[str, Any] = {}
        self.stay_seconds = 0.0  # `reassign` defers each batch
        self.deferred: TaskDeferred | None = None  # of the last call of `reassign`
        self.said: list[str] = []  # what the last call of `follow` has logged so far

    @property
    def folder(self) -> Path:
        return Path(self.xcom["run_folder"])

    def plan(self, **params: Any) -> dict[str, Any]:
        """Snapshot and proposals; returns proposals.json."""
        instance = SimpleNamespace(xcom_push=self.xcom.__setitem__)
        run_step(take_snapshot, self.dag_run, {"kafka_conn_id": CONNECTION, **params}, ti=instance)
        settings = read_settings(self.folder)
        plan_once(self.folder, settings)
        run_step(render_report, self.dag_run, str(self.folder))
        return json_files.read_json(self.folder, json_files.PROPOSALS)

    def plan_lists(self, topic: str, lists: Mapping[int, Sequence[int]], **params: Any) -> dict[str, Any]:
        """As `plan`, with these lists of a topic as the one candidate, "given"."""
        assignment = {TopicPartition(topic, partition): replicas for partition, replicas in lists.items()}
        return self.plan(plan=format_reassignment(assignment), candidates=[], **params)

    def approve(self, choice: str, throttle_bytes_per_second: int, throttle_from: int | None = None) -> None:
        """What `approve` leaves behind when uma picks a candidate."""
        proposals, proposals_digest = PROPOSALS_FILE.read_with_digest(self.folder)
        snapshot, request_digest = SNAPSHOT_FILE.read_with_digest(self.folder)
        digest = offered_digests(proposals, stopped_candidates(self.folder, proposals_digest))[choice]
        decision = {
            "choice": choice,
            "digest": digest,
            "snapshot_digest": proposals.snapshot_digest,
            "request_digest": request_digest,
            "policy_digest": snapshot.policy_digest,
            "approved_by": {"id": "3", "name": "uma"},  # as FAB has them
            "approved_at": datetime.now(UTC).isoformat(),
            "note": "",
            "throttle_bytes_per_second": throttle_bytes_per_second,
        }
        if throttle_from is not None:
            decision["throttle_from_bytes_per_second"] = throttle_from
        decision_digest = json_files.write_json(self.folder, json_files.DECISION, decision)
        self.decision = {
            "choice": choice,
            "digest": digest,
            "decision_digest": decision_digest,
            "run_folder": str(self.folder),
            "nonce": self.xcom["nonce"],
        }

    def approve_within(self, **window: Any) -> None:
        """As if the run had been asked for with this window, and been approved with it."""
        snapshot = json_files.read_json(self.folder, json_files.SNAPSHOT)
        asked = {**snapshot, "window": {**snapshot["window"], **window}}
        json_files.write_json(self.folder, json_files.SNAPSHOT, asked)
        approved = json_files.read_json(self.folder, json_files.DECISION) | {"request_digest": digest_of(asked)}
        self.decision["decision_digest"] = json_files.write_json(self.folder, json_files.DECISION, approved)

    def hold(self) -> None:
        run_step(hold_throttle, self.dag_run, self.decision)

    def request(self) -> int | None:
        """One call of `reassign`: the batch it follows from then on, None when all are in place."""
        return self._deferred(lambda operator: operator.execute({"dag_run": self.dag_run}))

    def resume(self, seen: BatchSeen | Event) -> int | None:
        """`reassign` woken by what was seen, or by a trigger's event: the next batch, or None."""
        event = seen.to_event() if isinstance(seen, BatchSeen) else seen
        return self._deferred(lambda operator: operator.resume({"dag_run": self.dag_run}, event))

    def follow(
        self, batch: int, *, stall_seconds: float = 60, until: Callable[[], bool] = lambda: False
    ) -> tuple[BatchSeen | None, list[str]]:
        """The trigger's looks at one batch, until it fires or `until` holds; with what it logged."""
        self.said = said = []
        follower = BatchFollower(
            read_connection(CONNECTION), self.folder, self.decision["choice"], batch, stall_seconds
        )
        deadline = time.monotonic() + 120
        try:
            while time.monotonic() < deadline:
                event = follower.look(time.time(), said.append)
                if event is not None or until():
                    return event, said
                time.sleep(LOOK_SECONDS)
        finally:
            follower.close()
        raise TimeoutError(f"batch {batch} is not over: {said[-3:]}")

    def reassign(self) -> int:
        """All batches, one after the other; returns how many were followed."""
        batch, followed = self.request(), 0
        while batch is not None:
            event, _ = self.follow(batch)
            assert event is not None
            batch, followed = self.resume(event), followed + 1
        return followed

    def release(self) -> dict[str, Any]:
        return run_step(release_throttle, self.dag_run, self.decision)

    def finish(self) -> dict[str, Any]:
        """Elections, release, verification and record; returns verification.json."""
        run_step(elect_leaders, self.dag_run, self.decision)
        self.release()
        run_step(verify, self.dag_run, self.decision)
        run_step(record, self.dag_run, self.decision)
        return json_files.read_json(self.folder, json_files.VERIFICATION)

    def carry_out(self, choice: str, throttle_bytes_per_second: int = 50_000_000) -> dict[str, Any]:
        """From the approval to verification.json, which it returns."""
        self.approve(choice, throttle_bytes_per_second)
        self.hold()
        self.reassign()
        return self.finish()

    def _deferred(self, call: Callable[[ReassignOperator], None]) -> int | None:
        self.deferred = None
        operator = ReassignOperator(task_id="reassign", decision=self.decision, stay_seconds=self.stay_seconds)
        try:
            call(operator)
        except TaskDeferred as deferred:
            self.deferred = deferred
            batch: int | None = getattr(deferred.trigger, "batch", None)
            return batch
        return None
