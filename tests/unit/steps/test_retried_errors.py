"""Which errors end a task for good, and what an error of storage says of the cluster."""

from __future__ import annotations

import errno

import pytest

from kafka_rebalance import errors
from kafka_rebalance.model.cluster_writes import Kind, note
from kafka_rebalance.steps.retried_errors import final_text, is_final, telling_cluster_writes


@pytest.mark.parametrize(
    ("error", "final"),
    [
        (errors.PolicyError("no"), True),
        (errors.FrozenError("frozen"), True),
        (errors.StaleProposalError("moved"), True),
        (errors.RunFolderError("another's"), True),
        (errors.VerificationError("not there"), True),
        (errors.NotInSyncError("not in sync now"), False),
        (errors.StorageError("away"), False),
        (errors.ReadError("away"), False),
        (errors.LockLostError("taken over"), False),
        (errors.NothingToDoError("nothing runs"), False),
        (OSError("away"), False),
        (KeyError("a mistake of ours"), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_wrong_answer_is_final_and_a_server_that_is_away_is_not(error: Exception, final: bool) -> None:
    assert is_final(error) is final


def test_a_final_failure_names_its_kind() -> None:
    assert final_text(errors.PolicyError("There is no policy.")) == "PolicyError: There is no policy."


@pytest.mark.parametrize("failed", [errors.StorageError("Full."), OSError(errno.ENOSPC, "full", "file")])
def test_an_error_of_storage_says_what_was_written_to_the_cluster_by_then(failed: Exception) -> None:
    def break_off(*kinds: Kind) -> None:
        for kind in kinds:
            note(kind)
        raise failed

    with pytest.raises(errors.StorageError, match="had changed nothing in the cluster"), telling_cluster_writes():
        break_off()
    with pytest.raises(errors.StorageError, match=r"had requested a reassignment\. Copies"), telling_cluster_writes():
        break_off(Kind.REASSIGNMENT)


def test_any_other_error_is_left_as_it_is() -> None:
    told = OSError("the socket is gone")
    with pytest.raises(OSError, match="the socket is gone") as raised, telling_cluster_writes():
        raise told
    assert raised.value is told
