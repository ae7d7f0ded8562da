"""A run's folder with real proposals, the approval task on it, and what Airflow would hand over."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator

from kafka_rebalance.documents import json_files
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.tables.read_problem import write_snapshot
from kafka_rebalance.run import ledger
from kafka_rebalance.run.run_folder import create_run_folder
from kafka_rebalance.segments.audit_io import write_audit
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.operators.approval import ApprovalOperator
from support.documents.segment_configs import configs_document
from support.plans.plan_once import plan_once
from support.runs.asked_run import answer_event, approval_context

APPROVAL = "kafka_rebalance.rebalance.request.CandidateApproval"
POLICY = "approvers: [uma, olive]\nmax_bytes_share: 1.0\nmax_throttle_bytes_per_second: 5000000\n"
BROKERS = [{"broker": number, "rack": f"r{number % 3}"} for number in (1, 2, 3, 4)]
SKEWED = [
    {"topic": "orders", "partition": number, "replicas": [1, 2], "isr": [1, 2], "leader": 1, "size_bytes": 1_000_000}
    for number in range(6)
]
LEADERS_EVEN = [  # nothing to gain by re-ordering: each list has one replica
    {"topic": "orders", "partition": number, "replicas": [1], "size_bytes": 1_000_000} for number in range(4)
]
EVEN = [{"topic": "orders", "partition": 0, "replicas": [1, 2, 3, 4], "size_bytes": 1_000_000}]


class Asked(Exception):
    """Airflow parks the task; what it would show is on the operator."""


class World:
    """A run's folder with real proposals, the operator on it, and what Airflow would hand over."""

    def __init__(
        self,
        root: Path,
        monkeypatch: pytest.MonkeyPatch,
        partitions: list[dict[str, Any]],
        topic_config: dict[str, str],
    ) -> None:
        monkeypatch.setenv("AIRFLOW__KAFKA_REBALANCE__RUNS_URL", str(root / "runs"))
        monkeypatch.setenv("AIRFLOW__KAFKA_REBALANCE__POLICIES_FOLDER", str(root))
        self.policy_file = root / "prod.yaml"
        self.policy_file.write_text(POLICY)
        policy = Policy.from_mapping(
            {"approvers": ["uma", "olive"], "max_bytes_share": 1.0, "max_throttle_bytes_per_second": 5_000_000}, "test"
        )
        self.dag_run = SimpleNamespace(
            dag_id="kafka_rebalance", run_id="run", triggering_user_name="olive", run_type="manual"
        )
        folder, self.nonce = create_run_folder(airflow_deployment(), "prod", self.dag_run)
        self.folder = Path(str(folder))
        settings = policy.tighten(Settings(), cluster_bytes=300_000_000, brokers=len(BROKERS))
        digest = write_snapshot(self.folder / "snapshot", BROKERS, partitions)
        json_files.write_json(self.folder, json_files.SETTINGS, settings.to_mapping())
        json_files.write_json(
            self.folder,
            json_files.SNAPSHOT,
            {
                "connection_id": "prod",
                "cluster_id": "abc",
                "controller": None,
                "observed_at": "2026-11-21T00:00:00+00:00",
                "dag_id": "kafka_rebalance",
                "run_id": "run",
                "requested_by": "olive",
                "reason": "because",
                "settings": settings.to_mapping(),
                "policy": policy.to_mapping(),
                "policy_digest": policy.digest,
                "snapshot_digest": digest,
                "brokers": 4,
                "partitions": len(partitions),
                "cluster_bytes": 12_000_000,
                "nonce": self.nonce,
            },
        )
        json_files.write_json(self.folder / "snapshot", json_files.CONFIGS, configs_document({"orders": topic_config}))
        plan_once(self.folder, settings)
        write_audit(self.folder, None)
        self.xcom: dict[str, Any] = {}
        self.operator = ApprovalOperator(
            task_id="approve", approval=APPROVAL, run_folder=str(self.folder), nonce=self.nonce
        )
        behind = [EmptyOperator(task_id=name) for name in ("hold_throttle", "reassign", "release_throttle", "verify")]
        behind[2].is_teardown = True
        self.context = approval_context(self.dag_run, self.xcom, behind)

    def asked_by(self, name: str | None, **requester: Any) -> None:
        """What the snapshot has written of who asked."""
        written = json_files.read_json(self.folder, json_files.SNAPSHOT)
        json_files.write_json(
            self.folder, json_files.SNAPSHOT, {**written, "requested_by": name, "requester": requester}
        )

    @property
    def proposals(self) -> dict[str, Any]:
        return json_files.read_json(self.folder, json_files.PROPOSALS)

    @property
    def noted(self) -> list[dict[str, Any]]:
        """The ledger's rows of answers."""
        found = ledger.read(airflow_deployment(), "decisions", "prod", 1)
        assert found.unreadable == ()
        return found.rows

    @property
    def decision(self) -> dict[str, Any]:
        return json_files.read_json(self.folder, json_files.DECISION)

    def ask(self) -> ApprovalOperator:
        with pytest.raises(Asked):
            self.operator.execute(self.context)
        return self.operator

    def option(self, name: str) -> str:
        return next(option for option in self.operator.options if option.startswith(name))

    def answer(self, option: str, user: str | None = "uma", **form: Any) -> Any:
        at, given = datetime(2026, 11, 21, tzinfo=UTC), {"throttle_bytes_per_second": 2_000_000, **form}
        event = answer_event(option, user, at, **given)
        return self.operator.execute_complete(self.context, event)
