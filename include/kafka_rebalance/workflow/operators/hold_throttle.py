"""Waits for the run's window, then takes the cluster's lock and sets the throttle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from kafka_rebalance.workflow.run_step import by_path, fails_without_retry, step_inputs

if TYPE_CHECKING:
    from airflow.sdk import Context


HOLD_THROTTLE = "kafka_rebalance.throttle.hold_throttle.hold_throttle"


class HoldThrottleOperator(BaseOperator):
    """Deferrable. While it waits, the run holds no lock and no throttle, and takes no worker slot.

    `hold` is the dotted path of the step, which returns its lease or what it waits for.
    """

    template_fields = ("decision",)

    def __init__(self, *, decision: Any, hold: str = HOLD_THROTTLE, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.decision = decision
        self.hold = hold

    @fails_without_retry
    def execute(self, context: Context) -> dict[str, Any]:
        return self._hold(context)

    @fails_without_retry
    def resume(self, context: Context, event: Mapping[str, Any]) -> dict[str, Any]:
        """Goes on at the time, or when somebody has asked to stop."""
        return self._hold(context)

    def _hold(self, context: Context) -> dict[str, Any]:
        from kafka_rebalance.run.checks.batch_wait import Wait
        from kafka_rebalance.workflow.triggers import PauseTrigger

        held = by_path(self.hold)(step_inputs(context["dag_run"]), self.decision)
        if isinstance(held, Wait):
            self.log.info("The run waits and holds no lock and no throttle. %s", held.words)
            self.defer(trigger=PauseTrigger(**held.to_arguments()), method_name="resume")
        return {"throttle_bytes_per_second": held.bytes_per_second, "entities": len(held.wanted)}
