"""The first screen: why, the verdict, the worst case, the cost, and what was rejected before, on page and request."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.model.settings import BrokerPool
from kafka_rebalance.moves.windows import Window
from kafka_rebalance.pages.approver_facts import brief
from kafka_rebalance.pages.page import render_file
from kafka_rebalance.pages.run_report import RunReport
from kafka_rebalance.pages.windows import window_words
from kafka_rebalance.rebalance.request import approval_body
from support.documents import report_samples as samples
from support.documents.as_in_a_file import in_json
from support.documents.built_report import planned

NOW = datetime(2026, 5, 3, 14, 0, tzinfo=UTC)
HOUR = 3600.0


def report(snapshot: dict[str, Any] | None = None, **documents: Any) -> RunReport:
    beside = {"rates": samples.rates(), "rejection": samples.rejection()}
    return planned(snapshot=snapshot or samples.snapshot(), **beside | documents)


def at_stake(outlook: dict[str, Any] | None = None, **worst_case: Any) -> RunReport:
    """With another outlook, or another worst case of every candidate."""
    plan = samples.proposals(**{} if outlook is None else {"outlook": outlook})
    for candidate in plan["candidates"]:
        candidate.update(samples.stakes(**worst_case))
    return report(proposals=plan)


def test_why_says_which_brokers_are_over_what_and_when_a_disk_is_full() -> None:
    said = brief(report())
    assert said.why[0] == (
        "Bytes on disk: broker 1 carries 1.62 times its fair share, broker 5 nothing; 4 brokers are more than 10 % "
        "above it, 2 below."
    )
    assert said.why[-1] == "The fullest disk is that of broker 1: 91 % of 1.00 TiB."
    assert said.otherwise == (
        "The disk of broker 1 is full in about 12 days: it grows by 8.00 GiB a day by the ledger's samples.",
        "Losing rack rack-0 takes the last replica in sync from 4 partitions.",
    )


def test_of_loads_only_what_the_job_is_about_is_said() -> None:
    settings = samples.snapshot()["settings"]
    of_leaders = report(samples.snapshot(settings=settings | {"job": "leaders"}))
    assert [said.partition(":")[0] for said in brief(of_leaders).why[:-1]] == ["Leaders"]
    repairing = report(samples.snapshot(settings=settings | {"job": "repair_racks"}))
    assert [said.partition(" ")[0] for said in brief(repairing).why] == ["The"]  # fullest disk


def test_brokers_that_are_only_below_their_share_are_not_said_to_be_above() -> None:
    low = {"metric": "disk", "above": 0, "below": 1}
    low |= {"highest": {"broker": 1, "share": 1.05}, "lowest": {"broker": 4, "share": 0.2}}
    assert brief(at_stake(samples.outlook(off=[low]))).why[0] == (
        "Bytes on disk: broker 1 carries 1.05 times its fair share, broker 4 0.20 times; 1 broker is more than 10 % "
        "below it."
    )


@pytest.mark.slow
def test_it_is_said_where_kafka_elects_preferred_leaders_by_itself() -> None:
    def told(**elections: Any) -> str | None:
        found = report(samples.snapshot(automatic_elections={"brokers": [], "check_seconds": None} | elections))
        return dict(brief(found).verdict).get("Kafka's own elections")

    assert told(brokers=[1, 2], check_seconds=300) == (
        "the controller also elects preferred leaders by itself between batches, which it checks every 5 min "
        "(auto.leader.rebalance.enable). It may elect leaders of topics outside this plan. leader_changes_per_batch "
        "does not limit it"
    )
    assert "batches (auto" in str(told(brokers=[1]))
    assert told() is None
    assert "Kafka's own elections" not in dict(brief(report()).verdict), "a run of an earlier version"
    with_it = report(samples.snapshot(automatic_elections={"brokers": [1], "check_seconds": 300}), rejection=None)
    assert "Kafka also elects preferred leaders by itself" in render_file(with_it)


def test_it_is_said_how_many_replicas_do_not_go_back_where_plans_took_them_from() -> None:
    found = report(samples.snapshot(kept_away={"replicas": 1200, "days": 7}))
    words = "1,200 replicas do not go back to where plans of the last 7 days took them from"
    assert dict(brief(found).verdict)["Stays away"] == words
    assert words in render_file(found)
    assert "Stays away" not in dict(brief(report()).verdict)


def test_of_a_demote_it_is_said_how_its_leaders_come_back_and_whether_its_approval_counts_for_that() -> None:
    asked = samples.snapshot()["settings"] | {"job": "leaders", "drain": [7]}
    again = "after the restart, a run with job give_back elects broker 7 again, by today's lists"

    def told(**keys: Any) -> str:
        return dict(brief(report(samples.snapshot(settings=asked, **keys))).verdict)["Give back"]

    assert told() == f"{again}. It asks for an approval of its own"
    policy = (samples.snapshot()["policy"] or {}) | {"approval_expires_after_seconds": 7200}
    assert told(policy=policy, approves_give_back=True).startswith(
        f"{again}. Who approves this plan approves that too, for 2 h: nobody is asked again"
    )
    assert "Give back" not in dict(brief(report()).verdict)


def test_it_is_said_which_demote_a_run_gives_back_and_what_stays() -> None:
    back = {"run_id": "night", "digest": "1f0c", "brokers": [7], "partitions": 1, "unchanged": 0}
    told = brief(report(samples.snapshot(gives_back=back)), lambda name: f"<{name}>").verdict
    taken = "the lists before run <night>, which took leadership from broker 7"
    assert dict(told)["Gives back"] == f"{taken}, in 1 partition"
    back |= {"partitions": 5, "unchanged": 2, "left_out": ["a-0 is gone", "a-1 is gone", "a-2 is gone", "a-3 is gone"]}
    told = brief(report(samples.snapshot(gives_back=back)), lambda name: f"<{name}>").verdict
    assert dict(told)["Gives back"] == (
        f"{taken}, in 5 partitions; 2 more have their list already; 4 stay as they are: <a-0 is gone>, <a-1 is gone>, "
        "<a-2 is gone> and 1 more"
    )


def test_days_until_full_are_said_only_where_growth_is_known() -> None:
    off = samples.outlook()["off"]
    found = at_stake(samples.outlook(first_full=None, off=[off[1], off[0]]), rack=None)
    assert brief(found).otherwise == ("Broker 1 goes on carrying 1.62 times its share of bytes on disk.",)
    even = at_stake(samples.outlook(first_full=None, off=[], fullest_disk=None), rack=None)
    assert brief(even).why == ("Every broker is within 10 % of its share.",)
    assert brief(even).otherwise == ("By what is known of this cluster, nothing gets worse.",)


def test_brokers_to_be_emptied_and_rack_violations_come_first() -> None:
    leaving = {"brokers": [7, 8], "replicas": 120, "bytes": 3 * samples.GIB}
    said = brief(at_stake(samples.outlook(leaving=leaving, rack_violations=1)))
    assert said.why[:2] == (
        "Broker 7, 8 are to be emptied and hold 120 replicas, 3.00 GiB.",
        "1 partition has replicas on fewer racks than possible.",
    )
    assert "Broker 7, 8 cannot be switched off without losing replicas." in said.otherwise


def test_a_broker_that_only_stops_leading_is_not_said_to_be_emptied() -> None:
    """Job `leaders` with `drain`. An earlier version has not counted what it leads."""
    leaving = {"brokers": [7], "replicas": 120, "bytes": 3 * samples.GIB}
    asked = samples.snapshot(settings=samples.snapshot()["settings"] | {"job": "leaders", "drain": [7]})
    for more, led in (({"leaders": 41}, " and leads 41 partitions"), ({}, "")):
        plan = samples.proposals(outlook=samples.outlook(leaving=leaving | more))
        said = brief(planned(snapshot=asked, proposals=plan))
        assert said.why[0] == f"Broker 7 is to lead nothing{led}. It keeps its replicas."
        assert not any("switched off" in words for words in said.otherwise)


def test_the_verdict_has_bytes_moves_leaders_time_disk_gain_and_the_distance_to_the_bound() -> None:
    assert dict(brief(report()).verdict) == {
        "Copies": "287 GiB in 34 moves, 3 batches; within 3 % of the least possible",
        "Preferred leaders": "6 change",
        "Takes": "about 1 h 30 min by the plan",
        "Fullest disk meanwhile": "71 %",
        "Gain": "bytes on disk of the highest broker 1.62 → 1.04 of its share",
    }


def test_disks_of_unknown_size_are_named_beside_the_fullest_that_is_known() -> None:
    loads = samples.loads()
    for rows in loads.values():
        for row in rows:
            row["disk_capacity_bytes"] = None if row["broker"] in (2, 5) else row["disk_capacity_bytes"]
    said = dict(brief(report(loads=loads)).verdict)["Fullest disk meanwhile"]
    assert said == "71 % of the disks whose size is known; it is not known for broker 2, 5"


@pytest.mark.parametrize(
    ("window", "words"),
    [
        (Window(), ""),
        (
            Window(not_before=NOW + timedelta(hours=8)),
            "starts at 2026-05-03 22:00:00 UTC at the earliest, with lock and throttle; an earlier approval expires as "
            "if it was given then",
        ),
        (
            Window(finish_by=NOW + timedelta(hours=3)),
            "if started by 2026-05-03 15:00:00 UTC, it ends by 2026-05-03 17:00:00 UTC even at the slow estimate",
        ),
        (
            Window(NOW + timedelta(hours=1), NOW + timedelta(hours=2, minutes=30)),
            "starts at 2026-05-03 15:00:00 UTC at the earliest, with lock and throttle; an earlier approval expires as "
            "if it was given then; may not end by 2026-05-03 16:30:00 UTC: batches that would end later do not "
            "start",
        ),
        (
            Window(finish_by=NOW + timedelta(minutes=30)),
            "cannot end by 2026-05-03 14:30:00 UTC: batches that would end later do not start",
        ),
    ],
)
def test_the_window_is_held_against_the_range_of_times(window: Window, words: str) -> None:
    """The plan takes an hour, and earlier runs took up to twice their plan's time."""
    plan = samples.proposals()
    plan["candidates"][2] |= {"batches": 0, "makespan_seconds": HOUR}
    earlier = {"ratios": [1.0, 1.0, 2.0, 2.0, 2.0], "last": [], "problems": []}
    at = samples.snapshot(window=in_json(window.written), observed_at=NOW.isoformat())
    found = report(at, proposals=plan, estimate=earlier, rates=None)
    assert found.focus is not None
    assert window_words(found, found.focus) == words


