"""The operators that hold the throttle, request moves and follow them. They defer while they wait."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from kafka_rebalance.workflow.run_step import by_path, fails_without_retry, step_inputs

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.triggers.base import BaseTrigger

    from kafka_rebalance.run.watch_batch import BatchSeen


# What the operators that request moves and follow them have in common.


class MovesOperator(BaseOperator):
    """Deferrable. Each time it wakes, it reads from the cluster where its moves stand, so a retry requests none twice.

    The worker itself looks for `stay_seconds` after a request. After `stall_seconds` without any progress it fails.
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
        """Moves are over, the trigger gave them up, or the next ones no longer have to wait."""
        from kafka_rebalance.run.watch_batch import BatchSeen

        self._advance(context, BatchSeen.from_event(event))

    @abstractmethod
    def _advance(self, context: Context, seen: BatchSeen | None) -> None:
        """Requests what is next, and defers while there is something to follow or to wait for."""

    def _wait_or_follow(self, step: Any, trigger: type[BaseTrigger], **more: float) -> None:
        """Defers, unless there is nothing to do any more."""
        from kafka_rebalance.run.checks.batch_wait import Wait
        from kafka_rebalance.workflow.triggers import PauseTrigger

        if step is None:
            return
        more |= {} if isinstance(step, Wait) else {"stall_seconds": self.stall_seconds}
        waiting = PauseTrigger if isinstance(step, Wait) else trigger
        self.defer(trigger=waiting(**step.to_arguments(), **more), method_name="resume")


# Runs the approved batches. For each it writes the request, follows it to the end and elects preferred leaders.


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
        from kafka_rebalance.workflow.triggers import BatchTrigger

        pace = Pace(self.poll_seconds, self.slowest_poll_seconds, self.stall_seconds, self.stay_seconds)
        step = reassign(step_inputs(context["dag_run"]), self.decision, seen, pace)
        looks = {"poll_seconds": self.poll_seconds, "slowest_poll_seconds": self.slowest_poll_seconds}
        self._wait_or_follow(step, BatchTrigger, **looks)


# Requests the approved copies between log dirs, and follows them until every replica is in place.


class MoveLogDirsOperator(MovesOperator):
    """The worker stays after each request, so that small replicas follow each other without a wait."""

    def _advance(self, context: Context, seen: BatchSeen | None) -> None:
        from kafka_rebalance.log_dirs.copies import move_replicas
        from kafka_rebalance.workflow.triggers import CopiesTrigger

        step = move_replicas(step_inputs(context["dag_run"]), self.decision, seen, self.stay_seconds)
        self._wait_or_follow(step, CopiesTrigger)


# Waits for the run's window, then takes the cluster's lock and sets the throttle.


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

        lease_or_wait = by_path(self.hold)(step_inputs(context["dag_run"]), self.decision)
        if isinstance(lease_or_wait, Wait):
            self.log.info("The run waits and holds no lock and no throttle. %s", lease_or_wait.words)
            self.defer(trigger=PauseTrigger(**lease_or_wait.to_arguments()), method_name="resume")
        return {"throttle_bytes_per_second": lease_or_wait.bytes_per_second, "entities": len(lease_or_wait.wanted)}
