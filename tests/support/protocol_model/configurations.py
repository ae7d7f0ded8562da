"""Which actors the model is searched with: small in the suite, large by `make protocol`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from support.protocol_model.actors import Protocol
from support.protocol_model.states import Way

STOPS = {
    Way.LOG: ("cancel", "stop", "pause", "release", "janitor"),
    Way.TRANSACTION: ("cancel", "stop", "pause", "release", "janitor"),
    Way.COPIES: ("pause", "release", "janitor"),  # a run between log dirs has no other stop
}


def small(way: Way) -> Iterator[Protocol]:
    for one in STOPS[way]:
        yield Protocol(way, ("worker", one))
    for two in combinations(STOPS[way], 2):
        yield Protocol(way, ("worker", *two))
    yield Protocol(way, ("worker", "release", "second"))


def large() -> Iterator[Protocol]:
    for way in Way:
        for one in STOPS[way]:
            yield Protocol(way, ("worker", "again", one))
        for two in combinations(STOPS[way], 2):
            yield Protocol(way, ("worker", *two), partitions=2)
            yield Protocol(way, ("worker", *two), tries=2)
            yield Protocol(way, ("worker", "second", *two))
        for three in combinations(STOPS[way], 3):
            yield Protocol(way, ("worker", *three))
