"""What was promised when a run was approved, beside what happened."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_rebalance.pages.progress import Compared, compared
from support.documents import report_samples as samples
from support.documents.built_report import build_report


def lines(**documents: Any) -> dict[str, Compared]:
    batches = samples.batches()
    batches["batches"][1] |= {"state": "done", "finished_at": "2026-05-03T15:35:00+00:00"}
    given: dict[str, Any] = {
        "proposals": samples.proposals(),
        "moves": samples.all_moves(),
        "decision": samples.decision(),
        "throttle": samples.throttle(),
        "batches": batches,
        "progress": samples.progress(partitions_done=34, bytes_copied=287 * samples.GIB),
        "verification": samples.verification(passed=True),
    }
    return {line.what: line for line in compared(build_report(samples.snapshot(), **{**given, **documents}))}


def test_time_bytes_partitions_batches_and_throttle_are_held_against_what_was_approved() -> None:
    found = lines()
    assert (found["Time"].predicted, found["Time"].actual) == ("3 h", "54 min")
    assert (found["Partitions in place"].predicted, found["Partitions in place"].actual) == ("34", "34")
    assert (found["Batches"].predicted, found["Batches"].actual) == ("3", "2")
    assert found["Throttle of one broker"].note == ""


def with_measured(*measured: int | None) -> dict[str, Any]:
    """Both batches in place, with the bytes that their new replicas held; nothing of it where there is none."""
    batches = samples.batches()
    for batch, size in zip(batches["batches"], measured, strict=True):
        batch |= {"state": "done", "finished_at": "2026-05-03T15:35:00+00:00", "measured_bytes": size}
    return batches


@pytest.mark.parametrize(
    ("measured", "actual", "note"),
    [
        ((166, 95), "261 GiB", "measured on the new replicas as each batch ended"),
        (
            (166, None),
            "258 GiB",
            "1 batch by its planned size, the others measured on the new replicas as they ended",
        ),
        ((None, None), "287 GiB", "by the planned sizes, because nothing was measured"),
    ],
)
def test_copied_bytes_are_those_measured_and_what_is_not_is_said(
    measured: tuple[int | None, int | None], actual: str, note: str
) -> None:
    batches = with_measured(*(None if size is None else size * samples.GIB for size in measured))
    line = lines(batches=batches)["Bytes copied"]
    assert (line.predicted, line.actual, line.note) == ("287 GiB", actual, note)


def test_batches_of_an_older_version_are_read_and_called_unmeasured() -> None:
    batches = with_measured(None, None)
    for batch in batches["batches"]:
        del batch["measured_bytes"]
    assert lines(batches=batches)["Bytes copied"].note == "by the planned sizes, because nothing was measured"


def test_what_a_batch_had_copied_that_did_not_end_counts_as_it_was_metered() -> None:
    stalled = with_measured(166 * samples.GIB, None)
    stalled["batches"][1] |= {"state": "stalled", "finished_at": None}
    assert lines(batches=stalled, progress=samples.progress())["Bytes copied"].actual == "207 GiB"


def test_the_fullest_disk_is_what_brokers_told_or_said_not_to_be_known() -> None:
    assert lines()["Fullest disk meanwhile"].actual == "not known"
    seen = lines(progress=samples.progress(fullest_disk={"broker": 5, "fraction": 0.74}))["Fullest disk meanwhile"]
    assert (seen.predicted, seen.actual) == ("71 %", "74 %")
    assert "broker 5" in seen.note


def test_another_throttle_and_moves_left_out_are_noted() -> None:
    change = {"at": "2026-05-03T15:05:00+00:00", "bytes_per_second": 25_000_000, "by": "uma"}
    changed = samples.throttle(
        bytes_per_second=25_000_000, first_bytes_per_second=50_000_000, rate_changes=[change, change]
    )
    found = lines(throttle=changed, left_out=samples.left_out())
    line = found["Throttle of one broker"]
    assert (line.predicted, line.actual, line.note) == ("47.7 MiB/s", "23.8 MiB/s", "2 changes meanwhile")
    assert found["Partitions in place"].note == "1 move left out"


def test_nothing_is_compared_before_the_end_or_where_nothing_was_requested() -> None:
    assert lines(verification=None) == {}
    assert lines(batches=None, progress=None) == {}
