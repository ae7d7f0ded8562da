"""Runs the approved batches: create the znode, follow it to the end, elect preferred leaders, next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from kafka_rebalance.workflow.outcome import fails_without_retry

if TYPE_CHECKING:
    from airflow.sdk import Context


class ReassignOperator(BaseOperator):
    """Deferrable. Where it stands is read from ZooKeeper each time it wakes, so a retry writes no batch twice."""

    template_fields = ("decision",)

    def __init__(
        self,
        *,
        decision: Any,
        poll_seconds: float = 2.0,
        stall_seconds: float = 1800.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.decision = decision
        self.poll_seconds = poll_seconds
        self.stall_seconds = stall_seconds

    @fails_without_retry
    def execute(self, context: Context) -> None:
        from kafka_rebalance.workflow import batches
        from kafka_rebalance.workflow.triggers import BatchTrigger

        plan, batch = batches.request_next(self.decision)
        if batch is None:
            self.log.info("All %d batches are in place", len(plan.candidate.batches))
            return
        self.defer(
            trigger=BatchTrigger(
                connection_id=plan.connection_id,
                run_folder=self.decision["run_folder"],
                candidate=plan.candidate.name,
                batch=batch.number,
                poll_seconds=self.poll_seconds,
                stall_seconds=self.stall_seconds,
            ),
            method_name="resume",
        )

    @fails_without_retry
    def resume(self, context: Context, event: Mapping[str, Any]) -> None:
        """One batch is over, or the trigger gave up on it."""
        from kafka_rebalance.workflow import batches

        batches.finish(self.decision, event)
        self.execute(context)
