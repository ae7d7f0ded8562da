"""Which brokers copy slowly, from what looks at a run have shown: each against its peers, while it has something to do.

A copy has two ends, and a throttle. So a look counts for a receiver only if one of its senders has room below the
throttle, and for a sender if one of its receivers has. A broker that is slow with several others is the cause, and not
they. What nobody has seen is neither slow nor fast.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from kafka_rebalance.documents.progress import CopyPace, Direction, OftenSlow, SlowBroker
from kafka_rebalance.model.amounts_in_words import bytes_in_words

LOOKS, SECONDS = 5, 60.0  # at least, of a broker with something to do: a broker is judged by no less
PEERS = 3  # other brokers at least
SLOW = 0.5  # of the median of its peers: a broker below that is slow
AT_LIMIT = 0.8  # of the throttle: a broker that copies so much has no room for more

Paces = Mapping[tuple[Direction, int], CopyPace]


def paces_of(noted: tuple[CopyPace, ...]) -> Paces:
    return {(pace.direction, pace.broker): pace for pace in noted}


@dataclass(frozen=True, slots=True)
class _End:
    """One broker in one direction, in one look."""

    bytes: int
    partners: frozenset[int]


def after_look(paces: Paces, grown: Mapping[tuple[int, int], int], seconds: float, throttle: float | None) -> Paces:
    """The paces with another look. `grown`: {(sender, receiver): bytes} of the pairs that copied all the `seconds`.

    `throttle` is in bytes a second of each broker; None: there is none.
    """
    if seconds <= 0 or not grown:
        return paces
    ends = _ends(grown)
    result = dict(paces)
    for (direction, broker), end in ends.items():
        other = Direction.SENDS if direction is Direction.RECEIVES else Direction.RECEIVES
        limit = AT_LIMIT * throttle * seconds if throttle else float("inf")
        held_up = all(ends[other, partner].bytes >= limit for partner in end.partners)
        if held_up and end.bytes < limit:
            continue
        before = paces.get((direction, broker), CopyPace(broker, direction, 0, 0.0, 0, ()))
        partners = tuple(sorted({*before.partners, *end.partners}))
        result[direction, broker] = CopyPace(
            broker, direction, before.bytes + end.bytes, before.seconds + seconds, before.looks + 1, partners
        )
    return result


def _ends(grown: Mapping[tuple[int, int], int]) -> dict[tuple[Direction, int], _End]:
    sums: dict[tuple[Direction, int], int] = defaultdict(int)
    partners: dict[tuple[Direction, int], set[int]] = defaultdict(set)
    for (sender, receiver), amount in grown.items():
        for direction, broker, partner in (
            (Direction.SENDS, sender, receiver),
            (Direction.RECEIVES, receiver, sender),
        ):
            sums[direction, broker] += amount
            partners[direction, broker].add(partner)
    return {key: _End(sums[key], frozenset(partners[key])) for key in sums}


def slow_brokers(paces: Paces) -> tuple[SlowBroker, ...]:
    """The slow ones, by id. A broker whose partners all are slow with more brokers than it has is not the cause."""
    found = {(slow.direction, slow.broker): slow for direction in Direction for slow in _below_peers(paces, direction)}

    def is_explained(direction: Direction, broker: int) -> bool:
        other = Direction.SENDS if direction is Direction.RECEIVES else Direction.RECEIVES
        mine = paces[direction, broker].partners
        return all((other, partner) in found and len(paces[other, partner].partners) > len(mine) for partner in mine)

    slow = [one for (direction, broker), one in found.items() if not is_explained(direction, broker)]
    return tuple(sorted(slow, key=lambda one: (one.broker, one.direction)))


def _is_known(pace: CopyPace) -> bool:
    return pace.looks >= LOOKS and pace.seconds >= SECONDS


def _below_peers(paces: Paces, direction: Direction) -> Iterator[SlowBroker]:
    judged = {
        pace.broker: pace.bytes / pace.seconds for (of, _), pace in paces.items() if of is direction and _is_known(pace)
    }
    for broker, rate in judged.items():
        peers = [other for peer, other in judged.items() if peer != broker]
        if len(peers) >= PEERS and rate < SLOW * (usual := median(peers)):
            yield SlowBroker(broker, direction, round(rate), round(usual), len(peers))


def in_words(slow: SlowBroker) -> str:
    """`Broker 4 receives 1.2 MiB/s of copies; the median of 5 others is 9.8 MiB/s`"""
    own, usual = (f"{bytes_in_words(rate)}/s" for rate in (slow.bytes_per_second, slow.peers_bytes_per_second))
    return f"Broker {slow.broker} {slow.direction.value} {own} of copies; the median of {slow.peers} others is {usual}"


def judged(paces: Paces) -> tuple[int, ...]:
    """The brokers whose pace is known well enough in one direction, and has enough peers there, by id."""
    known = [
        {pace.broker for (of, _), pace in paces.items() if of is direction and _is_known(pace)}
        for direction in Direction
    ]
    return tuple(sorted({broker for brokers in known if len(brokers) > PEERS for broker in brokers}))


# Over several runs and nights: one slow run may have had its own reason.


RUNS, NIGHTS = 5, 7  # the last ones, in which the broker was judged or up
OF_RUNS, OF_NIGHTS = 2, 3  # in which it was slow, or had replicas out of the ISR, at least


@dataclass(frozen=True, slots=True)
class Judged:
    """Of one run or one night, which brokers were slow, of those that could be judged."""

    slow: Collection[int]
    judged: Collection[int]


def often_slow(runs: Sequence[Judged], nights: Sequence[Judged]) -> tuple[OftenSlow, ...]:
    """The brokers that were slow again and again, by id. Both are newest first.

    A night is slow for a broker that has replicas out of the ISR while it is up, and whose peers mostly have none.
    """
    found = []
    for broker in sorted({broker for one in (*runs, *nights) for broker in one.slow}):
        (in_runs, of_runs), (in_nights, of_nights) = _times(broker, runs, RUNS), _times(broker, nights, NIGHTS)
        if in_runs >= OF_RUNS or in_nights >= OF_NIGHTS:
            found.append(OftenSlow(broker, in_runs, of_runs, in_nights, of_nights))
    return tuple(found)


def _times(broker: int, judgements: Sequence[Judged], most: int) -> tuple[int, int]:
    """(how often it was slow, of how many of the last judgements of it)"""
    own = [one for one in judgements if broker in one.judged][:most]
    return sum(broker in one.slow for one in own), len(own)


def behind(out_of_isr: Collection[int], up: Collection[int]) -> Judged:
    """A night by the brokers with replicas out of the ISR. If half of all are behind, the cluster is, and no broker."""
    is_cluster = 2 * len(set(out_of_isr) & set(up)) >= len(set(up))
    return Judged(() if is_cluster else tuple(sorted(set(out_of_isr) & set(up))), tuple(sorted(set(up))))


def often_in_words(slow: OftenSlow) -> str:
    """`broker 4 copied slowly in 2 of the last 3 runs that judged it`"""
    clauses = []
    if slow.runs:
        clauses.append(f"copied slowly in {slow.runs} of the last {slow.of_runs} runs that judged it")
    if slow.nights:
        clauses.append(f"had replicas out of the ISR in {slow.nights} of the last {slow.of_nights} checks")
    return f"broker {slow.broker} {' and '.join(clauses)}"
