"""Reads that pages wait for: each once at a time, and no page longer than it likes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from kafka_rebalance.run.read_in_time import Reads, TooManyReads


@pytest.fixture
def hang() -> Iterator[Callable[[], str]]:
    """A read that goes on until the test is over, or sets its `go_on`."""
    go_on = threading.Event()

    def read() -> str:
        go_on.wait(10)
        return "said"

    read.go_on = go_on  # type: ignore[attr-defined]
    yield read
    go_on.set()


def test_one_read_serves_all_who_ask_meanwhile_and_its_answer_is_kept(hang: Callable[[], str]) -> None:
    reads: Reads[str] = Reads(kept_seconds=60)
    first, second = reads.ask("a", hang), reads.ask("a", hang)
    assert first is second
    assert not first.ended_within(0)
    hang.go_on.set()  # type: ignore[attr-defined]
    assert first.result(10) == "said"
    assert reads.ask("a", lambda: "another") is first


def test_an_answer_that_is_not_kept_is_read_again() -> None:
    reads: Reads[str] = Reads()
    for answer in ("first", "second"):
        reading = reads.ask("a", lambda answer=answer: answer)
        assert reading.result(10) == answer


def test_reads_that_hang_do_not_take_every_thread(hang: Callable[[], str]) -> None:
    reads: Reads[str] = Reads(at_once=2)
    a, _ = reads.ask("a", hang), reads.ask("b", hang)
    with pytest.raises(TooManyReads):
        reads.ask("c", hang)
    assert reads.ask("a", hang) is a


def test_nobody_waits_again_for_a_read_that_has_taken_too_long_already(hang: Callable[[], str]) -> None:
    reads: Reads[str] = Reads()
    reading = reads.ask("a", hang)
    assert not reading.ended_within(0.05)
    reading._began_at -= 60
    assert not reading.ended_within(60)


def test_who_asks_gets_the_error_and_the_next_one_a_new_read() -> None:
    def fail() -> str:
        raise OSError("no route")

    reads: Reads[str] = Reads()
    reading = reads.ask("a", fail)
    assert reading.ended_within(10)
    with pytest.raises(OSError, match="no route"):
        reading.result()
    again = reads.ask("a", lambda: "said")
    assert again.result(10) == "said"
