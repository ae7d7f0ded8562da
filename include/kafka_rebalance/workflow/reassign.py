"""Runs the approved batches: create the znode, follow it to the end, elect preferred leaders, next."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from kafka_rebalance.workflow.outcome import fails_without_retry

if TYPE_CHECKING:
    from airflow.sdk import Context


class ReassignOperator(BaseOperator):
    """Deferrable. Where it stands is read from ZooKeeper each time it wakes, so a retry writes no batch twice.

    A batch is looked at every `poll_seconds` while it is young or near its end, and up to every
    `slowest_poll_seconds` in the middle of a long copy. After `stall_seconds` without any movement it fails.
    """

    template_fields = ("decision",)

    def __init__(
        self,
        *,
        decision: Any,
        poll_seconds: float = 0.5,
        slowest_poll_seconds: float = 15.0,
        stall_seconds: float = 1800.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.decision = decision
        self.poll_seconds = poll_seconds
        self.slowest_poll_seconds = slowest_poll_seconds
        self.stall_seconds = stall_seconds

    @fails_without_retry
    def execute(self, context: Context) -> None:
        self._advance(context, None)

    @fails_without_retry
    def resume(self, context: Context, event: Mapping[str, Any]) -> None:
        """One batch is over, the trigger gave up on it, or the next one need not wait any more."""
        self._advance(context, event)

    def _advance(self, context: Context, event: Mapping[str, Any] | None) -> None:
        from kafka_rebalance.workflow import batches, triggers, waiting

        step = batches.advance(self.decision, context["dag_run"], event)
        common = {
            "connection_id": step.plan.connection_id,
            "run_folder": self.decision["run_folder"],
            "poll_seconds": self.poll_seconds,
            "slowest_poll_seconds": self.slowest_poll_seconds,
        }
        if step.batch is not None:
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


def _text(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
