"""The latencies that `make bench-execution` reports."""

from __future__ import annotations

from array import array

from bench.execution.load import Seen, table


def seen() -> Seen:
    """A record a second: in the first hundred seconds one takes 100 ms and the others 1 ms, then all take 5 ms."""
    pairs = [(at, 100.0 if at == 7 else 1.0 if at < 100 else 5.0) for at in range(200)]
    flat = array("d", [number for pair in pairs for number in pair])
    return Seen(flat, flat, 0)


def test_a_window_has_the_records_that_were_sent_in_it() -> None:
    found = seen().during([(0, 10), (150, 160)])
    assert found.records == 20
    assert found.produced == (5.0, 100.0)


def test_the_slowest_hundredth_is_the_99th_percentile() -> None:
    assert seen().during([(0, 100)]).produced == (1.0, 100.0)
    assert seen().during([(0, 7), (8, 100)]).produced == (1.0, 1.0)


def test_windows_are_compared_with_the_first() -> None:
    lines = list(table({"quiet": (seen().during([(8, 90)]), "–"), "busy": (seen().during([(100, 200)]), "1 MB")}))
    assert lines[2] == "| quiet | – | 82 | 1.0 | 1.0 | 1.00 | 1.0 | 1.0 | 1.00 |"
    assert lines[3] == "| busy | 1 MB | 100 | 5.0 | 5.0 | 5.00 | 5.0 | 5.0 | 5.00 |"
