"""Waits for the run's `not_before`, then takes the cluster's lock and sets the throttle."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from kafka_rebalance.workflow.retries import fails_without_retry, step_inputs

if TYPE_CHECKING:
    from airflow.sdk import Context


class HoldThrottleOperator(BaseOperator):
    """Deferrable: until then the run holds neither lock nor throttle, and takes no worker's slot."""

    template_fields = ("decision",)

    def __init__(self, *, decision: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.decision = decision

    @fails_without_retry
    def execute(self, context: Context) -> dict[str, Any]:
        return self._hold(context)

    @fails_without_retry
    def resume(self, context: Context, event: Mapping[str, Any]) -> dict[str, Any]:
        """The time has come, or somebody has asked to stop."""
        return self._hold(context)

    def _hold(self, context: Context) -> dict[str, Any]:
        from kafka_rebalance.errors import StoppedError
        from kafka_rebalance.execution.time_window import read_window
        from kafka_rebalance.workflow.run.approved import read_approved
        from kafka_rebalance.workflow.run.control import read_control
        from kafka_rebalance.workflow.throttle import throttling
        from kafka_rebalance.workflow.triggers import PauseTrigger

        plan = read_approved(self.decision, context["dag_run"])
        window = read_window(plan.snapshot.get("window") or {})
        until = window.waits_until(datetime.now(UTC))
        if until is None:
            return throttling.hold(step_inputs(context["dag_run"]), self.decision)
        asked = read_control(plan.folder).stop_after_batch
        if asked is not None:
            raise StoppedError(
                f"The run was stopped before its not_before, {until.isoformat()}, as {asked} asked. Neither lock nor "
                "throttle was taken, and nothing was moved. Start a new Dag run to plan from the current cluster."
            )
        self.log.info("Neither lock nor throttle is taken before %s", until.isoformat())
        self.defer(
            trigger=PauseTrigger(
                connection_id=plan.connection_id,
                run_folder=str(plan.folder),
                not_before=until.isoformat(),
                until=window.finish_by.isoformat() if window.finish_by is not None else None,
            ),
            method_name="resume",
        )
        raise AssertionError("defer does not return")
