"""Requests the approved copies between log dirs, and follows them until every replica is in place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from kafka_rebalance.workflow.run_step import fails_without_retry, step_inputs

if TYPE_CHECKING:
    from airflow.sdk import Context

    from kafka_rebalance.steps.reassignment.batch_seen import BatchSeen


class MoveLogDirsOperator(BaseOperator):
    """Deferrable. Each time it wakes, it reads from the brokers where the replicas are.

    The worker stays `stay_seconds` after each request, so that small replicas follow each other without a wait. After
    `stall_seconds` without a byte it fails.
    """

    template_fields = ("decision",)

    def __init__(
        self, *, decision: Any, stay_seconds: float = 60.0, stall_seconds: float = 1800.0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.decision = decision
        self.stay_seconds = stay_seconds
        self.stall_seconds = stall_seconds

    @fails_without_retry
    def execute(self, context: Context) -> None:
        self._advance(context, None)

    @fails_without_retry
    def resume(self, context: Context, event: Mapping[str, Any]) -> None:
        """There is something to request, or the copies have ended or stall."""
        from kafka_rebalance.steps.reassignment.batch_seen import BatchSeen

        self._advance(context, BatchSeen.from_event(event))

    def _advance(self, context: Context, seen: BatchSeen | None) -> None:
        from kafka_rebalance.steps.log_dirs.move_replicas import move_replicas
        from kafka_rebalance.workflow.triggers import CopiesTrigger

        copying = move_replicas(step_inputs(context["dag_run"]), self.decision, seen, self.stay_seconds)
        if copying is not None:
            trigger = CopiesTrigger(**copying.to_arguments(), stall_seconds=self.stall_seconds)
            self.defer(trigger=trigger, method_name="resume")
