"""What an answer and an event meet in Airflow: once as Airflow's own classes do it, and once as this project does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import BaseOperator, Param, dag
from airflow.triggers.base import BaseTrigger, TriggerEvent

from kafka_rebalance.workflow.operators.approval import ASKED_AGAIN, PAUSE


class FiresAtAge(BaseTrigger):
    """Fires when it is so many seconds old."""

    def __init__(self, age: float) -> None:
        super().__init__()
        self.age = age

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "early_answers_dag.FiresAtAge", {"age": self.age}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        await asyncio.sleep(self.age)
        yield TriggerEvent("over")


class Defers(BaseOperator):
    template_fields = ("age",)

    def __init__(self, *, age: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.age = age

    def execute(self, context: Any) -> None:
        self.defer(trigger=FiresAtAge(float(self.age)), method_name="resume")

    def resume(self, context: Any, event: Any) -> None:
        assert event == "over"


@dag(schedule=None, catchup=False, max_active_runs=64)
def asks_once() -> None:
    HITLOperator(task_id="approve", subject="?", options=["Yes", "No"])


@dag(schedule=None, catchup=False, max_active_runs=64)
def asks_again() -> None:
    HITLOperator(task_id="approve", subject="?", options=["Yes", "No"], retries=ASKED_AGAIN, retry_delay=PAUSE)


@dag(schedule=None, catchup=False, max_active_runs=64, params={"age": Param(0.0, type="number")})
def follows() -> None:
    Defers(task_id="follow", age="{{ params.age }}", retries=0, execution_timeout=timedelta(minutes=5))


asks_once()
asks_again()
follows()
