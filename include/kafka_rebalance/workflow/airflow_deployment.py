"""The deployment that Airflow's configuration describes. Steps run in it, and pages read from it.

Dags import this module, and Airflow reads them every half minute. So it imports little by itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from airflow.sdk import ObjectStoragePath, conf

from kafka_rebalance.documents.storage import FolderOfRuns
from kafka_rebalance.run.deployment import Deployment
from kafka_rebalance.workflow import airflow_state, hooks

SECTION = "kafka_rebalance"


def airflow_deployment() -> Deployment:
    """Reads the configuration now, because a task may have environment variables of its own."""
    return Deployment(
        runs_root=_runs_root(),
        open_folder=_open_folder,
        address=conf.get("api", "base_url", fallback=""),
        policies_folder=Path(conf.get(SECTION, "policies_folder", fallback="") or _project() / "include" / "policies"),
        plans_folder=Path(conf.get(SECTION, "plans_folder", fallback="") or _project() / "include" / "plans"),
        read_connection=hooks.read_connection,
        has_connection=hooks.has_connection,
        frozen_text=_frozen_text,
        other_runs=airflow_state,
    )


def _runs_root() -> FolderOfRuns:
    """`[kafka_rebalance] runs_url`; by default a folder beside Airflow's Dags folder."""
    configured = conf.get(SECTION, "runs_url", fallback="")
    if configured:
        return _open_folder(configured)
    return _project() / "kafka_rebalance_runs"


def _project() -> Path:
    """The folder that holds the Dag folder."""
    return Path(conf.get("core", "dags_folder")).parent


def _open_folder(url: str) -> FolderOfRuns:
    parts = urlsplit(url)
    if parts.scheme in ("", "file"):
        return Path(unquote(parts.path) if parts.scheme else url).absolute()
    folder: Any = ObjectStoragePath(url)
    return folder  # type: ignore[no-any-return]


def _frozen_text() -> str | None:
    from kafka_rebalance.workflow import freeze_variable

    return freeze_variable.read_frozen_text()
