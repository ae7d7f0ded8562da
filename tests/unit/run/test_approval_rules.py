"""Which answers to an approval request count."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kafka_rebalance.errors import ApprovalError, StaleProposalError
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.moves.windows import CLOCKS_MAY_DIFFER
from kafka_rebalance.run.approval_rules import (
    REJECT,
    Answer,
    Requester,
    check_answer,
    check_approval_fresh,
    check_approvers,
    check_policy_unchanged,
    labels,
    on_buttons,
)

DIGESTS = {"balanced": "9f3a1c2e" + "0" * 56, "light": "77aa0011" + "0" * 56}
OLIVE = Requester(name="olive", automatic=False)
NIGHTLY = Requester(name=None, automatic=True)
NOBODY_KNOWS = Requester(name=None, automatic=False)


def policy(*approvers: object, **more: object) -> Policy:
    return Policy.from_mapping({"approvers": list(approvers), **more}, "test.yaml")


def answer(option: str, user_id: str | None, name: str | None = None, throttle: int | None = None) -> Answer:
    return Answer(option, user_id, name if name is not None else user_id, throttle)


def test_a_label_carries_the_first_eight_characters_of_the_digest_and_reject_comes_last() -> None:
    assert labels(DIGESTS) == ("balanced · 9f3a1c2e", "light · 77aa0011", "Reject")


def test_an_approver_who_is_not_the_requester_chooses_a_candidate() -> None:
    assert check_answer(answer("light · 77aa0011", "uma"), DIGESTS, policy("uma", "olive"), OLIVE) == "light"


def test_an_answer_for_another_digest_fails_closed() -> None:
    with pytest.raises(ApprovalError, match="cleared task shows the request of the earlier plan"):
        check_answer(answer("balanced · 00000000", "uma"), DIGESTS, policy("uma"), OLIVE)


def test_the_requester_is_not_among_the_approvers() -> None:
    assert [person.id for person in check_approvers(policy("uma", "olive"), OLIVE)] == ["uma"]
    with pytest.raises(ApprovalError, match="only uma may give it"):
        check_answer(answer("balanced · 9f3a1c2e", "olive"), DIGESTS, policy("uma", "olive"), OLIVE)


def test_the_requester_may_approve_where_the_policy_says_so() -> None:
    allowed = policy("olive", requester_may_approve=True)
    assert check_answer(answer("balanced · 9f3a1c2e", "olive"), DIGESTS, allowed, OLIVE) == "balanced"


def test_names_are_held_against_names_where_ids_differ() -> None:
    """FAB stores id "3" for the user whose name is olive; the requester is only known as olive."""
    fab = policy({"id": "3", "name": "olive"}, {"id": "4", "name": "uma"})
    assert [person.id for person in check_approvers(fab, OLIVE)] == ["4"]
    with pytest.raises(ApprovalError):
        check_answer(answer("balanced · 9f3a1c2e", "3", "olive"), DIGESTS, fab, OLIVE)
    assert check_answer(answer("balanced · 9f3a1c2e", "4", "uma"), DIGESTS, fab, OLIVE) == "balanced"


def test_the_stored_name_counts_even_where_the_policy_names_the_id_only() -> None:
    """With ids only, the policy cannot tell that id 3 is olive; what Airflow stored with the answer can."""
    with pytest.raises(ApprovalError, match="olive started this run"):
        check_answer(answer("balanced · 9f3a1c2e", "3", "olive"), DIGESTS, policy("3", "4"), OLIVE)


def test_an_id_that_looks_like_the_requesters_name_is_not_the_requester() -> None:
    fab = policy({"id": "olive", "name": "someone else"}, {"id": "4", "name": "uma"})
    assert check_answer(answer("balanced · 9f3a1c2e", "olive", "someone else"), DIGESTS, fab, OLIVE) == "balanced"


def test_an_unknown_requester_is_nobodys_friend() -> None:
    with pytest.raises(ApprovalError, match="Airflow does not know who started the run"):
        check_answer(answer("balanced · 9f3a1c2e", "uma"), DIGESTS, policy("uma"), NOBODY_KNOWS)


def test_a_run_that_no_person_started_may_be_approved_by_any_approver() -> None:
    assert check_answer(answer("balanced · 9f3a1c2e", "uma"), DIGESTS, policy("uma"), NIGHTLY) == "balanced"


@pytest.mark.parametrize("user", [None, "vera"])
def test_an_answer_of_somebody_else_does_not_count(user: str | None) -> None:
    with pytest.raises(ApprovalError, match="does not count"):
        check_answer(answer("balanced · 9f3a1c2e", user), DIGESTS, policy("uma"), OLIVE)


def test_the_requester_may_reject_what_they_started() -> None:
    assert check_answer(answer(REJECT, "olive"), DIGESTS, policy("uma", "olive"), OLIVE) == REJECT


def test_a_throttle_outside_the_policy_is_refused() -> None:
    limited = policy("uma", min_throttle_bytes_per_second=1_000_000, max_throttle_bytes_per_second=5_000_000)
    with pytest.raises(ApprovalError, match="outside the policy"):
        check_answer(answer("light · 77aa0011", "uma", throttle=6_000_000), DIGESTS, limited, OLIVE)
    assert check_answer(answer("light · 77aa0011", "uma", throttle=5_000_000), DIGESTS, limited, OLIVE) == "light"


def test_the_buttons_are_the_first_three_of_the_ranking_in_its_order() -> None:
    ranking = ["balanced", "light", "optimal", "leaders_only"]
    assert on_buttons(["leaders_only", "optimal", "light", "balanced"], ranking) == ("balanced", "light", "optimal")
    assert on_buttons(["leaders_only", "light"], ranking) == ("light", "leaders_only")


def test_a_candidate_that_is_not_ranked_comes_last() -> None:
    assert on_buttons(["given", "light", "balanced"], ["balanced", "light"]) == ("balanced", "light", "given")
    assert on_buttons(["given", "as_kafka", "light"], ["light"]) == ("light", "given", "as_kafka")


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (NOBODY_KNOWS, "Airflow does not know who started the run, and"),
        (Requester(None, False, plan_by="uma"), "Airflow does not know who started the run, and"),
        (Requester("uma", False), "uma started the run, and"),
        (Requester("uma", False, plan_by="uma"), "uma started the run, and"),
        (Requester("olive", False, plan_by="uma"), "olive started the run and uma asked for its plan, and"),
        (Requester(None, True, plan_by="uma"), "uma asked for its plan, and"),
    ],
)
def test_where_nobody_is_left_to_approve_it_is_told_who_asked(asked: Requester, why: str) -> None:
    with pytest.raises(ApprovalError) as refused:
        check_approvers(policy("uma", "olive") if asked.name == "olive" else policy("uma"), asked)
    approvers = "uma, olive" if asked.name == "olive" else "uma"
    assert str(refused.value).startswith(f"Nobody may approve: {why} the policy's approvers are {approvers}. Name")


@pytest.mark.parametrize(("name", "did"), [("olive", "olive started this run"), ("pat", "pat asked for this plan")])
def test_an_answer_of_somebody_who_asked_says_what_they_did(name: str, did: str) -> None:
    asked = Requester("olive", False, plan_by="pat")
    with pytest.raises(ApprovalError, match=f"^{did} and may not approve it. Start a new"):
        check_answer(answer("light · 77aa0011", "3", name), DIGESTS, policy("3", "4"), asked)


@pytest.mark.parametrize(("user", "named"), [(None, "an unknown user"), ("vera", "vera")])
def test_a_refused_answer_names_its_user_and_who_may_answer(user: str | None, named: str) -> None:
    with pytest.raises(ApprovalError, match=f"^The answer of {named} does not count: only uma, pat may give it"):
        check_answer(answer("light · 77aa0011", user), DIGESTS, policy("uma", "pat"), OLIVE)


def test_a_refused_option_names_those_of_this_plan() -> None:
    with pytest.raises(ApprovalError, match="options are balanced · 9f3a1c2e, light · 77aa0011, Reject"):
        check_answer(answer("light", "uma"), DIGESTS, policy("uma"), OLIVE)


NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_clocks_may_differ_by_as_much_as_is_allowed_and_no_more() -> None:
    check_approval_fresh(NOON + CLOCKS_MAY_DIFFER, 3600, NOON)
    with pytest.raises(ApprovalError, match="this worker's clock says 2026-03-01 12:00 UTC"):
        check_approval_fresh(NOON + CLOCKS_MAY_DIFFER + timedelta(seconds=1), 3600, NOON)


def test_the_start_of_the_window_is_named_only_where_the_age_counts_from_it() -> None:
    early = NOON - timedelta(hours=3)
    with pytest.raises(ApprovalError, match=r"approval_expires_after_seconds is 3600\. Nothing of it was begun"):
        check_approval_fresh(early, 3600, NOON)
    with pytest.raises(
        ApprovalError, match=r"is 3600\. Its time counts from 2026-03-01 10:00 UTC, when the run could begin\. Not"
    ):
        check_approval_fresh(early, 3600, NOON, not_before=NOON - timedelta(hours=2))


@pytest.mark.parametrize(
    ("approved", "now", "which"), [(None, "x", "when this was planned"), ("x", None, "any more"), (None, None, "when")]
)
def test_a_missing_policy_is_told_with_when_it_was_missing(approved: str | None, now: str | None, which: str) -> None:
    with pytest.raises(StaleProposalError, match=f"^The cluster has no policy {which}"):
        check_policy_unchanged(approved, now)
