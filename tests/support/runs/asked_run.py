"""A run that asks for an approval, its tasks called in this process; of Airflow there are XCom and context alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.hitl import HITLOperator


class AskedRun:
    """Steps are called in order; each may be called again, as a cleared or retried task would be."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, dag_id: str, behind: Sequence[str], run_id: str, by: str
    ) -> None:
        """`behind` are the tasks that follow `approve`; `by` is who triggered the run."""
        monkeypatch.setattr(HITLOperator, "execute", lambda operator, context: None)
        self.dag_run = SimpleNamespace(dag_id=dag_id, run_id=run_id, triggering_user_name=by, run_type="manual")
        self.xcom: dict[str, Any] = {}
        following = [EmptyOperator(task_id=name) for name in behind]
        self._context = {
            "dag_run": self.dag_run,
            "task": SimpleNamespace(get_flat_relatives=lambda upstream: following),
            "ti": SimpleNamespace(
                xcom_push=self._push,
                xcom_pull=lambda task_ids, key: self.xcom.get(key),
                task_id="approve",
                map_index=-1,
            ),
        }

    def _push(self, key: str, value: Any) -> None:
        self.xcom[key] = value

    @property
    def folder(self) -> Path:
        return Path(self.xcom["run_folder"])
