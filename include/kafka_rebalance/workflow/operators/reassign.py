"""Runs the approved batches. For each it writes the request, follows it to the end and elects preferred leaders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from kafka_rebalance.workflow.run_step import fails_without_retry, step_inputs

if TYPE_CHECKING:
    from airflow.sdk import Context

    from kafka_rebalance.steps.reassignment.batch_seen import BatchSeen


class ReassignOperator(BaseOperator):
    """Deferrable. Each time it wakes, it reads its position from ZooKeeper, so a retry writes no batch twice.

    It looks at a batch every `poll_seconds` at its beginning and near its end. In the middle of a long copy it looks
    only every `slowest_poll_seconds`. After `stall_seconds` without any progress it fails. If a batch should end within
    `stay_seconds`, the worker follows it for that time and does not defer.
    """

    template_fields = ("decision",)

    def __init__(
        self,
        *,
        decision: Any,
        poll_seconds: float = 0.5,
        slowest_poll_seconds: float = 15.0,
        stall_seconds: float = 1800.0,
        stay_seconds: float = 60.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.decision = decision
        self.poll_seconds = poll_seconds
        self.slowest_poll_seconds = slowest_poll_seconds
        self.stall_seconds = stall_seconds
        self.stay_seconds = stay_seconds

    @fails_without_retry
    def execute(self, context: Context) -> None:
        self._advance(context, None)

    @fails_without_retry
    def resume(self, context: Context, event: Mapping[str, Any]) -> None:
        """A batch is over, the trigger gave it up, or the next batch no longer has to wait."""
        from kafka_rebalance.steps.reassignment.batch_seen import BatchSeen

        self._advance(context, BatchSeen.from_event(event))

    def _advance(self, context: Context, seen: BatchSeen | None) -> None:
        from kafka_rebalance.execution.check.batch_wait import Wait
        from kafka_rebalance.steps.reassignment.request_batch import Pace, reassign
        from kafka_rebalance.workflow.triggers import BatchTrigger, PauseTrigger

        pace = Pace(self.poll_seconds, self.slowest_poll_seconds, self.stall_seconds, self.stay_seconds)
        step = reassign(step_inputs(context["dag_run"]), self.decision, seen, pace)
        if step is None:
            return
        given = {**step.to_arguments(), "poll_seconds": pace.quickest, "slowest_poll_seconds": pace.slowest}
        waits = isinstance(step, Wait)
        trigger = PauseTrigger(**given) if waits else BatchTrigger(**given, stall_seconds=pace.stall)
        self.defer(trigger=trigger, method_name="resume")
