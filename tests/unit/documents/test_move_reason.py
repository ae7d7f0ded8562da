"""The text that the table of moves keeps of reasons, and the words that moves of one kind are counted under."""

from __future__ import annotations

import pytest

from kafka_rebalance.documents.proposals import REASON_GROUPS, MoveReason, ReasonKind, encode_reasons
from kafka_rebalance.model.candidate import Metric

ROOM = "makes room for what other moves bring"


def evens(metric: Metric, amount: float = 1.0) -> MoveReason:
    return MoveReason(ReasonKind.EVENS, 1, 2, metric, (1.3, 0.7), amount)


def group_of(text: str) -> str | None:
    return next((words for says, words in REASON_GROUPS if says in text), None)


@pytest.mark.parametrize("metric", list(Metric))
def test_a_text_is_counted_under_the_metric_that_it_was_written_of(metric: Metric) -> None:
    assert group_of(encode_reasons([evens(metric)])) == f"evens out {metric.noun}"


@pytest.mark.parametrize("kind", [ReasonKind.MAKES_ROOM, ReasonKind.MAKES_UP_FOR_LEADERS])
def test_room_that_is_made_comes_before_the_metric_that_it_evens(kind: ReasonKind) -> None:
    assert group_of(encode_reasons([MoveReason(kind, 1), evens(Metric.DISK)])) == ROOM


def test_leaders_that_topics_spread_are_counted_together_however_many_are_too_many() -> None:
    texts = [encode_reasons([MoveReason(ReasonKind.SPREADS_TOPIC, 1, 2, amount=count)]) for count in (1, 12)]
    assert texts[1] == "broker 1 leads 12 of the topic's partitions too many"
    assert {group_of(text) for text in texts} == {"spreads leaders of topics"}


@pytest.mark.parametrize(
    "kind", [k for k in ReasonKind if k not in (ReasonKind.EVENS, ReasonKind.SPREADS_TOPIC) and "MAKES" not in k.name]
)
def test_every_other_kind_is_counted_under_its_own_text(kind: ReasonKind) -> None:
    text = encode_reasons([MoveReason(kind, 1, 2)])
    assert text
    assert group_of(text) is None


def test_the_texts_have_their_figures() -> None:
    reasons = [
        MoveReason(ReasonKind.REPLACES, 1, 7),
        MoveReason(ReasonKind.FACTOR, factors=(2, 3)),
        evens(Metric.DISK, 1024.0),
        evens(Metric.LEADERS),
    ]
    assert encode_reasons(reasons) == (
        "broker 7 takes the place of broker 1; replication factor 2 to 3; broker 1 has 130 % of its share of bytes on "
        "disk, broker 2 70 %: 1.00 KiB go; broker 1 has 130 % of its share of leaders, broker 2 70 %: 1 leader goes"
    )
