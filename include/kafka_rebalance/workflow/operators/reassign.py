"""Runs the approved batches. For each it writes the request, follows it to the end and elects preferred leaders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka_rebalance.workflow.operators.moves import MovesOperator
from kafka_rebalance.workflow.run_step import step_inputs

if TYPE_CHECKING:
    from airflow.sdk import Context

    from kafka_rebalance.run.batch_seen import BatchSeen


class ReassignOperator(MovesOperator):
    """It looks at a batch every `poll_seconds` at its beginning and near its end. In the middle of a long copy it looks
    only every `slowest_poll_seconds`. The worker stays only if a batch should end within `stay_seconds`.
    """

    def __init__(self, *, poll_seconds: float = 0.5, slowest_poll_seconds: float = 15.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.poll_seconds = poll_seconds
        self.slowest_poll_seconds = slowest_poll_seconds

    def _advance(self, context: Context, seen: BatchSeen | None) -> None:
        from kafka_rebalance.rebalance.request_batch import Pace, reassign
        from kafka_rebalance.run.checks.batch_wait import Wait
        from kafka_rebalance.workflow.triggers import BatchTrigger, PauseTrigger

        pace = Pace(self.poll_seconds, self.slowest_poll_seconds, self.stall_seconds, self.stay_seconds)
        step = reassign(step_inputs(context["dag_run"]), self.decision, seen, pace)
        if step is None:
            return
        given = {**step.to_arguments(), "poll_seconds": pace.quickest, "slowest_poll_seconds": pace.slowest}
        waits = isinstance(step, Wait)
        trigger = PauseTrigger(**given) if waits else BatchTrigger(**given, stall_seconds=pace.stall)
        self.defer(trigger=trigger, method_name="resume")