def test_times_are_those_of_the_throttle_that_was_approved_or_found_not_of_the_one_planned_with() -> None:
    assert dict(brief(report(decision=samples.decision())).verdict)["Takes"] == "about 3 h by the plan"
    rates = samples.rates()
    rates["candidates"]["balanced"]["auto_bytes_per_second"] = 25_000_000
    found = report(rates=rates)
    assert dict(brief(found).verdict)["Takes"] == "about 6 h by the plan"
    assert dict(brief(found).cost)["Throttle of one broker"] == "23.8 MiB/s in and 23.8 MiB/s out"
    assert "**Ends** in 5 h 24 min–9 h at 23.8 MiB/s a broker" in approval_body(found)
    assert "and takes about 6 h 14 min" in approval_body(found)


def test_what_the_controller_needs_for_each_batch_is_part_of_every_time_whatever_the_throttle() -> None:
    window = {"not_before": None, "finish_by": "2026-05-03T18:00:00+00:00"}
    proposals = samples.proposals_of(batches=120, makespan_seconds=0.0, makespan_bound_seconds=0.0)
    rates = samples.rates()
    found = report(samples.snapshot(window=window), proposals=proposals)
    verdict = dict(brief(found).verdict)
    assert verdict["Takes"] == "about 10 min by the plan", "leaders alone, nothing is copied"
    assert verdict["Window"].startswith("if started by 2026-05-03 17:45:00 UTC, it ends by 2026-05-03 18:00:00 UTC")
    body = approval_body(found)
    assert "**Ends** in 9–15 min" in body
    assert body.count("| 9–15 min |") == 3
    page = render_file(found).replace("\N{NO-BREAK SPACE}", " ")
    assert page.count("<td>10 min</td>") == 3, "the candidates side by side"
    proposals["candidates"][2] |= {"makespan_seconds": 600.0}
    rates["candidates"]["balanced"]["auto_bytes_per_second"] = 25_000_000  # a quarter of what it was planned with
    slower = report(proposals=proposals, rates=rates)
    assert dict(brief(slower).verdict)["Takes"] == "about 50 min by the plan"


