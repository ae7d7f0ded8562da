"""The deployment that Airflow's configuration describes: steps run there, and pages read from there.

It reads little when it is imported: Dags import it, and they are read every half minute.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from airflow.sdk import ObjectStoragePath
from airflow.sdk.configuration import conf

import kafka_rebalance
from kafka_rebalance.documents.storage import FolderOfRuns
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.steps.deployment import Deployment
from kafka_rebalance.workflow import airflow_state

SECTION = "kafka_rebalance"
PROJECT = Path(kafka_rebalance.__file__).parents[1]


def airflow_deployment() -> Deployment:
    """As it is configured now: each setting can be changed by an environment that a task has for itself."""
    return Deployment(
        runs_root=_runs_root(),
        open_folder=_open_folder,
        address=conf.get("api", "base_url", fallback=""),
        policies_folder=_folder("policies_folder", PROJECT / "policies"),
        plans_folder=_folder("plans_folder", PROJECT / "plans"),
        read_connection=_read_connection,
        frozen_text=_frozen_text,
        other_runs=airflow_state,
    )


def _runs_root() -> FolderOfRuns:
    """`[kafka_rebalance] runs_url`, by default in Airflow's home."""
    configured = conf.get(SECTION, "runs_url", fallback="")
    if not configured:
        return Path(conf.get("core", "dags_folder")).parent / "kafka_rebalance_runs"
    return _open_folder(configured)


def _open_folder(url: str) -> FolderOfRuns:
    parts = urlsplit(url)
    if parts.scheme in ("", "file"):
        return Path(unquote(parts.path) if parts.scheme else url).absolute()
    folder: Any = ObjectStoragePath(url)
    return folder  # type: ignore[no-any-return]


def _folder(option: str, default: Path) -> Path:
    configured = conf.get(SECTION, option, fallback="")
    return Path(configured) if configured else default


def _read_connection(connection_id: str) -> ClusterConnection:
    from kafka_rebalance.workflow import hooks

    return hooks.read_connection(connection_id)


def _frozen_text() -> str | None:
    from kafka_rebalance.workflow import freeze_variable

    return freeze_variable.read_frozen_text()
