"""What the page says of a run that moves partitions: how far, how long still, what happened, and who is silent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kafka_rebalance.documents.progress import Count
from kafka_rebalance.documents.rate_steps import Reason, Sign
from kafka_rebalance.pages.page import render_file
from kafka_rebalance.pages.progress import BATCHES_SHOWN, SILENT, live_words, reason_words
from kafka_rebalance.pages.run_report import RunReport
from support.documents import report_samples as samples
from support.documents.built_report import planned

SEEN = datetime(2026, 5, 3, 15, 10, 31, tzinfo=UTC)


def report(**documents: Any) -> RunReport:
    under_way = {"decision": samples.decision(), "throttle": samples.throttle(), "batches": samples.batches()}
    return planned(**under_way | {"progress": samples.progress()} | documents)


def counts(count: Count) -> tuple[int, int, int, int]:
    return count.partitions_done, count.partitions_total, count.bytes_copied, count.bytes_total


def test_progress_is_of_the_whole_plan_and_counts_no_batch_twice() -> None:
    execution = report().execution
    assert (execution.partitions_done, execution.bytes_copied) == (17, 205 * samples.GIB)
    assert execution.progress is not None
    assert counts(execution.progress) == (17, 34, 205 * samples.GIB, 287 * samples.GIB)
    assert execution.progress.this_batch is not None
    assert counts(execution.progress.this_batch) == (5, 12, 41 * samples.GIB, 92 * samples.GIB)


def test_a_batch_that_is_not_as_large_as_planned_says_so() -> None:
    assert live_words(report(), None).planned == ""
    count = samples.progress()["this_batch"] | {"bytes_total": 97 * samples.GIB}
    words = live_words(report(progress=samples.progress(this_batch=count)), None).planned
    assert words == "the present size of its partitions; 92.0 GiB by the plan"


def test_batches_that_are_over_count_where_nobody_noted_progress_since() -> None:
    old = samples.progress(batch=1, partitions_done=3, bytes_copied=1)
    assert report(progress=old).execution.partitions_done == 12
    assert report(progress=None).execution.bytes_copied == 164 * samples.GIB


def test_a_progress_json_of_an_older_version_still_reads() -> None:
    later = ("this_batch", "brokers", "brokers_total", "partitions", "events", "open")
    old = {key: value for key, value in samples.progress().items() if key not in later}
    execution = report(progress=old).execution
    assert execution.progress is not None
    assert (execution.progress.brokers, execution.progress.this_batch) == ((), None)


def test_a_run_that_has_only_waited_so_far_says_why() -> None:
    waiting = {"format_version": 1, "updated_at": SEEN.isoformat(), "state": "waiting", "waiting_for": ["no batch yet"]}
    execution = report(batches=None, progress=waiting | {"anomalies": []}).execution
    assert execution.progress is not None
    assert execution.progress.waiting_for == ("no batch yet",)
    assert execution.partitions_done == 0


def test_the_time_left_holds_the_plans_time_and_the_pace_of_this_run() -> None:
    words = live_words(report(), None)
    # 82 of 287 GiB are left: 0.9 to 1.5 times 51 min by the plan, 12 min as fast as it went so far.
    assert words.rest == "12 min–1 h 17 min"
    assert words.ends == "2026-05-03 15:22–16:27 UTC"
    assert words.basis == (
        ("12 min", "at its pace since 14:41"),
        ("46 min–1 h 17 min", "by 0.9–1.5 times the plan"),
    )


def test_the_time_left_says_what_it_rests_on() -> None:
    earlier = {"ratios": [1.0, 1.1, 1.2, 1.3, 1.4, 1.5], "last": [], "problems": []}
    assert live_words(report(estimate=earlier), None).basis == (
        ("12 min", "at its pace since 14:41"),
        ("54 min–1 h 15 min", "by the plan and 6 earlier runs here"),
    )
    just_begun = samples.progress(bytes_copied=samples.GIB, partitions_done=0)
    assert live_words(report(progress=just_begun), None).basis == (
        ("2 h 42 min–4 h 29 min", "by 0.9–1.5 times the plan"),
    )


def test_another_throttle_changes_the_time_left() -> None:
    slow = samples.throttle(bytes_per_second=25_000_000, first_bytes_per_second=50_000_000)
    assert live_words(report(throttle=slow), None).rest == "12 min–2 h 35 min"


def test_a_run_that_copies_nothing_has_a_time_left_by_its_batches() -> None:
    proposals = samples.proposals_of(batches=120, makespan_seconds=0.0, makespan_bound_seconds=0.0)
    nothing = {"partitions_done": 5, "partitions_total": 1200, "bytes_copied": 0, "bytes_total": 0}
    progress = samples.progress(batches=120, this_batch=nothing, later_busiest_bytes=[0] * 118, **nothing)
    began = [samples.batches()["batches"][0] | {"bytes": 0, "created_at": "2026-05-03T15:10:26+00:00"}]
    words = live_words(report(proposals=proposals, progress=progress, batches={"batches": began}), None)
    assert (words.rest, words.ends) == ("9–15 min", "2026-05-03 15:19–15:25 UTC")


@pytest.mark.parametrize("copied", [0, 287])
def test_nothing_is_said_of_the_end_where_nothing_is_left(copied: int) -> None:
    whole = {"bytes_copied": copied * samples.GIB, "bytes_total": copied * samples.GIB}
    last = samples.progress()["this_batch"] | {"partitions_done": 12}
    progress = samples.progress(batch=3, this_batch=last, **whole)
    words = live_words(report(progress=progress), None)
    assert (words.rest, words.ends) == ("", "")


def test_a_day_is_named_twice_where_the_end_may_be_tomorrow() -> None:
    late = samples.progress(updated_at="2026-05-03T23:40:00+00:00")
    batches = samples.batches()
    for batch in batches["batches"]:
        batch["created_at"] = "2026-05-03T23:10:00+00:00"
    assert live_words(report(progress=late, batches=batches), None).ends == "2026-05-03 23:52–2026-05-04 00:57 UTC"


def test_a_run_that_nobody_follows_says_so_and_what_to_look_at() -> None:
    assert live_words(report(), SEEN + SILENT - timedelta(seconds=1)).silence == ""
    said = live_words(report(), SEEN + timedelta(minutes=5)).silence
    assert said.startswith("No news for 5 min: nobody follows this run now.")
    assert live_words(report(), None).silence == "", "nobody is there to see it in a file"
    over = report(verification=samples.verification(passed=True))
    assert live_words(over, SEEN + timedelta(days=1)).silence == ""


def in_place(state: str) -> dict[str, Any]:
    """Progress of every partition, in this state."""
    return samples.progress(state=state, partitions_done=34, bytes_copied=287 * samples.GIB)


def test_nobody_is_missed_once_all_batches_are_in_place_or_no_further_one_comes() -> None:
    later = SEEN + timedelta(minutes=5)
    windowed = samples.snapshot(window={"not_before": None, "finish_by": "2026-05-03T16:00:00+00:00"})
    words = live_words(report(snapshot=windowed, progress=in_place("done")), later)
    assert (words.silence, words.is_in_place, words.window) == ("", True, None)
    three = {"batches": [one | {"state": "done", "partitions": 12} for one in [samples.batches()["batches"][0]] * 3]}
    assert live_words(report(batches=three), later).is_in_place, "the last look was long before the end"
    words = live_words(report(progress=in_place("settling")), later)
    assert words.silence, "somebody is to watch it a moment longer"
    assert not words.is_in_place
    stopped = {**samples.batches(), "stopped": {"at": "2026-05-03T15:12:00+00:00", "why": "olive asked."}}
    words = live_words(report(batches=stopped), later)
    assert (words.silence, words.is_in_place) == ("", False)
    assert not live_words(report(progress=in_place("done")), None, is_active=False).is_in_place
    over = report(progress=in_place("done"), verification=samples.verification(passed=True))
    assert not live_words(over, later).is_in_place


def test_of_a_run_that_airflow_has_ended_no_end_is_told_but_who_has_its_throttle() -> None:
    windowed = samples.snapshot(window={"not_before": None, "finish_by": "2026-05-03T16:00:00+00:00"})
    assert live_words(report(snapshot=windowed), SEEN).window is not None
    words = live_words(report(snapshot=windowed), None, is_active=False)
    assert (words.rest, words.ends, words.basis, words.window) == ("", "", (), None)
    assert words.silence.startswith("The run has ended, and nobody follows its batches")
    assert "under their throttle of 47.7 MiB/s. The Dag kafka_throttle_janitor removes it" in words.silence
    released = report(throttle=samples.throttle(released_at="2026-05-03T15:39:00+00:00"))
    assert "throttle of" not in live_words(released, None, is_active=False).silence
    for over in ({"verification": samples.verification(passed=True)}, {"batches": None}):
        assert live_words(report(**over), None, is_active=False).silence == ""


def test_what_happened_comes_newest_first_out_of_every_file() -> None:
    change = {"at": "2026-05-03T15:05:00+00:00", "bytes_per_second": 25_000_000, "by": "uma"}
    documents = {
        "throttle": samples.throttle(
            bytes_per_second=25_000_000, first_bytes_per_second=50_000_000, rate_changes=[change],
            released_at="2026-05-03T15:39:00+00:00",
        ),
        "control": {"stop_after_batch": {"by": "olive", "at": "2026-05-03T15:08:00+00:00"}, "cancelled": None},
        "batches": {**samples.batches(), "stopped": {"at": "2026-05-03T15:12:00+00:00", "why": "olive asked."}},
        "verification": samples.verification(),
        "left_out": samples.left_out(),
    }  # fmt: skip
    told = [event.text for event in live_words(report(**documents), None).events]
    assert told == [
        "Verified: 17 of 34 moves are not in place",
        "Throttle taken off; the values from before it are back",
        "olive asked.",
        "olive asked for no further batch",
        "orders.payments.authorised-19: no progress for 5 min; is broker 3 up?",
        "uma set the throttle to 23.8 MiB/s",
        "Batch 2 requested: 12 partitions, 92.0 GiB to copy",
        "Batch 1 in place",
        "1 approved move left out",
        "Batch 1 requested: 12 partitions, 164 GiB to copy",
        "Throttle of 47.7 MiB/s set on 6 brokers",
        "olive approved balanced",
    ]


def test_of_many_batches_the_newest_and_those_that_did_not_end_well_are_listed() -> None:
    one = samples.batches()["batches"][0]
    many = [one | {"number": number} for number in range(1, 301)]
    many[6]["state"] = "stalled"
    words = live_words(report(batches={"batches": many}), None)
    assert [batch.number for batch in words.batches] == [7, *range(301 - BATCHES_SHOWN, 301)]
    assert words.batches_before == 300 - BATCHES_SHOWN - 1


STEP = {"at": "2026-05-03T15:05:00+00:00", "before": 10_000_000, "after": 14_142_136}
CALM = {"sign": "calm"}


def adapting(**changes: Any) -> dict[str, Any]:
    return samples.throttle(ladder=[10_000_000, 14_142_136, 50_000_000], **changes)


def test_each_change_of_a_rate_is_an_event_with_its_reason_and_the_page_says_which_broker_has_which() -> None:
    slow = {"sign": "slow_answer", "figure": 0.25, "usual": 0.004, "broker": 3}
    later = {**STEP, "at": "2026-05-03T15:06:00+00:00", "before": 14_142_136, "after": 10_000_000}
    steps = [
        {**STEP, "brokers": [1, 2, 3], "reasons": [CALM]},
        {**later, "brokers": [3], "reasons": [slow]},
    ]
    noted = {"format_version": 1, "given_up": [], "steps": steps, "held_by": [{"sign": "unread", "what": "lags"}]}
    under_way = report(throttle=adapting(), rate_steps=noted)
    words = live_words(under_way, None)
    told = [event.text for event in words.events]
    assert "Rate of brokers 1, 2, 3 raised to 13.5 MiB/s: nothing was seen" in told
    assert "Rate of broker 3 lowered to 9.54 MiB/s: broker 3 answers in 250 ms, not in 4 ms" in told
    assert "Throttle of 9.54 MiB/s to 47.7 MiB/s set on 6 brokers" in told
    assert words.rates == (
        "9.54 MiB/s: broker 3",
        "13.5 MiB/s: brokers 1, 2",
        "No other rate rises: the lags of consumer groups could not be read",
    )


def test_once_a_person_has_set_a_rate_the_page_tells_no_rates_of_brokers() -> None:
    change = {"at": "2026-05-03T15:05:00+00:00", "bytes_per_second": 25_000_000, "by": "uma"}
    noted = {"format_version": 1, "given_up": [], "steps": [{**STEP, "brokers": [1], "reasons": [CALM]}]}
    set_by_uma = adapting(bytes_per_second=25_000_000, first_bytes_per_second=50_000_000, rate_changes=[change])
    assert live_words(report(throttle=set_by_uma, rate_steps=noted), None).rates == ()


@pytest.mark.parametrize("sign", list(Sign))
def test_every_reason_has_words(sign: Sign) -> None:
    words = reason_words(Reason(sign, 3.0, 2.0, 1, "orders-0"))
    assert words
    assert "None" not in words


def test_the_page_of_a_run_with_a_range_shows_both_ends_and_each_rate() -> None:
    noted = {"format_version": 1, "given_up": [], "steps": [{**STEP, "brokers": [1, 2], "reasons": [CALM]}]}
    decided = samples.decision(throttle_from_bytes_per_second=10_000_000)
    page = render_file(report(decision=decided, throttle=adapting(), rate_steps=noted))
    page = page.replace("\N{NO-BREAK SPACE}", " ")
    assert page.count("9.54 MiB/s to 47.7 MiB/s") >= 3  # of the approval, of the decision, and now
    assert "Rate of brokers 1, 2 raised to 13.5 MiB/s: nothing was seen" in page
    assert "13.5 MiB/s: brokers 1, 2" in page
