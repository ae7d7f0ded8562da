"""The picture of all brokers on the first screen."""

from __future__ import annotations

from kafka_rebalance.pages.plots import glance_plot
from kafka_rebalance.pages.tables import BrokerChange, Load

GIB = 1024**3


def brokers(count: int, capacity: int | None = 100 * GIB) -> list[BrokerChange]:
    """The first is the fullest; all are even afterwards."""
    return [
        BrokerChange(number, None, capacity, Load(9, 3, (count - number) * GIB, None), Load(9, 3, 2 * GIB, None))
        for number in range(count)
    ]


def test_it_says_how_full_disks_are_before_and_after() -> None:
    plot = glance_plot(brokers(4))
    assert plot is not None
    assert (plot.title, plot.note) == ("Bytes on disk (GiB)", "Kafka fills at most 4 % of a disk now, 2 % afterwards")
    assert "before 1 to 4 GiB, after 2 to 2 GiB" in plot.description
    unknown = glance_plot(brokers(4, capacity=None))
    assert unknown is not None
    assert unknown.note == "capacities are not known"
    assert glance_plot([]) is None


def test_of_many_brokers_some_stand_for_all_and_the_picture_stays_small() -> None:
    few, many = glance_plot(brokers(100)), glance_plot(brokers(1000))
    assert few is not None
    assert many is not None
    assert len(many.svg()) <= 1.1 * len(few.svg())
    assert "1,000 brokers, fullest first" in many.svg()
    assert "before 1 to 1e+03 GiB" in many.description, "the words are of all"
