"""How a cluster is, why, what to open, and which cluster comes first."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kafka_rebalance.documents.janitor_report import JanitorReport, UnheldFinding
from kafka_rebalance.documents.proposals import FirstFull, FullestDisk
from kafka_rebalance.documents.snapshot import Disks, FullestLogDir
from kafka_rebalance.pages.fleet import (
    CheckRun,
    Cluster,
    Health,
    Lease,
    Link,
    Moving,
    NightlyCheck,
    OpenRequest,
    Places,
    Reason,
    Row,
    Run,
    Unread,
    Why,
    reasons_of,
    rows_of,
)
from kafka_rebalance.pages.run_state import RunState, Tone

NOW = datetime(2026, 5, 3, 15, 0, tzinfo=UTC)
RUN = Link("Open the run", "/run", inside=True)
LOG = Link("Read the log", "/log")
PLACES = Places(
    *(Link(name, f"/{name}") for name in ("check", "janitor", "rebalance", "plan", "freeze", "conns", "variables"))
)
CHECK = NightlyCheck(observed_at=NOW, text="even", imbalance=0.0, limit=0.0, rack_violations=0)
WELL = Cluster("well", NOW, check=CHECK, check_run=CheckRun("success", NOW, LOG), janitor=JanitorReport(looked_at=NOW))
ASKED = OpenRequest("Rebalance of prod: 12 GiB", NOW, (), Link("Answer", "/answer"))
MOVING = Moving(NOW, 3, 34, 10, 100, rest="38–52 min")


def run(state: RunState, airflow_state: str = "running", **more: Any) -> Run:
    return Run(NOW, state, airflow_state, RUN, **more)


def moves(**changes: Any) -> Cluster:
    return replace(WELL, runs=(run(RunState.EXECUTING, moving=replace(MOVING, **changes)),))


def disks(share: float, days: float | None, first: int = 4) -> Cluster:
    fills = None if days is None else FirstFull(first, days, 1000)
    known = Disks(FullestDisk(4, int(share * 10_000), 10_000), fills, growth_is_known=True)
    return replace(WELL, check=replace(CHECK, disks=known))


def past_limit(imbalance: float = 0.31, **changes: Any) -> Cluster:
    check = replace(CHECK, imbalance=imbalance, limit=0.2, resource="disk", **changes)
    return replace(WELL, check=check)


def row(cluster: Cluster) -> Row:
    (found,) = rows_of([cluster], PLACES)
    return found


LEFT = UnheldFinding("config:old:7", "a config is left", "Tick it.", can_be_cleaned=True)
ILL: dict[Why, Cluster] = {
    Why.UNREAD: Cluster("ill", NOW, problems=(Unread("Its folder cannot be read", "did not answer"),)),
    Why.LEASE_UNREAD: replace(WELL, lease=Lease("", None, None, None, None, problem="not known")),
    Why.RUN_UNREAD: replace(WELL, runs=(run(RunState.PLANNING, problem="its folder cannot be read"),)),
    Why.JANITOR_ALERT: replace(
        WELL, janitor=JanitorReport(looked_at=NOW, alerts=("Copies move that nobody follows.",))
    ),
    Why.RUN_NOT_FOLLOWED: moves(is_followed=False, seen_at=NOW - timedelta(minutes=7)),
    Why.RUN_ENDED_BADLY: replace(WELL, runs=(run(RunState.NOT_AS_APPROVED, "failed"),)),
    Why.DISK_FULL: disks(0.5, 3.4),
    Why.RUN_HELD_UP: moves(waits_for=("Broker 4 is not registered. Start it.",)),
    Why.CHECK_FAILED: replace(WELL, check_run=CheckRun("failed", NOW, LOG)),
    Why.JANITOR_OVERDUE: replace(WELL, janitor=JanitorReport(looked_at=NOW - timedelta(hours=1))),
    Why.SEGMENT_ERRORS: replace(WELL, check=replace(CHECK, segment_errors=2)),
    Why.REQUEST_OPEN: replace(WELL, approvals=(ASKED,)),
    Why.DISK_FILLS_UP: disks(0.5, 24.0),
    Why.PAST_LIMIT: past_limit(),
    Why.RUN_NEEDS_A_LOOK: moves(),
    Why.CHECK_OVERDUE: replace(WELL, check=replace(CHECK, observed_at=NOW - timedelta(days=3))),
    Why.PARTLY_MEASURED: replace(WELL, check=replace(CHECK, is_whole=False)),
    Why.HISTORY_UNREAD: replace(WELL, gaps=("1 file cannot be read",)),
    Why.JANITOR_FINDING: replace(WELL, janitor=JanitorReport(looked_at=NOW, findings=(LEFT,))),
    Why.FROZEN: replace(WELL, is_frozen=True),
    Why.NOT_CHECKED: replace(WELL, check=None, check_run=None),
    Why.NOT_LOOKED_AFTER: replace(WELL, janitor=None),
}
SAID = {
    Why.UNREAD: ("unknown", "Its folder cannot be read", None),
    Why.LEASE_UNREAD: ("unknown", "Its throttle lease cannot be read", None),
    Why.RUN_UNREAD: ("unknown", "Its last run cannot be read", "/run"),
    Why.JANITOR_ALERT: ("act", "Copies move that nobody follows.", "/janitor"),
    Why.RUN_NOT_FOLLOWED: ("act", "Nobody has followed its run for 7 min", "/run"),
    Why.RUN_ENDED_BADLY: ("act", "Verification failed", "/run"),
    Why.DISK_FULL: ("act", "The disk of broker 4 is full in 3 d", "/rebalance"),
    Why.RUN_HELD_UP: ("act", "Broker 4 is not registered. Start it.", "/run"),
    Why.CHECK_FAILED: ("act", "The last check failed", "/log"),
    Why.JANITOR_OVERDUE: ("act", "The janitor has stopped looking after it", "/janitor"),
    Why.SEGMENT_ERRORS: ("act", "2 errors in segment settings", "/log"),
    Why.REQUEST_OPEN: ("answer", "Rebalance of prod: 12 GiB", "/answer"),
    Why.DISK_FILLS_UP: ("watch", "The disk of broker 4 is full in 24 d", "/rebalance"),
    Why.PAST_LIMIT: ("watch", "Bytes on disk 31 % off their share, limit 20 %", "/rebalance"),
    Why.RUN_NEEDS_A_LOOK: ("watch", "Reassigning", "/run"),
    Why.CHECK_OVERDUE: ("watch", "Not checked for 3 d", "/check"),
    Why.PARTLY_MEASURED: ("watch", "Not everything was measured", "/log"),
    Why.HISTORY_UNREAD: ("watch", "Some of its earlier checks cannot be read", None),
    Why.JANITOR_FINDING: ("watch", "The janitor has 1 finding", "/janitor"),
    Why.FROZEN: ("watch", "Frozen: no rebalance writes", "/freeze"),
    Why.NOT_CHECKED: ("watch", "Not checked yet", "/check"),
    Why.NOT_LOOKED_AFTER: ("watch", "The janitor has not looked yet", "/janitor"),
}


@pytest.mark.parametrize("why", Why)
def test_each_reason_says_how_urgent_it_is_what_is_wrong_and_where_to_act(why: Why) -> None:
    reason = reasons_of(ILL[why], PLACES)[0]
    assert reason.why is why
    assert (reason.health, reason.words, reason.link and reason.link.url) == SAID[why]


def test_a_cluster_without_a_reason_is_well_and_needs_nothing() -> None:
    assert (row(WELL).health, row(WELL).words, row(WELL).reasons) == (Health.OK, "Balanced, nothing to do", ())


def test_the_most_urgent_cluster_comes_first_whatever_the_order_of_the_variable() -> None:
    clusters = [*(replace(ill, connection_id=why) for why, ill in ILL.items()), WELL]
    random.Random(5).shuffle(clusters)
    assert [one.cluster.connection_id for one in rows_of(clusters, PLACES)] == [*Why, "well"]


def test_what_cannot_be_read_comes_before_all_that_is_known() -> None:
    healths = [row(ill).health for ill in ILL.values()]
    assert healths == sorted(healths, key=list(Health).index)
    assert healths[0] is Health.UNKNOWN


def test_of_two_reasons_of_one_cluster_the_more_urgent_one_is_in_its_row() -> None:
    both = replace(ILL[Why.PAST_LIMIT], is_frozen=True, approvals=(ASKED,))
    assert [reason.why for reason in row(both).reasons] == [Why.REQUEST_OPEN, Why.PAST_LIMIT, Why.FROZEN]
    assert row(both).health is Health.ANSWER


@pytest.mark.parametrize(
    ("first", "later"),
    [
        (disks(0.5, 2.0), disks(0.5, 6.0)),
        (disks(0.97, 1.0), disks(0.5, 2.0)),
        (past_limit(0.6), past_limit(0.3)),
        (replace(WELL, check=replace(CHECK, segment_errors=9)), ILL[Why.SEGMENT_ERRORS]),
        (
            replace(WELL, approvals=(replace(ASKED, at=NOW - timedelta(hours=5)),)),
            replace(WELL, approvals=(ASKED,)),
        ),
    ],
    ids=["full sooner", "already full", "less even", "more errors", "asked earlier"],
)
def test_of_two_clusters_with_one_reason_the_one_that_is_worse_off_comes_first(first: Cluster, later: Cluster) -> None:
    found = rows_of([replace(later, connection_id="later"), replace(first, connection_id="first")], PLACES)
    assert [one.cluster.connection_id for one in found] == ["first", "later"]


def test_clusters_of_the_same_urgency_stay_in_the_order_of_the_variable() -> None:
    names = ["b", "a", "c"]
    found = rows_of([replace(WELL, connection_id=name) for name in names], PLACES)
    assert [one.cluster.connection_id for one in found] == names


@pytest.mark.parametrize(
    ("cluster", "why"),
    [
        (disks(0.95, None), Why.DISK_FULL),
        (disks(0.94, None), Why.DISK_FILLS_UP),
        (disks(0.90, None), None),
        (disks(0.91, 200.0), Why.DISK_FILLS_UP),
        (disks(0.2, 7.0), Why.DISK_FULL),
        (disks(0.2, 7.1), Why.DISK_FILLS_UP),
        (disks(0.2, 30.0), Why.DISK_FILLS_UP),
        (disks(0.2, 30.1), None),
    ],
)
def test_a_disk_is_urgent_by_what_is_free_and_by_the_days_that_are_left(cluster: Cluster, why: Why | None) -> None:
    assert [reason.why for reason in reasons_of(cluster, PLACES)] == ([] if why is None else [why])


def test_the_disk_that_is_full_first_need_not_be_the_fullest() -> None:
    assert row(disks(0.8, 5.0, first=9)).words == "The disk of broker 9 is full in 5 d"


def test_while_a_run_goes_on_nobody_is_told_to_start_another_one() -> None:
    going_on = run(RunState.EXECUTING, moving=MOVING)
    found = reasons_of(replace(past_limit(), runs=(going_on,)), PLACES)
    assert [reason.why for reason in found] == [Why.RUN_NEEDS_A_LOOK]
    full = reasons_of(replace(disks(0.5, 3.0), runs=(going_on,)), PLACES)[0]
    assert (full.why, full.link) == (Why.DISK_FULL, RUN)
    waits = replace(past_limit(), runs=(run(RunState.WAITING),))
    assert [(one.why, one.link) for one in reasons_of(waits, PLACES)] == [
        (Why.REQUEST_OPEN, RUN),
        (Why.PAST_LIMIT, RUN),
    ]


def test_where_the_check_says_why_it_proposes_nothing_nobody_is_told_to_start_a_rebalance() -> None:
    assert row(past_limit(not_proposed="it cannot help")).reasons[0].link is None
    waits = replace(past_limit(not_proposed="it cannot help"), runs=(run(RunState.WAITING),))
    assert [one.link for one in reasons_of(waits, PLACES)] == [RUN, RUN]


def test_a_rack_violation_is_past_any_limit() -> None:
    assert row(past_limit(0.1, rack_violations=3)).words == "3 rack violations"


def test_a_replica_outside_its_pool_is_past_any_limit() -> None:
    assert row(past_limit(0.1, outside_pools=1)).words == "1 replica outside its pool"
    assert row(past_limit(0.1, outside_pools=2, rack_violations=3)).words == "3 rack violations"


def test_what_cannot_be_read_is_not_called_missing() -> None:
    assert [reason.why for reason in reasons_of(ILL[Why.UNREAD], PLACES)] == [Why.UNREAD]


@pytest.mark.parametrize("state", RunState)
def test_a_cluster_is_as_its_last_run_is(state: RunState) -> None:
    found = row(replace(WELL, runs=(run(state),)))
    expected = {Tone.BAD: Health.ACT, Tone.ATTENTION: Health.WATCH}.get(state.tone, Health.OK)
    assert found.health is (Health.ANSWER if state is RunState.WAITING else expected)
    assert (state.word in found.words.lower()) == (expected is not Health.OK)


def test_a_run_that_waits_is_named_once() -> None:
    asked = replace(WELL, runs=(run(RunState.WAITING),), approvals=(ASKED,))
    assert [reason.words for reason in row(asked).reasons] == [ASKED.subject]


def test_a_run_that_is_over_hides_none_that_goes_on_or_ended_before() -> None:
    first, over, second = run(RunState.WAITING), run(RunState.VERIFIED, "success"), run(RunState.EXECUTING)
    cluster = replace(WELL, runs=(first, over, second))
    assert (cluster.open_run, cluster.running, cluster.ended) == (first, second, over)


@pytest.mark.parametrize(
    ("partitions", "copied", "share"),
    [((17, 34), (25, 100), 0.25), ((17, 34), (0, 0), 0.5), ((0, 0), (0, 0), 0.0), ((1, 34), (120, 100), 1.0)],
)
def test_how_far_a_run_is_counts_bytes_and_without_bytes_partitions(
    partitions: tuple[int, int], copied: tuple[int, int], share: float
) -> None:
    assert Moving(NOW, *partitions, *copied).share_done == share


def test_every_reason_has_a_place_in_the_order() -> None:
    assert sorted(Why, key=lambda why: Reason(why, "").urgency) == list(Why)


@pytest.mark.parametrize(("has_policy", "has_rights"), [(False, True), (True, False)])
def test_of_a_cluster_that_nobody_may_write_to_one_can_make_a_plan_and_the_details_say_why(
    has_policy: bool, has_rights: bool
) -> None:
    cluster = past_limit(has_policy=has_policy, has_rights=has_rights)
    assert reasons_of(cluster, PLACES)[0].link == PLACES.plan_only
    assert cluster.check is not None
    assert "Runs plan and report" in cluster.check.read_only_words
    assert reasons_of(past_limit(), PLACES)[0].link == PLACES.rebalance
    assert CHECK.read_only_words == ""


def test_a_log_dir_that_is_fuller_than_its_brokers_disks_together_is_the_one_that_counts() -> None:
    def full(share: float) -> Cluster:
        known = Disks(FullestDisk(4, 50, 100), None, True, FullestLogDir(7, "/data2", int(share * 100), 100))
        return replace(WELL, check=replace(CHECK, disks=known))

    assert row(full(0.97)).words == "/data2 of broker 7 is 97 % full"
    assert row(full(0.97)).reasons[0].why is Why.DISK_FULL
    assert row(full(0.40)).reasons == ()
