"""Clusters of the page "Kafka balance": their nightly checks, runs and ledger, in Airflow's database and in folders."""

from __future__ import annotations

import json
import math
import shutil
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from sqlalchemy import insert

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.folder_owner import FolderOwner
from kafka_rebalance.documents.json_files import NONCE, VERDICT, write_json
from kafka_rebalance.run import ledger
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from support.airflow.airflow_home import RUNS
from support.airflow.web_run import Run, janitor_report, waiting
from support.airflow.web_stages import of_today, run_at
from support.documents import report_samples as samples

CLUSTER = "orders-prod"  # where web_run puts its folders
TIB = 2**40


def disks(broker: int, share: float, days: float | None) -> dict[str, Any]:
    """Of one broker whose disk is the fullest, and full first in so many days; None: no disk fills up."""
    first = None if days is None else {"broker": broker, "days": days, "growth_bytes_per_day": TIB // 100}
    fullest = {"broker": broker, "used_bytes": int(share * 4 * TIB), "capacity_bytes": 4 * TIB}
    return {"fullest": fullest, "first_full": first, "growth_is_known": True}


TOO_SMALL = {
    "rule": "batch_too_big",
    "severity": "error",
    "topics": [samples.HOSTILE],
    "topic_count": 1,
    "brokers": [],
    "text": "x",
    "source": "",
    "remedy": "",
    "words": f"topic {samples.HOSTILE}: too small",
}


def verdict(name: str = CLUSTER, **changes: Any) -> dict[str, Any]:
    """What a nightly check finds: bytes on disk past the limit, an error in the segment settings, a disk that fills."""
    return {
        "connection_id": name,
        "imbalance": 0.31,
        "resource": "disk",
        "limit": 0.2,
        "rack_violations": 0,
        "skew": {"disk": 0.31, "leaders": 0.05},
        "text": "bytes on disk are 31 % off their share on the worst broker, the limit is 20 %",
        "segment_errors": 1,
        "segment_warnings": 0,
        "segments": {"topics": 1, "brokers": 1, "errors": 1, "warnings": 0, "findings": [TOO_SMALL]},
        "controller": samples.controller(),
        "observed_at": datetime.now(UTC).isoformat(),
        "disks": disks(4, 0.71, 90.0),
        **changes,
    }


def checked(name: str = CLUSTER, state: str = "success", **changes: Any) -> str:
    """A nightly check of one cluster; returns its run's id."""
    run_id = f"scheduled__{uuid4().hex}"
    with create_session() as session:
        session.add(DagRun(dag_id="kafka_balance_check", run_id=run_id, run_type="scheduled", state="success",
                           run_after=datetime.now(UTC)))  # fmt: skip
        session.flush()
        session.execute(insert(TaskInstance).values(
            id=uuid4(), task_id="cluster.check", dag_id="kafka_balance_check", run_id=run_id, map_index=0, state=state,
            _rendered_map_index=name, pool="default_pool", try_number=1, max_tries=0, pool_slots=1, priority_weight=1,
            queue="default",
        ))  # fmt: skip
    if state == "success":
        folder = RUNS / name / run_id / "1"
        folder.mkdir(parents=True)
        found = verdict(name, **changes)
        write_json(folder, NONCE, {"nonce": run_id, "owner": FolderOwner("kafka_balance_check", run_id, name, 1)})
        write_json(folder, VERDICT, found)
        row = {"limit": found["limit"], "imbalance": found["imbalance"]} | {
            f"skew_{resource}": value for resource, value in found["skew"].items()
        }
        ledger.append(airflow_deployment(), "balance", name, run_id, datetime.now(UTC), [row])
    return run_id


def rebalanced(state: str = "running", name: str = CLUSTER, **documents: Any) -> Run:
    """A run in Airflow's state, with these documents in its folder (`runs / connection / run / attempt`)."""
    run = Run(state=state)
    run.folder = RUNS / name / uuid4().hex / "1"
    run.ready()
    for document, content in documents.items():
        write_json(run.folder, f"{document}.json", content)
    return run


WELL: dict[str, Any] = {
    "segment_errors": 0,
    "segments": {"topics": 1, "brokers": 1, "errors": 0, "warnings": 0, "findings": []},
    "text": "replicas are 6 % off their share on the worst broker",
}


def forget_all() -> None:
    """The newest runs of a test must not be those of another."""
    with create_session() as session:
        session.query(DagRun).delete()
    for kept in ("ledger", json_files.JANITOR):
        shutil.rmtree(RUNS / kept, ignore_errors=True)


def nights(name: str, skew: float, *, before: float | None = None) -> None:
    """A month of nightly checks in the ledger. The skew rises or falls from `before` to that of today."""
    now, first = datetime.now(UTC), skew if before is None else before
    for night in range(29, 0, -1):
        off = first + (skew - first) * (1 - night / 29) ** 2 + 0.01 * math.sin(night)
        row = {"imbalance": off, "skew_disk": off, "skew_leaders": 0.7 * off, "limit": 0.2}
        ledger.append(airflow_deployment(), "balance", name, f"{night}", now - timedelta(days=night), [row])


def _well(name: str, skew: float = 0.06, **changes: Any) -> None:
    checked(name, **WELL, imbalance=skew, skew={"disk": skew, "leaders": 0.7 * skew}, **changes)
    janitor_report(name, datetime.now(UTC))


def twelve(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Twelve clusters in every state: {name: health}, in the order of the Variable, which is that of the alphabet."""
    expected = {
        "ap-clicks": "ok", "ap-orders": "watch", "eu-audit": "unknown", "eu-billing": "act", "eu-clicks": "act",
        "eu-invoices": "watch", "eu-orders": "act", "eu-payments": "watch", "us-billing": "answer",
        "us-clicks": "watch", "us-ledger": "watch", "us-orders": "ok",
    }  # fmt: skip
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_REBALANCE_CLUSTERS", json.dumps(list(expected)))
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_REBALANCE_FREEZE", '["us-ledger"]')
    ends = {"ap-clicks": 0.05, "eu-invoices": 0.27, "us-orders": 0.09, "us-ledger": 0.11, "eu-billing": 0.16}
    for name, skew in (ends | {"eu-clicks": 0.14, "us-billing": 0.38, "us-clicks": 0.33, "eu-orders": 0.29}).items():
        nights(name, skew, before=0.1 if skew > 0.2 else 0.3)
    for name, skew in ends.items():
        _well(name, skew, disks=disks(2, 0.4 + skew, None if skew > 0.1 else 200.0))
    run_at("verified", RUNS / "ap-clicks" / uuid4().hex / "1")
    run_at("verified", RUNS / "us-orders" / uuid4().hex / "1")
    run_at("failed", RUNS / "eu-billing" / uuid4().hex / "1")
    _well("eu-clicks", 0.14, disks=disks(11, 0.88, 3.4))
    run_at("paused", RUNS / "eu-orders" / uuid4().hex / "1")
    _well("eu-orders", 0.29)
    log_dir = {"broker": 7, "path": "/data2", "used_bytes": 86, "total_bytes": 100}
    _well("eu-payments", 0.18, disks=disks(7, 0.79, 24.0) | {"fullest_log_dir": log_dir}, has_policy=False)
    _well("us-billing", 0.38)
    waiting(run_at("waiting", RUNS / "us-billing" / uuid4().hex / "1"), "Rebalance of us-billing: 412 GiB, about 3 h")
    _well("us-clicks", 0.33)
    moving = run_at("executing", RUNS / "us-clicks" / uuid4().hex / "1")
    write_json(moving.folder, json_files.PROGRESS, of_today(samples.progress(anomalies=[])))
    janitor_report("eu-orders", datetime.now(UTC), lock="kafka_rebalance/manual__2026-05-03T14:31:58+00:00")
    janitor_report("us-clicks", datetime.now(UTC), lock="kafka_rebalance/manual__2026-05-03T14:31:58+00:00")
    damaged = checked("eu-audit")
    (RUNS / "eu-audit" / damaged / "1" / VERDICT).write_text('{"format_version": 9}')
    return expected
