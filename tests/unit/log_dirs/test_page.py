"""What the page of moves between log dirs says: figures, caveats, states, buttons and windows."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from kafka_rebalance.documents.log_dir_plan import DirForecast, LogDirMove, LogDirPlan, PlannedLogDirs
from kafka_rebalance.documents.progress import Progress
from kafka_rebalance.log_dirs.next_copies import CopyState
from kafka_rebalance.log_dirs.page import (
    COPY_STATES,
    LogDirRun,
    LogDirState,
    buttons,
    caveats,
    log_dir_figures,
    silence,
    windows_words,
)
from kafka_rebalance.pages.first_screen import KeyFigure
from kafka_rebalance.pages.run_state import Action, Tone
from kafka_rebalance.run.approval_rules import Decision
from support.documents.log_dir_sample import WRITTEN as SAMPLE

GIB = 1024**3
MOVES = (LogDirMove("t", 0, 1, "/a", "/b", 20 * GIB),)
PLAN = LogDirPlan("id", "balance", MOVES, 50 * 1024**2, 3, 0.1)
DIRS = (
    DirForecast(1, "/a", 60 * GIB, 40 * GIB, 65 * GIB, 100 * GIB),
    DirForecast(1, "/b", 20 * GIB, 40 * GIB, 45 * GIB, 100 * GIB),
)
WRITTEN = replace(SAMPLE, plan=PLAN, digest=PLAN.digest, dirs=DIRS, bound_bytes=20 * GIB)


def figure(name: str, **changes: object) -> KeyFigure:
    (found,) = (one for one in log_dir_figures(replace(WRITTEN, **changes)) if one.name == name)  # type: ignore[arg-type]
    return found


def test_bytes_are_judged_by_what_no_plan_can_stay_below() -> None:
    assert figure("Copies").word == "least"
    near = figure("Copies", bound_bytes=19 * GIB)
    assert (near.word, near.tone) == ("near the least", Tone.GOOD)
    assert "no plan copies less than 19.0 GiB" in near.note
    assert figure("Copies", bound_bytes=10 * GIB).tone is Tone.ATTENTION


@pytest.mark.parametrize(
    ("peak_gib", "size_gib", "word", "tone"),
    [(89, 100, "has room", Tone.GOOD), (95, 100, "too full", Tone.BAD), (95, None, "unknown", Tone.ATTENTION)],
)
def test_the_fullest_disk_is_held_against_what_must_stay_free(
    peak_gib: int, size_gib: int | None, word: str, tone: Tone
) -> None:
    total = None if size_gib is None else size_gib * GIB
    dirs = tuple(replace(one, peak_bytes=peak_gib * GIB, total_bytes=total) for one in DIRS[1:])
    found = figure("Fullest disk meanwhile", dirs=dirs)
    assert (found.word, found.tone) == (word, tone)


def test_a_disk_that_is_full_already_and_receives_nothing_is_not_the_plans_fault() -> None:
    full = replace(DIRS[0], peak_bytes=97 * GIB)
    found = figure("Fullest disk meanwhile", dirs=(full, DIRS[1]))
    assert (found.value, found.word, found.tone) == ("97 %", "as full as now", Tone.ATTENTION)


def test_shares_go_by_the_size_of_the_disks_and_are_equal_where_one_tells_none() -> None:
    assert figure("Fullest log dir").value == "1.50 → 1.00"
    larger = (replace(DIRS[0], total_bytes=300 * GIB), DIRS[1])
    assert figure("Fullest log dir", dirs=larger).value == "1.00 → 2.00"
    assert figure("Fullest log dir", dirs=larger).word == "less even"
    assert figure("Fullest log dir", dirs=(replace(larger[0], total_bytes=None), DIRS[1])).value == "1.50 → 1.00"


def test_a_drain_says_what_stays_in_its_log_dir() -> None:
    drain = {"plan": replace(PLAN, job="drain"), "broker": 1, "log_dir": "/a"}
    assert (figure("Left in the log dir", **drain).value, figure("Left in the log dir", **drain).tone) == (
        "40.0 GiB", Tone.BAD,
    )  # fmt: skip
    emptied = (replace(DIRS[0], after_bytes=0), DIRS[1])
    assert figure("Left in the log dir", dirs=emptied, **drain).word == "empty"


def test_bytes_outside_the_band_are_told_where_there_are_any() -> None:
    assert "Stay outside the band" not in {one.name for one in log_dir_figures(WRITTEN)}
    assert figure("Stay outside the band", left_bytes=GIB).value == "1.00 GiB"


def test_brokers_that_tell_no_size_of_their_disks_are_a_caveat() -> None:
    unsized = replace(WRITTEN, dirs=(replace(DIRS[0], total_bytes=None), DIRS[1]))
    assert caveats(unsized)[0].startswith("1 log dir tells no size of its disk")
    assert not any("no size" in text for text in caveats(WRITTEN))


def test_every_state_of_a_copy_has_its_words() -> None:
    assert set(COPY_STATES) == set(CopyState)


def test_copies_are_unfollowed_only_while_the_run_goes_on_and_something_is_left() -> None:
    seen = Progress(
        updated_at=datetime(2026, 1, 1, tzinfo=UTC), state="requested", partitions_done=1, partitions_total=2
    )
    late = seen.updated_at + timedelta(minutes=10)
    assert "for 10 min" in silence(LogDirRun(WRITTEN, progress=seen), late)
    assert silence(LogDirRun(WRITTEN, progress=seen), seen.updated_at) == ""
    assert silence(LogDirRun(WRITTEN, progress=seen, is_active=False), late) == ""
    assert silence(LogDirRun(WRITTEN, progress=replace(seen, partitions_done=2)), late) == ""


def test_a_run_that_waits_for_its_window_is_paused_until_it_opens_or_ends() -> None:
    opens = datetime(2026, 1, 2, tzinfo=UTC)
    waits = Progress(updated_at=opens, state="waiting", waiting_until=opens)
    approved = Decision(choice="balance", digest=PLAN.digest, approved_at=opens)
    run = LogDirRun(WRITTEN, approved, waits)
    assert (run.state, run.waits_until) == (LogDirState.PAUSED, opens)
    assert replace(run, progress=replace(waits, state="requested")).state is LogDirState.COPYING
    assert replace(run, is_active=False).state is LogDirState.BROKEN_OFF


def test_a_button_needs_a_page_that_it_leads_to() -> None:
    pages = dict.fromkeys(Action, "/page")
    waiting = LogDirRun(WRITTEN, has_open_request=True)
    assert [one.words for one in buttons(waiting, pages)] == ["Approve or reject"]
    assert buttons(waiting, {}) == ()


# Windows.

NIGHTS = "daily 22:00-04:00 UTC"
HOUR, RATE = 3600, 1000


def planned(*hours: float, at: int = 12) -> PlannedLogDirs:
    """Copies of so many hours each, of one broker, planned at this hour."""
    moves = tuple(LogDirMove("t", number, 1, "/a", "/b", int(hour * HOUR * RATE)) for number, hour in enumerate(hours))
    plan = replace(SAMPLE.plan, moves=moves, throttle_bytes_per_second=RATE, windows=(NIGHTS,))
    return replace(SAMPLE, plan=plan, policy_windows=(NIGHTS,), observed_at=datetime(2026, 1, 1, at, tzinfo=UTC))


def test_a_policy_without_windows_needs_no_words() -> None:
    assert windows_words(SAMPLE) == ""


def test_copies_outside_the_windows_are_told() -> None:
    assert "at once after the approval, outside the policy's windows (daily 22:00" in windows_words(
        replace(SAMPLE, policy_windows=(NIGHTS,))
    )


@pytest.mark.parametrize(
    ("hours", "at", "words"),
    [
        ((1.0,), 12, "It opens at 2026-01-01 22:00:00 UTC. All copies may take 1 opening"),
        ((1.0,), 23, "It is open until 2026-01-02 04:00:00 UTC. All copies may take 1 opening"),
        ((3.0, 3.0, 3.0), 12, "All copies may take 3 openings"),  # each may take half as long again
        ((1.0, 5.0), 12, "No opening has room for the copy after the first 1"),
    ],
)
def test_it_says_how_many_openings_the_copies_need(hours: tuple[float, ...], at: int, words: str) -> None:
    assert words in windows_words(planned(*hours, at=at))
