"""The notes of a candidate in words."""

from __future__ import annotations

import pytest

from kafka_rebalance.documents.candidate_notes import (
    _TEXTS,
    Note,
    NoteKind,
    Within,
    clauses_in_words,
    note,
    sentences_in_words,
)
from kafka_rebalance.kafka.who_may_receive import Shut
from kafka_rebalance.model.partition import TopicPartition


def test_every_kind_has_a_text() -> None:
    assert set(_TEXTS) == set(NoteKind)


def test_clauses_are_one_sentence_and_sentences_follow_it() -> None:
    notes = [note(NoteKind.RACKS_STAY_BROKEN, partitions=2), note(NoteKind.UNKNOWN_SIZES, partitions=1)]
    clauses = "2 partitions still break the rack rule; 1 partitions of unknown size count as 0 bytes."
    assert clauses_in_words(notes) == clauses
    bound = "The bound on bytes is the simple one: highspy is not installed."
    assert clauses_in_words([*notes, note(NoteKind.SIMPLE_BOUND)]) == f"{clauses} {bound}"
    assert clauses_in_words([note(NoteKind.SIMPLE_BOUND)]) == bound
    assert clauses_in_words([]) == ""


def test_a_candidate_that_is_not_offered_says_why_first_and_then_the_rest_in_sentences() -> None:
    beyond = note(NoteKind.BEYOND_LIMITS, limits=[("max_bytes", 2_000, 1_999), ("max_leader_changes", 2, 1)])
    shut = note(NoteKind.RECEIVES_NOTHING, broker=4, why=Shut.CORDONED)
    assert sentences_in_words([beyond, shut]) == (
        "The moves that the job requires are beyond the limits: 2,000 against max_bytes 1,999, 2 against "
        "max_leader_changes 1. Raise the limit, or ask for less. Broker 4 is cordoned (cordoned.log.dirs), so Kafka "
        "puts no new replica there: it receives nothing."
    )
    in_pool = Note(beyond.kind, beyond.figures, "gold")
    assert sentences_in_words([in_pool]).startswith("In the pool of gold: The moves that the job requires are")


def test_a_note_of_a_pool_names_it() -> None:
    proven = Note(NoteKind.UNKNOWN_SIZES, {"partitions": 3}, "gold")
    assert clauses_in_words([proven]) == "In the pool of gold: 3 partitions of unknown size count as 0 bytes."


@pytest.mark.parametrize(
    ("named", "count", "being_deleted", "words"),
    [
        ([TopicPartition("orders", 3)], 1, False, "Left out: orders-3, lost unless broker 7 returns."),
        (["a"], 12, True, "Left out: a and 2 more, being deleted, which waits for broker 7."),
    ],
)
def test_what_waits_names_its_brokers(named: list[object], count: int, being_deleted: bool, words: str) -> None:
    waits = note(NoteKind.LEFT_WAITING, brokers=(7,), named=named, count=count, being_deleted=being_deleted)
    assert clauses_in_words([waits]) == words


def test_what_is_proven_says_of_which_plans_and_what_does_not_count() -> None:
    asides = {"never_goes_back": True} | dict.fromkeys(("spreads_leaders", "crowds_no_more", "spreads_topics"), False)
    figures = {"tolerance": 0.1, "within": Within.ONE_REPLICA, "keeps_headroom": True, **asides}
    assert clauses_in_words([Note(NoteKind.PROVEN, figures)]) == (
        "Proven: no plan within 10 % or one replica and as near to it in all but leaders, without moves to disks "
        "beyond disk_headroom, saves more than a thousandth of these bytes; leaders are placed afterwards; plans that "
        "send replicas back to brokers that they left lately do not count."
    )
    nothing = Note(NoteKind.NO_OPTIMUM, {"tolerance": 0.1, "within": None, "none_exists": True, **asides})
    assert sentences_in_words([nothing]) == (
        "No plan within 10 % or one replica of every share exists; plans that send replicas back to brokers that they "
        "left lately do not count."
    )