def test_the_window_of_the_request_is_in_the_verdict_and_in_the_body() -> None:
    window = {"not_before": None, "finish_by": "2026-05-03T18:00:00+00:00"}
    found = report(samples.snapshot(window=window))
    words = "if started by 2026-05-03 15:44:37 UTC, it ends by 2026-05-03 18:00:00 UTC even at the slow estimate"
    assert dict(brief(found).verdict)["Window"] == words
    assert "**Ends** in 1 h 21 min–2 h 15 min at 95.4 MiB/s a broker, fits" in approval_body(found)
    running = report(samples.snapshot(window=window), decision=samples.decision(), batches=samples.batches())
    assert "Window" not in dict(brief(running).verdict), "its progress is held against it"


def test_the_worst_case_names_broker_batch_partitions_and_topics() -> None:
    assert brief(report()).worst == (
        "Lose broker 1 in batch 2: 37 partitions under min.insync.replicas (today 35, broker 3), of topics "
        "orders.payments, audit, b and 2 more. Afterwards it is 30 partitions at most (broker 2).",
        "Lose rack rack-0: 4 partitions without a replica in sync (today 4, afterwards 0), of topics orders.payments, "
        "audit, b and 2 more.",
    )


def course(today: int, during: int, after: int) -> dict[str, Any]:
    return {"today": samples.loss(3, today), "during": samples.loss(3, during, 1), "after": samples.loss(3, after)}


