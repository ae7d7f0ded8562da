"""Requests the approved copies between log dirs, and follows them until every replica is in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_rebalance.workflow.operators.moves import MovesOperator
from kafka_rebalance.workflow.run_step import step_inputs

if TYPE_CHECKING:
    from airflow.sdk import Context

    from kafka_rebalance.run.batch_seen import BatchSeen


class MoveLogDirsOperator(MovesOperator):
    """The worker stays after each request, so that small replicas follow each other without a wait."""

    def _advance(self, context: Context, seen: BatchSeen | None) -> None:
        from kafka_rebalance.log_dirs.move_replicas import move_replicas
        from kafka_rebalance.run.checks.batch_wait import Wait
        from kafka_rebalance.workflow.triggers import CopiesTrigger, PauseTrigger

        step = move_replicas(step_inputs(context["dag_run"]), self.decision, seen, self.stay_seconds)
        if step is None:
            return
        given = step.to_arguments()
        waits = isinstance(step, Wait)
        trigger = PauseTrigger(**given) if waits else CopiesTrigger(**given, stall_seconds=self.stall_seconds)
        self.defer(trigger=trigger, method_name="resume")
