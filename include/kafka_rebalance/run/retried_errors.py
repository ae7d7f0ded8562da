"""Which errors are worth a retry: servers or storage that were away, but not a wrong answer, plan or setting.

And what each error says about the cluster, in this one place: the code that raises it knows only what it does itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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


# These come from code that runs at any time of a run, so it does not know what was changed before. The errors of forms
# and plans come before the first write and say so themselves.
_COME_AT_ANY_TIME = (
    errors.ApprovalError,
    errors.ArtifactError,
    errors.ClusterNotReadyError,
    errors.ConnectionSettingsError,
    errors.ExecutionError,
    errors.LockHeldError,
    errors.PolicyError,
    errors.ReadError,
    errors.StaleProposalError,
    errors.ThrottleError,
    errors.ThrottleRateError,
    errors.WriteError,
)
_NO_FAILURE = (errors.NothingToDoError, errors.ApprovalExpiredError)
_ALERTS = (errors.UnwatchedError,)  # of the janitor, whose own texts say what it has put back


@contextmanager
def telling_cluster_writes(run_so_far: Callable[[], str] = str) -> Iterator[None]:
    """Adds to each error what this try has changed in the cluster, and `run_so_far`: how far the run is.

    An OSError of a file becomes a StorageError.
    """
    with noted() as writes:
        try:
            yield
        except _NO_FAILURE:
            raise
        except errors.RebalanceError as failed:
            so_far = run_so_far()
            untold = isinstance(failed, _COME_AT_ANY_TIME) and not isinstance(failed, _ALERTS)
            known = [in_words(writes)] if writes or so_far or untold else []
            failed.args = (" ".join(filter(None, (str(failed), *known, so_far))),)
            raise
        except OSError as failed:
            if failed.filename is None:
                raise  # not an error of a file
            told = storage_error(f"{failed.filename} cannot be used", failed)
            raise errors.StorageError(" ".join(filter(None, (str(told), in_words(writes), run_so_far())))) from failed


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
    for write in writes:
        known = subjects.setdefault(write.kind, [])
        if write.subject not in known:
            known.append(write.subject)
    done = [_WORDS[kind].format(some(names)) for kind, names in subjects.items()]
    text = f"Before that, this try of the task had {'; '.join(done)}."
    if any(not write.is_certain for write in writes):
        text += " The connection was lost meanwhile, so the last of it may not have been written."
    if Kind.REASSIGNMENT in subjects:
        text += " Copies that were requested go on by themselves, and the throttle stays on them."
    lock = [write.kind for write in writes if write.kind in (Kind.LOCK_TAKEN, Kind.LOCK_GIVEN_BACK)]
    if lock and lock[-1] is Kind.LOCK_TAKEN:
        text += " The run holds the lock. If it does not go on, kafka_throttle_janitor gives the lock back."
    return text
