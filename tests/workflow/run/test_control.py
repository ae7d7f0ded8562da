"""control.json: what people ask of a running rebalance, as those who run it read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.run import stop_and_cancel_requests
from kafka_rebalance.run.stop_and_cancel_requests import Control, ask_cancel, ask_stop, read_control
from support.runs.simulated_cluster import freeze


def test_where_nobody_asked_nothing_is_asked(tmp_path: Path) -> None:
    assert read_control(tmp_path) == Control()


def test_who_asked_first_to_stop_stays_written_down_when_somebody_cancels(tmp_path: Path) -> None:
    first = ask_stop(tmp_path, "olive")
    assert first.stop_after_batch is not None
    assert (first.stop_after_batch.by, first.cancelled) == ("olive", None)
    ask_stop(tmp_path, "uma")
    then = ask_cancel(tmp_path, "uma")
    assert then.stop_after_batch == first.stop_after_batch
    assert then.cancelled is not None
    assert then.cancelled.by == "uma"
    assert read_control(tmp_path) == then


def test_who_cancelled_first_stays_written_down_whoever_asks_then(tmp_path: Path) -> None:
    first = ask_cancel(tmp_path, "uma")
    assert first.stop_after_batch is not None
    for ask in (ask_stop, ask_cancel):
        assert ask(tmp_path, "vera") == first
    assert read_control(tmp_path) == first


def test_who_asks_to_stop_at_the_moment_of_a_cancel_does_not_take_it_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frozen between reading and writing, that is."""
    freeze(monkeypatch, stop_and_cancel_requests, "_write", lambda: ask_cancel(tmp_path, "uma"))
    ask_stop(tmp_path, "olive")
    asked = read_control(tmp_path)
    assert asked.stop_after_batch is not None
    assert asked.cancelled is not None
    assert asked.cancelled.by == "uma"


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{", b'{"format_version": 2}', b'{"format_version": 1, "stop_after_batch": true}']
)
def test_what_cannot_be_read_is_not_taken_for_nothing_asked(tmp_path: Path, text: bytes) -> None:
    (tmp_path / json_files.CONTROL).write_bytes(text)
    with pytest.raises(ArtifactError) as refused:
        read_control(tmp_path)
    if b"true" in text:  # no task writes control.json: that one is cleared would not help
        assert "Remove control.json and cancelled.json, and ask again" in str(refused.value)
