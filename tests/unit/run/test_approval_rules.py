"""Which answers to an approval request count."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kafka_rebalance.errors import ApprovalError, StaleProposalError
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.moves.windows import CLOCKS_MAY_DIFFER
from kafka_rebalance.run.approval_rules import (
    LONGEST_TEXT,
    REJECT,
    Answer,
    Question,
    Requester,
    check_answer,
    check_approval_fresh,
    check_approvers,
    check_policy_unchanged,
    labels,
    on_buttons,
    read_form,
    text_of,
)

LIGHT = "light · 77aa0011"
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


FAB = policy({"id": "3", "name": "olive"}, {"id": "4", "name": "uma"})  # ids there are not the names
ALIKE = policy({"id": "olive", "name": "someone else"}, {"id": "4", "name": "uma"})
LIMITED = policy("uma", min_throttle_bytes_per_second=1_000_000, max_throttle_bytes_per_second=5_000_000)


@pytest.mark.parametrize(
    ("given", "rules", "requester"),
    [
        (answer(LIGHT, "uma"), policy("uma", "olive"), OLIVE),
        (answer(LIGHT, "olive"), policy("olive", requester_may_approve=True), OLIVE),
        (answer(LIGHT, "4", "uma"), FAB, OLIVE),
        (answer(LIGHT, "olive", "someone else"), ALIKE, OLIVE),  # an id that looks like the requester's name
        (answer(LIGHT, "uma"), policy("uma"), NIGHTLY),  # no person has started it
        (answer(LIGHT, "uma", throttle=5_000_000), LIMITED, OLIVE),
    ],
)
def test_an_approver_who_is_not_the_requester_chooses_a_candidate(
    given: Answer, rules: Policy, requester: Requester
) -> None:
    assert check_answer(given, DIGESTS, rules, requester) == "light"


PAT = Requester("olive", False, plan_by="pat")


@pytest.mark.parametrize(
    ("given", "rules", "requester", "words"),
    [
        (answer("light · 00000000", "uma"), policy("uma"), OLIVE, "cleared task shows the request of the earlier plan"),
        (
            answer("light", "uma"),
            policy("uma"),
            OLIVE,
            "options are balanced · 9f3a1c2e, light · 77aa0011, Reject",
        ),
        (answer(LIGHT, "olive"), policy("uma", "olive"), OLIVE, "^The answer of olive does not count: only uma may"),
        (
            answer(LIGHT, None),
            policy("uma", "pat"),
            OLIVE,
            "^The answer of an unknown user does not count: only uma",
        ),
        (answer(LIGHT, "vera"), policy("uma", "pat"), OLIVE, "^The answer of vera does not count: only uma, pat may"),
        (answer(LIGHT, "3", "olive"), FAB, OLIVE, "only 4 may give it"),
        # With ids alone the policy cannot tell that id 3 is olive; what Airflow stored with the answer can.
        (answer(LIGHT, "3", "olive"), policy("3", "4"), PAT, "^olive started this run and may not approve it. Start a"),
        (answer(LIGHT, "3", "pat"), policy("3", "4"), PAT, "^pat asked for this plan and may not approve it. Start a"),
        (answer(LIGHT, "uma"), policy("uma"), NOBODY_KNOWS, "Airflow does not know who started the run"),
        (answer(LIGHT, "uma", throttle=6_000_000), LIMITED, OLIVE, "outside the policy"),
    ],
)
def test_an_answer_that_must_not_count_says_why(given: Answer, rules: Policy, requester: Requester, words: str) -> None:
    with pytest.raises(ApprovalError, match=words):
        check_answer(given, DIGESTS, rules, requester)


def test_the_requester_is_not_among_the_approvers_and_may_reject() -> None:
    assert [person.id for person in check_approvers(policy("uma", "olive"), OLIVE)] == ["uma"]
    assert [person.id for person in check_approvers(FAB, OLIVE)] == ["4"]
    assert check_answer(answer(REJECT, "olive"), DIGESTS, policy("uma", "olive"), OLIVE) == REJECT


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


NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
EARLY = NOON - timedelta(hours=3)


@pytest.mark.parametrize(
    ("given", "begins", "words"),
    [
        (NOON - timedelta(hours=1), None, None),
        (NOON + CLOCKS_MAY_DIFFER, None, None),
        (NOON + CLOCKS_MAY_DIFFER + timedelta(seconds=1), None, "this worker's clock says 2026-03-01 12:00 UTC"),
        (NOON + timedelta(days=1), None, "cannot tell whether the approval has expired"),
        (NOON - timedelta(seconds=3601), None, r"approval of 2026-03-01 10:59 UTC has expired.*ask for an approval"),
        (EARLY, None, r"approval_expires_after_seconds is 3600\. Nothing of it was begun"),
        # The age counts from the time before which nothing may begin.
        (NOON - timedelta(hours=1), EARLY, None),
        (EARLY, NOON - timedelta(minutes=30), None),
        (
            EARLY,
            NOON - timedelta(hours=2),
            r"3600\. Its time counts from 2026-03-01 10:00 UTC, when the run could begin",
        ),
    ],
)
def test_an_approval_is_asked_for_again_if_it_is_too_old_or_of_a_time_to_come(
    given: datetime, begins: datetime | None, words: str | None
) -> None:
    if words is None:
        check_approval_fresh(given, 3600, NOON, not_before=begins)
        return
    with pytest.raises(ApprovalError, match=words):
        check_approval_fresh(given, 3600, NOON, not_before=begins)


def test_the_policy_must_be_the_approved_one() -> None:
    check_policy_unchanged("a" * 64, "a" * 64)
    with pytest.raises(StaleProposalError, match=r"aaaaaaaa at the approval and is bbbbbbbb now\. Start"):
        check_policy_unchanged("a" * 64, "b" * 64)


@pytest.mark.parametrize(
    ("approved", "now", "which"), [(None, "x", "when this was planned"), ("x", None, "any more"), (None, None, "when")]
)
def test_a_missing_policy_is_told_with_when_it_was_missing(approved: str | None, now: str | None, which: str) -> None:
    with pytest.raises(StaleProposalError, match=f"^The cluster has no policy {which}.*read-only"):
        check_policy_unchanged(approved, now)


# Which forms of an answer count: Airflow's API takes any JSON, and what decides is read field by field.


RATE = Question("throttle_bytes_per_second", "Rate", "", number=3_000_000)
CONSENT = Question("i_consent_to", "Consent", "")
NOTE = Question("note", "Note", "")
ASKED = (RATE, CONSENT, NOTE)
FULL: dict[str, Any] = {"throttle_bytes_per_second": 5_000_000, "i_consent_to": "I do", "note": "at night"}


def given(form: Any, option: str = "balanced · 9f3a1c2e") -> Answer:
    return Answer(option, "uma", "uma", 3_000_000, consent="shown", note="shown", filled_in=form)


def read(form: Any, questions: tuple[Question, ...] = ASKED) -> Answer:
    return read_form(given(form), questions)


def test_a_whole_form_is_read_field_by_field() -> None:
    found = read(FULL)
    assert (found.throttle_bytes_per_second, found.consent, found.note) == (5_000_000, "I do", "at night")
    assert (found.option, found.user_id, found.filled_in) == ("balanced · 9f3a1c2e", "uma", FULL)


def test_texts_may_be_null_and_a_request_without_a_rate_gives_none() -> None:
    found = read(FULL | {"i_consent_to": None, "note": None})
    assert (found.throttle_bytes_per_second, found.consent, found.note) == (5_000_000, None, None)
    assert read({"note": "a"}, (NOTE,)).throttle_bytes_per_second is None
    assert read({"throttle_bytes_per_second": 7}, (RATE,)).consent is None


@pytest.mark.parametrize("form", [None, {}])
def test_no_form_and_an_empty_one_stand_for_what_the_request_shows(form: Any) -> None:
    found = read(form)
    assert (found.throttle_bytes_per_second, found.consent) == (3_000_000, "shown")
    assert found.note == ("shown" if form is None else None)


def test_a_rejection_needs_no_form_and_keeps_its_note() -> None:
    found = read_form(given({"note": "no", "whatever": 1}, REJECT), ASKED)
    assert (found.note, found.throttle_bytes_per_second, found.consent) == ("no", 3_000_000, "shown")
    assert read_form(given({"note": 7}, REJECT), ASKED).note is None


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ([FULL], "The answer does not count: its form is no JSON object."),
        ("a", "its form is no JSON object"),
        ({"note": None}, "i_consent_to is missing; throttle_bytes_per_second is missing. Clear the task approve"),
        (FULL | {"more": 1}, "does not count: 'more' is no field of the request. Clear the task approve, which asks"),
        (FULL | {"x" * 50: 1}, f"count: '{'x' * 40}' is no field of the request"),
        (FULL | {"note": 7}, f"note must be null or a text of at most {LONGEST_TEXT} characters"),
        (FULL | {"note": "a" * (LONGEST_TEXT + 1)}, "note must be null or a text of at most"),
        (FULL | {"note": "\ud800"}, "note must be null or a text of at most"),
        (FULL | {"throttle_bytes_per_second": "5"}, "count: throttle_bytes_per_second must be a whole number. Clear"),
        (
            FULL | {"throttle_bytes_per_second": None, "note": 7},
            f"note must be null or a text of at most {LONGEST_TEXT} characters; throttle_bytes_per_second must be a",
        ),
    ],
)
def test_a_form_that_does_not_fit_does_not_count(form: Any, said: str) -> None:
    with pytest.raises(ApprovalError) as refused:
        read(form)
    assert said in str(refused.value)


@pytest.mark.parametrize(("rate", "whole"), [(0, 0), (1, 1), (3.0, 3), (2**63 - 1, 2**63 - 1), (0.0, 0)])
def test_a_whole_number_is_as_json_has_it(rate: Any, whole: int) -> None:
    found = read(FULL | {"throttle_bytes_per_second": rate}).throttle_bytes_per_second
    assert found == whole
    assert type(found) is int


@pytest.mark.parametrize("rate", [-1, 2**63, 3.5, True, float(2**63), -1.0, [], float("inf"), float("nan")])
def test_what_is_no_whole_number_of_63_bits_does_not_count(rate: Any) -> None:
    with pytest.raises(ApprovalError, match="throttle_bytes_per_second must be a whole number"):
        read(FULL | {"throttle_bytes_per_second": rate})


def test_a_text_is_what_every_file_can_hold() -> None:
    assert text_of("a" * LONGEST_TEXT) == "a" * LONGEST_TEXT
    assert text_of("") == ""
    assert text_of("\ud7ff\ue000") == "\ud7ff\ue000"
    assert [text_of(one) for one in ("a" * (LONGEST_TEXT + 1), 7, None, "x\ud800", "\udfffx")] == [None] * 5
