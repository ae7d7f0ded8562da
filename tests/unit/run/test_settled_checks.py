"""Looking again until a change has come to its end, or the time is up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from kafka_rebalance import clock
from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import VerificationError
from kafka_rebalance.run.check_result import Check, CheckName
from kafka_rebalance.run.check_until_settled import check_passed, settled, write_checks


@pytest.fixture(autouse=True)
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Each time that was slept; no time passes otherwise."""
    slept: list[float] = []
    monkeypatch.setattr(
        clock, "time", SimpleNamespace(time=time.time, monotonic=lambda: sum(slept), sleep=slept.append)
    )
    return slept


def check(passed: bool) -> Check:
    return Check(CheckName.CONFIG, "orders", "retention.ms is 1", f"it is {passed}", passed)


def test_it_looks_once_also_where_there_is_no_time() -> None:
    assert len(list(clock.looks(0, 0.5))) == 2
    assert len(list(clock.looks(-1, 0.5))) == 1


def test_nobody_waits_once_all_checks_pass(seconds: list[float]) -> None:
    found: Iterator[bool] = iter([False, False, True, False])
    assert settled(lambda: (check(next(found)),), 10) == (check(True),)
    assert seconds == [0.5, 0.5]


def test_what_does_not_pass_in_time_is_given_as_it_was_last(seconds: list[float]) -> None:
    assert settled(lambda: (check(False),), 2) == (check(False),)
    assert sum(seconds) == 2.5


def test_what_is_written_says_which_check_failed_first(tmp_path: Path) -> None:
    summary = write_checks(tmp_path, (check(True), check(False)), "digest", ends={"in place": []})
    written = json_files.read_json(tmp_path, json_files.VERIFICATION)
    assert (written["passed"], written["source_digest"], written["ends"]) == (False, "digest", {"in place": []})
    with pytest.raises(VerificationError, match=r"^1 of 2 checks failed; first config of orders: it is False, must be"):
        check_passed(summary)
