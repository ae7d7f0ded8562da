"""A run that asks for an approval, its tasks called in this process; of Airflow there are XCom and context alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.hitl import HITLOperator

from kafka_rebalance.workflow.operators.approval import ApprovalOperator
from kafka_rebalance.workflow.run_step import run_step


def approval_context(dag_run: Any, xcom: dict[str, Any], behind: Sequence[Any]) -> dict[str, Any]:
    """What Airflow gives the task `approve`; `behind` are the tasks that follow it."""

    def push(key: str, value: Any) -> None:
        xcom[key] = value

    return {
        "dag_run": dag_run,
        "task": SimpleNamespace(get_flat_relatives=lambda upstream: behind),
        "ti": SimpleNamespace(
            xcom_push=push,
            xcom_pull=lambda task_ids, key: xcom.get(key),
            task_id="approve",
            map_index=-1,
        ),
    }


def answer_event(option: str, user: Any, at: datetime | None = None, **form: Any) -> dict[str, Any]:
    """What Airflow hands over when this user has answered; a text is both id and name."""
    return {
        "chosen_options": [option],
        "params_input": {"note": None, **form},
        "responded_at": at or datetime.now(UTC),
        "responded_by_user": {"id": user, "name": user} if isinstance(user, str) else user,
    }


class AskedRun:
    """Steps are called in order; each may be called again, as a cleared or retried task would be."""

    approval: str  # the dotted name of the Dag's offers

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, dag_id: str, behind: Sequence[str], run_id: str, by: str
    ) -> None:
        """`behind` are the tasks that follow `approve`; `by` is who triggered the run."""
        monkeypatch.setattr(HITLOperator, "execute", lambda operator, context: None)
        self.dag_run = SimpleNamespace(dag_id=dag_id, run_id=run_id, triggering_user_name=by, run_type="manual")
        self.xcom: dict[str, Any] = {}
        self.operator: ApprovalOperator | None = None  # that was asked last
        self._context = approval_context(self.dag_run, self.xcom, [EmptyOperator(task_id=name) for name in behind])

    @property
    def folder(self) -> Path:
        return Path(self.xcom["run_folder"])

    def first_step(self, step: Callable[..., dict[str, Any]], connection_id: str, params: Mapping[str, Any]) -> Any:
        instance = SimpleNamespace(xcom_push=self.xcom.__setitem__)
        return run_step(step, self.dag_run, {"kafka_conn_id": connection_id, **params}, ti=instance)

    def ask(self) -> ApprovalOperator:
        """`approve` up to the moment at which it waits, or goes on where nobody is asked."""
        self.operator = ApprovalOperator(
            task_id="approve", approval=self.approval, run_folder=str(self.folder), nonce=self.xcom["nonce"]
        )
        self.operator.execute(self._context)
        return self.operator

    def answer(self, choice: str = "", user: str = "uma", **form: Any) -> None:
        """The first option that begins like this, of a request that is asked for anew."""
        self.answer_to(self.ask(), choice, user, **form)

    def answer_to(self, operator: ApprovalOperator, choice: str, user: str, **form: Any) -> None:
        chosen = next(option for option in operator.options if option.startswith(choice))
        operator.execute_complete(self._context, answer_event(chosen, user, **form))
