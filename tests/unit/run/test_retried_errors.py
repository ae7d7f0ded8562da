"""Which errors end a task for good, and what an error of storage says of the cluster."""

from __future__ import annotations

import errno

import pytest

from kafka_rebalance import errors
from kafka_rebalance.model.cluster_writes import Kind, note
from kafka_rebalance.run.retried_errors import final_text, is_final, telling_cluster_writes


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


@pytest.mark.parametrize(
    "failed",
    [
        errors.ReadError("Away."),
        errors.AuthenticationError("Refused."),
        errors.LockHeldError("Held."),
        errors.StaleProposalError("Moved."),
        errors.ArtifactError("Cut."),
        errors.PolicyError("Wrong."),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_that_comes_at_any_time_says_what_this_try_has_changed_and_how_far_the_run_is(
    failed: errors.RebalanceError,
) -> None:
    text = str(failed)
    with pytest.raises(type(failed)) as raised, telling_cluster_writes(lambda: "One batch is in place."):
        raise failed
    unchanged = "This try of the task had changed nothing in the cluster."
    assert str(raised.value) == f"{text} {unchanged} One batch is in place."


def test_an_error_of_a_form_or_a_plan_says_itself_that_nothing_was_written_unless_the_run_has_begun() -> None:
    for failed in (errors.SettingsError("Nothing was read or written."), errors.PlanningError("Nothing was planned.")):
        text = str(failed)
        with pytest.raises(type(failed)) as raised, telling_cluster_writes(lambda: ""):
            raise failed
        assert str(raised.value) == text


def test_a_refusal_after_a_change_names_the_change() -> None:
    def refuse() -> None:
        note(Kind.TOPIC, "orders")
        raise errors.KafkaRuleError("Invalid value.", "This request changed nothing.")

    with pytest.raises(errors.KafkaRuleError) as raised, telling_cluster_writes(lambda: ""):
        refuse()
    assert str(raised.value) == (
        "Invalid value. This request changed nothing. Before that, this try of the task had written topic orders."
    )


def test_where_there_was_nothing_to_do_nothing_is_added() -> None:
    with pytest.raises(errors.NothingToDoError, match=r"^Nothing runs$"), telling_cluster_writes(lambda: "One batch."):
        raise errors.NothingToDoError("Nothing runs")
