"""Each thing that goes wrong is told once as it begins and once as it is over."""

from __future__ import annotations

from kafka_rebalance.rebalance.progress_notes import KEPT, Told, told_after


def test_a_thing_is_told_as_it_begins_and_as_it_is_over_however_its_words_change() -> None:
    told = told_after(Told(), 1.0, {"broker 3 is away": "Broker 3 is away and 1 partition waits. Start it."})
    told = told_after(told, 2.0, {"broker 3 is away": "Broker 3 is away and 2 partitions wait. Start it."})
    told = told_after(told, 3.0, {})
    assert [(event.at.timestamp(), event.text) for event in told.events] == [
        (1.0, "Broker 3 is away and 1 partition waits. Start it."),
        (3.0, "No longer: broker 3 is away"),
    ]
    assert not told.open


def test_what_comes_again_is_told_again() -> None:
    told = Told()
    for now, subjects in enumerate(({"a": "A"}, {}, {"a": "A"})):
        told = told_after(told, float(now), subjects)
    assert [event.text for event in told.events] == ["A", "No longer: a", "A"]


def test_only_the_newest_are_kept() -> None:
    told = Told()
    for now in range(KEPT + 5):
        told = told_after(told, float(now), {str(now): f"text {now}"})
    assert len(told.events) == KEPT
    assert told.events[-1].text == f"text {KEPT + 4}"
