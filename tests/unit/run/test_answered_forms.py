"""Which forms of an answer count: Airflow's API takes any JSON, and what decides is read field by field."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_rebalance.errors import ApprovalError
from kafka_rebalance.run.approval_rules import LONGEST_TEXT, REJECT, Answer, Question, read_form, text_of

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