def test_a_plan_that_makes_nothing_worse_says_so() -> None:
    said = brief(at_stake(broker=course(35, 35, 20), rack=None)).worst
    assert said[0].startswith("While it runs, no loss of one broker is worse than today's worst: 35 partitions")
    assert brief(at_stake(broker=course(0, 0, 0), rack=course(0, 0, 0))).worst == (
        "The loss of any one broker leaves no partition under min.insync.replicas, today, meanwhile or afterwards.",
        "The loss of any one rack leaves every partition a replica in sync, at all times.",
    )


def test_a_plan_that_ends_worse_than_today_says_so() -> None:
    said = brief(at_stake(broker=course(1, 1, 3), rack=None, under_after=3)).worst[0]
    assert "Afterwards it is 3 partitions at most (broker 3): worse than today." in said
    assert said.endswith("3 partitions are under it afterwards with every broker up.")
    assert "worse than today." not in brief(at_stake(broker=course(3, 3, 1), rack=None, under_after=0)).worst[0]


def test_what_is_not_known_of_min_insync_replicas_is_said() -> None:
    assert (
        brief(at_stake(min_insync_unknown=7))
        .worst[0]
        .endswith("Not counted: 7 partitions with unknown min.insync.replicas.")
    )
    assert "nobody can say what the loss of a broker would stop" in brief(at_stake(broker=None)).worst[0]


def test_the_cost_says_throttle_least_rate_and_whose_network_is_at_its_limit() -> None:
    cost = dict(brief(report(decision=samples.decision())).cost)
    assert cost["Throttle of one broker"] == "47.7 MiB/s in and 47.7 MiB/s out"
    assert cost["Smallest at which every copy can end"].startswith("1.24 MiB/s (broker 3 takes in")
    assert cost["Networks"] == (
        "broker 3 has least left: 57.2 MiB/s of 119 MiB/s in now, up to 88 % with the copies; beyond 80 %: broker 3"
    )
    assert cost["Disks"] == "broker 1 is fullest, 84 % in batch 1: 164 GiB left"


def test_the_request_says_how_long_a_range_takes_at_both_ends() -> None:
    body = approval_body(report(decision=samples.decision(throttle_from_bytes_per_second=10_000_000)))
    assert " at 47.7 MiB/s a broker, up to 15 h at 9.54 MiB/s: the run itself chooses each broker's rate" in body


