"""Runs the approved batches: create the znode, follow it to the end, elect preferred leaders, next."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from kafka_rebalance.workflow.retries import fails_without_retry

if TYPE_CHECKING:
    from airflow.sdk import Context

    from kafka_rebalance.workflow.reassignment import batches


class ReassignOperator(BaseOperator):
    """Deferrable. Where it stands is read from ZooKeeper each time it wakes, so a retry writes no batch twice.

    A batch is looked at every `poll_seconds` while it is young or near its end, and up to every
    `slowest_poll_seconds` in the middle of a long copy. After `stall_seconds` without any movement it fails.
    A batch that should end within `stay_seconds` is followed by the worker itself for so long: the way to the triggerer
    and back takes Airflow several seconds, in which nothing moves.
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
        """One batch is over, the trigger gave up on it, or the next one need not wait any more."""
        self._advance(context, event)

    def _advance(self, context: Context, event: Mapping[str, Any] | None) -> None:
        from kafka_rebalance.workflow import triggers
        from kafka_rebalance.workflow.reassignment import batches, followed, waiting

        with batches.open_visit(self.decision, context["dag_run"]) as visit:
            step = visit.advance(context["dag_run"], event)
            while step.batch is not None and (event := self._stay(visit, step)) is not None:
                step = visit.advance(context["dag_run"], event)
        common: dict[str, Any] = {
            "connection_id": step.plan.connection_id,
            "run_folder": str(step.plan.folder),
            "poll_seconds": self.poll_seconds,
            "slowest_poll_seconds": self.slowest_poll_seconds,
        }
        if step.batch is not None:
            followed.write_followed(step.plan.folder, step.plan.candidate, step.batch.number)
            self.defer(
                trigger=triggers.BatchTrigger(
                    **common,
                    candidate=step.plan.candidate.name,
                    batch=step.batch.number,
                    stall_seconds=self.stall_seconds,
                ),
                method_name="resume",
            )
        if step.wait is not None:
            self.log.info("The next batch waits: %s", step.wait.words)
            self.defer(
                trigger=triggers.PauseTrigger(
                    **common,
                    pause=waiting.to_arguments(step.wait.pause),
                    not_before=_text(step.wait.not_before),
                    until=_text(step.wait.until),
                ),
                method_name="resume",
            )
        self.log.info("All %d batches are in place", len(step.plan.candidate.batches))

    def _stay(self, visit: batches.Visit, step: batches.Step) -> Mapping[str, Any] | None:
        """Follows a batch that should soon be over; what a trigger would have seen, or None: one is to go on."""
        from kafka_rebalance.execution.eta import predicted_seconds
        from kafka_rebalance.workflow.reassignment.following import BatchFollower, follow_for
        from kafka_rebalance.workflow.throttle.leases import rate_in_force

        plan, batch = step.plan, step.batch
        if batch is None or predicted_seconds(batch.moves, rate_in_force(plan.folder)) > self.stay_seconds:
            return None
        follower = BatchFollower(visit.connection, str(plan.folder), plan.candidate, batch.number, self.stall_seconds)
        return follow_for(follower, self.stay_seconds, self.poll_seconds, self.slowest_poll_seconds, self.log)


def _text(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
