"""What the operators that request moves and follow them have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from kafka_rebalance.workflow.run_step import fails_without_retry

if TYPE_CHECKING:
    from airflow.sdk import Context

    from kafka_rebalance.run.batch_seen import BatchSeen


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
        from kafka_rebalance.run.batch_seen import BatchSeen

        self._advance(context, BatchSeen.from_event(event))

    @abstractmethod
    def _advance(self, context: Context, seen: BatchSeen | None) -> None:
        """Requests what is next, and defers while there is something to follow or to wait for."""