def test_the_cost_of_a_range_says_both_ends_and_the_time_at_the_lowest() -> None:
    cost = dict(brief(report(decision=samples.decision(throttle_from_bytes_per_second=10_000_000))).cost)
    assert cost["Throttle of one broker"] == (
        "9.54 MiB/s to 47.7 MiB/s in and 9.54 MiB/s to 47.7 MiB/s out. The run begins at the lowest rate and itself "
        "chooses each broker's rate by what it sees. At the lowest rate alone it would take 15 h"
    )


def test_disks_beyond_what_is_to_be_kept_free_are_named() -> None:
    disks = samples.disks()
    for rows in disks.values():
        rows[1]["peak_bytes"] = 1000 * samples.GIB
    cost = dict(brief(report(disks=disks)).cost)
    assert cost["Disks"] == "broker 1 is fullest, 98 % in batch 1: 24.0 GiB left; beyond 90 %: broker 1"


IDLE = {"broker": 1, "way": "in", "network_bytes_per_second": 125e6, "used_bytes_per_second": 0.0}


@pytest.mark.parametrize(
    ("network", "words"),
    [
        ({"tightest": [], "known": 0}, "not known, because the Airflow connection has no network capacities"),
        ({"known": 2}, "(known of 2 of 6 brokers); beyond 80 %: broker 3"),
        ({"known": 1, "tightest": [IDLE]}, "(known of 1 of 6 brokers); every one of these stays within 80 %"),
    ],
)
def test_networks_that_are_not_known_are_said_so(network: dict[str, Any], words: str) -> None:
    found = report(rates=samples.rates(**network))
    assert words in dict(brief(found).cost)["Networks"]
    assert "every broker" not in dict(brief(found).cost)["Networks"]


def test_without_traffic_nothing_is_said_of_networks() -> None:
    rates = samples.rates()
    for one in rates["candidates"].values():
        one["network"] = None
    assert dict(brief(report(rates=rates)).cost)["Networks"] == "not known, because no traffic has been measured yet"


def test_page_and_request_say_what_has_changed_since_the_last_rejection() -> None:
    found = report()
    assert (
        "**Can go wrong** `omar` rejected such a plan on 2026-04-19: `Not before the sale`. **Look at Since the last "
        "rejection.**"
    ) in approval_body(found)
    page = render_file(found).replace("\N{NO-BREAK SPACE}", " ")
    for words in (
        "Since the last rejection",
        "“Not before the sale”",
        "31 % of the moves are the same",
        "Broker 6 was added",
    ):
        assert words in page, words
    gone = report(rejection=samples.rejection(then=None, same_moves=None))
    assert "The folder of that run is gone" in render_file(gone)
    assert "Since the last rejection" not in render_file(report(rejection={"rejected": None}))


def test_page_and_request_tell_what_waits_meanwhile_and_the_way_back() -> None:
    found = report()
    assert "**Way back** copies 287 GiB and takes about 1 h 34 min" in approval_body(found)
    page = render_file(found).replace("\N{NO-BREAK SPACE}", " ")
    for words in (
        "2 topics can be neither",
        "__consumer_offsets is among them",
        "copies 287 GiB and takes about 1 h 34 min",
    ):
        assert words in page, words


def test_the_parts_of_the_request_come_in_the_order_in_which_one_decides() -> None:
    body = approval_body(report())
    order = [
        "**Cluster**",
        "**Why**",
        "**If nothing is done**",
        "Balanced is recommended",
        "**Does**",
        "**Ends**",
        "**Can go wrong**",
        "**Way back**",
    ]
    order += ["| Candidate |", "**Largest", "**Digest**"]
    places = [body.index(words) for words in order]
    assert places == sorted(places)


def test_the_request_has_one_picture_where_there_is_something_to_draw() -> None:
    words = "![Bytes on disk of each broker, before and after Balanced](/kafka-rebalance/run/a/b/brokers.svg)"
    assert words in approval_body(report(), picture="/kafka-rebalance/run/a/b/brokers.svg")
    assert "![" not in approval_body(report(loads=None), picture="/kafka-rebalance/run/a/b/brokers.svg")
    assert "![" not in approval_body(report())


