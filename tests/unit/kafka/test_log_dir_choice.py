"""How many new replicas come into each log dir: held against the rule itself, ties broken at random."""

import random

from hypothesis import given
from hypothesis import strategies as st

from kafka_rebalance.kafka.log_dir_choice import arrivals


@given(st.lists(st.integers(0, 12), min_size=1, max_size=5), st.integers(0, 30), st.randoms(use_true_random=False))
def test_no_dir_gets_more_than_is_said(counts: list[int], new: int, chance: random.Random) -> None:
    held = list(counts)
    for _ in range(new):
        held[min(range(len(held)), key=lambda number: (held[number], chance.random()))] += 1
    said = arrivals(counts, new)
    assert all(now - then <= one.most for now, then, one in zip(held, counts, said, strict=True))
    assert abs(sum(one.average for one in said) - new) < 1e-6
    assert all(abs(now - then - one.average) < 1 for now, then, one in zip(held, counts, said, strict=True))


def test_averages_go_on_where_they_ended() -> None:
    first = arrivals([0, 0, 0], 4)
    assert [one.most for one in first] == [2, 2, 2]
    then = arrivals([one.average for one in first], 2)
    assert [round(one.average, 6) for one in then] == [0.666667] * 3


def test_no_dir_is_given_anything_where_there_is_none() -> None:
    assert arrivals([], 3) == []
