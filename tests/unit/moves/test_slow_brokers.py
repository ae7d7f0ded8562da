"""Which brokers copy slowly, over simulated looks: each broker copies at its own rate, below a throttle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from kafka_rebalance.documents.progress import Direction
from kafka_rebalance.moves.slow_brokers import (
    Judged,
    Paces,
    after_look,
    behind,
    in_words,
    judged,
    often_in_words,
    often_slow,
    paces_of,
    slow_brokers,
)

MB = 1_000_000
THROTTLE = 50 * MB


def looks(
    pairs: Sequence[tuple[int, int]], able: Mapping[int, int], *, count: int = 10, seconds: float = 10.0
) -> Paces:
    """Copies of these pairs. A broker moves at most what it is `able` to, or the throttle, shared by its pairs."""
    paces: Paces = {}
    for _ in range(count):
        ends = [broker for pair in pairs for broker in pair]
        share = {broker: min(THROTTLE, able.get(broker, THROTTLE)) / ends.count(broker) for broker in ends}
        grown = {pair: int(seconds * min(share[broker] for broker in pair)) for pair in pairs}
        paces = after_look(paces, grown, seconds, THROTTLE)
    return paces


def named(paces: Paces) -> list[tuple[int, Direction]]:
    return [(one.broker, one.direction) for one in slow_brokers(paces)]


RING = [(1, 11), (1, 12), (2, 12), (2, 13), (3, 13), (3, 14), (4, 14), (4, 15), (5, 15), (5, 11)]


def test_nobody_is_slow_where_all_copy_at_the_throttle() -> None:
    assert named(looks(RING, {})) == []


def test_a_slow_receiver_is_named_with_figures_and_not_those_that_send_to_it() -> None:
    paces = looks(RING, {13: 5 * MB})
    (slow,) = slow_brokers(paces)
    assert (slow.broker, slow.direction, slow.peers) == (13, Direction.RECEIVES, 4)
    assert slow.bytes_per_second == 5 * MB
    assert slow.peers_bytes_per_second > 35 * MB
    assert in_words(slow) == "Broker 13 receives 4.77 MiB/s of copies; the median of 4 others is 47.7 MiB/s"


def test_a_slow_sender_is_named_and_not_those_that_receive_from_it() -> None:
    assert named(looks(RING, {2: 3 * MB})) == [(2, Direction.SENDS)]


def test_what_receivers_at_their_throttle_leave_to_a_sender_says_nothing_of_it() -> None:
    pairs = [(sender, 10 + receiver) for sender in range(1, 6) for receiver in range(1, 6)]
    assert named(looks(pairs, {2: 3 * MB})) == []


def test_a_receiver_whose_only_sender_is_slow_with_others_too_is_not_the_cause() -> None:
    pairs = [(1, 11), (1, 12), (2, 13), (3, 14), (4, 15), (5, 16)]
    assert named(looks(pairs, {1: 2 * MB})) == [(1, Direction.SENDS)]


def test_a_share_of_a_sender_at_its_throttle_says_nothing_of_the_receiver() -> None:
    """Broker 1 sends to twenty, and each gets a twentieth of its throttle. The others get all of a sender."""
    pairs = [(1, 100 + number) for number in range(20)] + [(sender, 10 + sender) for sender in range(2, 8)]
    paces = looks(pairs, {})
    assert named(paces) == []
    assert not set(range(100, 120)) & {broker for direction, broker in paces if direction is Direction.RECEIVES}


@pytest.mark.parametrize(("count", "seconds"), [(4, 60.0), (20, 2.0)])
def test_too_few_looks_or_too_short_ones_judge_nobody(count: int, seconds: float) -> None:
    paces = looks(RING, {13: MB}, count=count, seconds=seconds)
    assert (named(paces), judged(paces)) == ([], ())


def test_with_few_peers_nobody_is_judged() -> None:
    paces = looks([(1, 11), (2, 12), (3, 13)], {13: MB})
    assert (named(paces), judged(paces)) == ([], ())


def test_a_broker_without_a_copy_is_neither_slow_nor_judged() -> None:
    paces = looks(RING, {13: MB})
    assert 99 not in judged(paces)
    assert set(judged(paces)) == {1, 2, 3, 4, 5, 11, 12, 13, 14, 15}


def test_a_pace_goes_on_from_what_was_noted() -> None:
    half = looks(RING, {13: 5 * MB}, count=3)
    assert named(half) == []
    noted = tuple(half.values())
    again = paces_of(noted)
    for _ in range(4):
        again = after_look(again, {pair: 50 * MB if 13 in pair else 250 * MB for pair in RING}, 10.0, THROTTLE)
    assert named(again) == [(13, Direction.RECEIVES)]


def test_no_look_and_no_time_change_nothing() -> None:
    paces = looks(RING, {})
    assert after_look(paces, {}, 10.0, THROTTLE) is paces
    assert after_look(paces, {(1, 2): 5}, 0.0, THROTTLE) is paces


def test_a_broker_that_was_slow_in_two_runs_that_judged_it_is_named() -> None:
    everyone = (1, 2, 3, 4)
    runs = [Judged((), (1, 2)), Judged((4,), everyone), Judged((), (1, 2)), Judged((4, 2), everyone)]
    (slow,) = often_slow(runs, [])
    assert (slow.broker, slow.runs, slow.of_runs) == (4, 2, 2)
    assert often_in_words(slow) == "broker 4 copied slowly in 2 of the last 2 runs that judged it"


def test_a_broker_that_is_behind_in_three_nights_is_named_unless_the_cluster_is() -> None:
    up = range(1, 8)
    nights = [behind(out, up) for out in ([3], [], [3, 9], [3], [1, 2, 3, 4])]
    (slow,) = often_slow([], nights)
    assert (slow.broker, slow.nights, slow.of_nights) == (3, 3, 5)
    assert often_in_words(slow) == "broker 3 had replicas out of the ISR in 3 of the last 5 checks"
    assert behind([1, 2, 3, 4], up).slow == ()
    assert often_slow([], nights[:3]) == ()