def test_a_plan_of_an_earlier_version_is_shown_without_what_it_did_not_look_at() -> None:
    plan = samples.proposals_of("worst_case", "way_back", "held_up")
    del plan["outlook"]
    found = report(proposals=plan, rates=None, rejection=None)
    page, body = render_file(found), approval_body(found)
    for words in ("Worst case", "If nothing is done", "Since the last rejection"):
        assert words not in page
        assert words not in body
    assert "Why, and what it takes" in page


@pytest.mark.parametrize(
    ("key", "broken"), [("worst_case", {"broker": 5}), ("way_back", {}), ("held_up", {"topics": "2"})]
)
def test_a_document_that_is_not_what_we_write_is_named(key: str, broken: dict[str, Any]) -> None:
    plan = samples.proposals()
    plan["candidates"][0][key] = broken
    with pytest.raises(ArtifactError, match=rf"proposals\.json: candidates\[0\]\.{key}"):
        report(proposals=plan)


def test_hostile_racks_and_topics_of_the_worst_case_stay_text() -> None:
    bad = samples.HOSTILE
    hostile = samples.loss(bad, 9, 1, (bad,))
    rack = {"today": hostile, "during": hostile, "after": hostile}
    plan = samples.proposals()
    for candidate in plan["candidates"]:
        candidate.update(samples.stakes(rack=rack))
        candidate["held_up"]["listed"][0]["topic"] = bad
    found = report(proposals=plan, rejection=samples.rejection(run_id=bad, by=bad, note=bad))
    assert "<script>alert" not in render_file(found)
    body = approval_body(found)
    assert "{{" not in body
    assert "`<script>alert(1)</script>" in body  # in a code span


def test_page_says_how_a_plan_differs_from_the_last_one() -> None:
    plan = samples.proposals_of(since_last={"same": 33, "changed": 0, "new": 1, "dropped": 2})
    last = {"run_id": "manual__one", "observed_at": "2026-05-02T10:00:00+00:00", "unread": None}
    found = planned(snapshot=samples.snapshot(last_proposal=last), proposals=plan)
    words = "since the plan of 2026-05-02 10:00:00 UTC, 33 of 34 moves are the same, 1 new, 2 dropped"
    assert dict(brief(found).verdict)["Last plan"] == words
    assert ", 33 of 34 moves are the same, 1 new, 2 dropped" in render_file(found)
    assert "Last plan" not in dict(brief(planned(proposals=plan)).verdict)
    assert "Last plan" not in dict(brief(planned(snapshot=samples.snapshot(last_proposal=last))).verdict), (
        "of other candidates"
    )


def test_a_last_plan_that_cannot_be_read_is_not_taken_for_none() -> None:
    unread = {"run_id": None, "observed_at": None, "unread": "the ledger cannot be listed"}
    words = "whether there was a plan before cannot be read, so this one was searched without it"
    assert dict(brief(planned(snapshot=samples.snapshot(last_proposal=unread))).verdict)["Last plan"] == words
    hostile = {"run_id": "<script>", "observed_at": None, "unread": "moves: no parquet"}
    found = planned(snapshot=samples.snapshot(last_proposal=hostile))
    words = "the plan of run <script> cannot be read, so this one was searched without it"
    assert dict(brief(found).verdict)["Last plan"] == words
    assert words not in render_file(found)
    assert "the plan of run &lt;script&gt; cannot be read" in render_file(found)


def test_the_limits_name_each_pool_with_its_brokers() -> None:
    pools = (BrokerPool(("billing.*", "<b>"), (1, 2)), BrokerPool(("audit",), (3,)))
    policy = dataclasses.replace(samples.policy(), broker_pools=pools)
    snapshot = samples.snapshot(policy=policy.to_mapping(), policy_digest=policy.digest)
    page = render_file(planned(snapshot=snapshot, rates=samples.rates()))
    assert "<li>Broker pool: only brokers 1, 2 may hold topics billing.*, &lt;b&gt;, and no other topics.</li>" in page
    assert "<li>Broker pool: only broker 3 may hold topics audit, and no other topics.</li>" in page
    assert "<li>All other topics share the brokers of no pool.</li>" in page
