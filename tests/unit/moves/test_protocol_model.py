"""Every state of a small model of the protocol: nothing of Never is broken, and what was broken before is found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.protocol_model.actors import FAULTS, Protocol
from support.protocol_model.configurations import small
from support.protocol_model.search import Found, search
from support.protocol_model.states import Way

ANNOUNCED = (Way.LOG, Way.COPIES)


def broken_by(fault: str, protocol: Protocol) -> Found:
    return search(replace(protocol, faults=frozenset({fault})))


@pytest.mark.slow
@pytest.mark.parametrize("way", Way)
def test_nothing_of_never_is_broken_in_any_order(way: Way) -> None:
    found = {str(protocol): search(protocol) for protocol in small(way)}
    assert {name: str(one) for name, one in found.items() if one.broken} == {}
    assert sum(one.states for one in found.values()) > 20_000


def test_a_cancel_that_does_not_wait_is_found() -> None:
    """It ends, and then the moves begin."""
    found = broken_by("cancel_does_not_wait", Protocol(Way.LOG, ("worker", "cancel")))
    assert found.broken == "the cancel was told as ended, and a move of A is under way"
    assert found.way[-1] == "worker of A asks for the move of 0"


@pytest.mark.parametrize("way", ANNOUNCED)
@pytest.mark.parametrize("who", ["release", "janitor", "pause"])
def test_a_throttle_that_is_put_back_without_waiting_is_found(way: Way, who: str) -> None:
    found = broken_by("put_back_does_not_wait", Protocol(way, ("worker", who)))
    assert found.broken == "a move of A is under way without its throttle"


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_each_fault_that_is_put_in_is_found(fault: str) -> None:
    ways = [broken_by(fault, protocol) for way in ANNOUNCED for protocol in small(way) if len(protocol.actors) == 2]
    assert any(found.broken for found in ways), FAULTS[fault]
    assert all(found.way for found in ways if found.broken), "the way to it is told"


def test_where_the_request_checks_the_fence_nobody_need_wait() -> None:
    for fault in ("cancel_does_not_wait", "put_back_does_not_wait", "clock_is_ahead"):
        for who in ("cancel", "release", "janitor", "pause"):
            assert not broken_by(fault, Protocol(Way.TRANSACTION, ("worker", who))).broken
