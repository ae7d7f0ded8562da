"""Which errors are worth a retry: servers and storage that were away are; an answer, a plan or a setting that is
wrong is not.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

from airflow.sdk.exceptions import AirflowFailException

from kafka_rebalance.documents.storage import storage_error
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
from kafka_rebalance.model.cluster_writes import ClusterWrite, Kind, noted
from kafka_rebalance.model.finding import some

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

    telling = tells_cluster_writes(function)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return telling(*args, **kwargs)
        except PASSING:
            raise
        except FINAL as final:
            raise AirflowFailException(f"{type(final).__name__}: {final}") from final

    return call


def tells_cluster_writes(function: Callable[P, R]) -> Callable[P, R]:
    """Errors of storage also say what was changed in the cluster by then: who reads or writes a file cannot know."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        with noted() as writes:
            try:
                return function(*args, **kwargs)
            except StorageError as failed:
                raise type(failed)(f"{failed} {in_words(writes)}") from failed
            except OSError as failed:
                if failed.filename is None:
                    raise  # of no file
                told = storage_error(f"{failed.filename} cannot be used", failed)
                raise StorageError(f"{told} {in_words(writes)}") from failed

    return call


_WORDS = {
    Kind.LOCK_TAKEN: "taken the cluster's lock",
    Kind.LOCK_GIVEN_BACK: "given the cluster's lock back",
    Kind.CONFIG: "changed the throttle or config of {}",
    Kind.REASSIGNMENT: "requested a reassignment",
    Kind.ELECTION: "requested an election of preferred leaders",
    Kind.TOPIC: "written topic {}",
    Kind.DELETION: "requested the deletion of topic {}",
    Kind.CANCEL: "cancelled the reassignment of {}",
    Kind.CONTROLLER: "had another controller elected",
}


def in_words(writes: Sequence[ClusterWrite]) -> str:
    """What was changed in the cluster, in its order, and what becomes of it."""
    if not writes:
        return "This try of the task had changed nothing in the cluster."
    subjects: dict[Kind, list[str]] = {}
    for one in writes:
        known = subjects.setdefault(one.kind, [])
        if one.subject not in known:
            known.append(one.subject)
    said = [_WORDS[kind].format(some(names)) for kind, names in subjects.items()]
    text = f"Before that, this try of the task had {'; '.join(said)}."
    if any(not one.is_certain for one in writes):
        text += " The connection was lost meanwhile, so the last of it may not have been written."
    if Kind.REASSIGNMENT in subjects:
        text += " Copies that were requested go on by themselves, and the throttle stays on them."
    lock = [one.kind for one in writes if one.kind in (Kind.LOCK_TAKEN, Kind.LOCK_GIVEN_BACK)]
    if lock and lock[-1] is Kind.LOCK_TAKEN:
        text += " The run holds the lock. If it does not go on, kafka_throttle_janitor gives the lock back."
    return text
