"""The words of reasons of moves, the words that moves of one kind are counted under, and those of brokers and racks."""

from __future__ import annotations

import pytest

from kafka_rebalance.documents.proposals import (
    REASON_GROUPS,
    BrokerChange,
    MoveGroup,
    MoveReason,
    RackLimit,
    ReasonKind,
    encode_reasons,
    group_in_words,
    rack_limit_in_words,
)
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


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            BrokerChange(1, False, 1200, 0, Metric.DISK, 8000, 4000, 10_000, of_disk=True),
            "1,200 moves take broker 1 from 80 % to 40 % of its disk",
        ),
        (
            BrokerChange(2, True, 1, 0, Metric.DISK, 0, 4000, 4000),
            "1 move brings broker 2 from 0 % to 100 % of its share of bytes on disk",
        ),
        (
            BrokerChange(2, True, 4, 0, Metric.LEADERS, 0, 4, 4),
            "4 moves bring broker 2 from 0 % to 100 % of its share of leaders",
        ),
        (BrokerChange(1, False, 4, 0, Metric.DISK, 4000, 0, 0), "4 moves take 3.91 KiB off broker 1: empty"),
        (BrokerChange(1, False, 1, 0, Metric.LEADERS, 4, 0, 4), "1 move takes leaders off broker 1: empty"),
        (BrokerChange(1, False, 2, 0, Metric.DISK, 4096, 2048, 0), "2 moves take broker 1 from 4.00 KiB to 2.00 KiB"),
        (BrokerChange(1, False, 2, 0, Metric.LEADERS, 4000, 3998, 0), "2 moves take broker 1 from 4,000 to 3,998"),
    ],
)
def test_a_change_of_a_broker_is_told_as_part_of_its_disk_or_share(change: BrokerChange, text: str) -> None:
    assert group_in_words(change) == MoveGroup(text, change.moves, 0)


def test_a_rack_carries_at_least_or_at_most_so_much_of_an_even_share() -> None:
    assert [rack_limit_in_words(RackLimit("a", 1, 3, Metric.REPLICAS, carried)) for carried in (1.5, 0.75)] == [
        "rack a has 1 of 3 brokers: they carry at least 1.500 of an even share of replicas",
        "rack a has 1 of 3 brokers: they carry at most 0.750 of an even share of replicas",
    ]
