"""Which errors are worth a retry: servers or storage that were away, but not a wrong answer, plan or setting.

And what an error of storage says about the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from kafka_rebalance import errors
from kafka_rebalance.documents.storage import storage_error
from kafka_rebalance.model.cluster_writes import ClusterWrite, Kind, noted
from kafka_rebalance.model.finding import some

FINAL = (
    errors.ApprovalError,
    errors.ArtifactError,
    errors.AuthenticationError,
    errors.FrozenError,
    errors.InputError,
    errors.KafkaRuleError,
    errors.LockHeldError,
    errors.PlanningError,
    errors.ReadDeniedError,
    errors.RefusedError,
    errors.SparkError,
    errors.StaleProposalError,
    errors.StoppedError,
    errors.VerificationError,
    errors.WriteDeniedError,
)
PASSING = (errors.NotInSyncError, errors.StorageError)  # of these kinds too, but the next try may succeed


def is_final(error: BaseException) -> bool:
    """Whether no retry can help."""
    return isinstance(error, FINAL) and not isinstance(error, PASSING)


def final_text(error: BaseException) -> str:
    # Half of a surrogate pair has no bytes, so neither log nor database could take the text.
    return f"{type(error).__name__}: {error}".encode(errors="backslashreplace").decode()


@contextmanager
def telling_cluster_writes() -> Iterator[None]:
    """Adds to errors of storage, and to a missing right, what was changed in the cluster before and so stays.

    The code that uses a file, or that makes one write, does not know it.
    """
    with noted() as writes:
        try:
            yield
        except (errors.StorageError, errors.WriteDeniedError) as failed:
            raise type(failed)(f"{failed} {in_words(writes)}") from failed
        except OSError as failed:
            if failed.filename is None:
                raise  # not an error of a file
            told = storage_error(f"{failed.filename} cannot be used", failed)
            raise errors.StorageError(f"{told} {in_words(writes)}") from failed


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
    Kind.LOG_DIRS: "requested or cancelled copies between log dirs of broker {}",
}


def in_words(writes: Sequence[ClusterWrite]) -> str:
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
