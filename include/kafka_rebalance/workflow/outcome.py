"""Which errors are worth a retry: servers and storage that were away are; an answer, a plan or a setting that is
wrong is not.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from airflow.sdk.exceptions import AirflowFailException

from kafka_rebalance.errors import (
    ApprovalError,
    ArtifactError,
    InputError,
    KafkaRuleError,
    LockHeldError,
    NotInSyncError,
    PlanningError,
    RefusedError,
    StaleProposalError,
    StoppedError,
    StorageError,
    VerificationError,
)

P = ParamSpec("P")
R = TypeVar("R")

FINAL = (
    ApprovalError,
    ArtifactError,
    InputError,
    KafkaRuleError,
    LockHeldError,
    PlanningError,
    RefusedError,
    StaleProposalError,
    StoppedError,
    VerificationError,
)
PASSING = (NotInSyncError, StorageError)  # of these kinds, but what another try may not meet


def fails_without_retry(function: Callable[P, R]) -> Callable[P, R]:
    """Turns errors that no retry can mend into Airflow's final failure, with their text."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except PASSING:
            raise
        except FINAL as final:
            raise AirflowFailException(f"{type(final).__name__}: {final}") from final

    return call
