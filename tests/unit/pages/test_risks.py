"""What can go wrong with a candidate: the worst first, each with what to do about it."""

from __future__ import annotations

from typing import Any

from kafka_rebalance.pages.risks import risks
from kafka_rebalance.pages.run_report import RunReport
from support.documents import report_samples as samples
from support.documents.built_report import planned
from support.documents.report_samples import GIB

HARMLESS = {"broker": None, "rack": None, "min_insync_unknown": 0, "under_now": 0}


def report(
    *, snapshot: dict[str, Any] | None = None, plan: dict[str, Any] | None = None, **documents: Any
) -> RunReport:
    """`plan` changes values of every candidate, none of which has a risk otherwise."""
    proposals = samples.proposals_of(**{"worst_case": HARMLESS} | (plan or {}))
    return planned(snapshot=snapshot or samples.snapshot(), proposals=proposals, **documents)


def said(found: RunReport) -> list[str]:
    assert found.focus is not None
    return [f"{risk.text} {risk.remedy}" for risk in risks(found, found.focus, lambda name: f"<{name}>")]


def test_a_plan_without_a_known_risk_has_none() -> None:
    assert said(report()) == []


def test_what_keeps_copies_from_ending_comes_before_what_hurts_and_what_stays_undone() -> None:
    rates = samples.rates()
    for cost in rates["candidates"].values():
        cost["least_bytes_per_second"] = 900_000_000
    late = samples.snapshot(window={"not_before": None, "finish_by": "2026-05-03T15:00:00+00:00"})
    stays = [
        {"broker": 3, "reason": "pinned", "replicas": 12, "size_bytes": 4 * GIB, "topics": ["a"], "topic_count": 1}
    ]
    plan = {"peak_disk_fraction": 0.97, "worst_case": samples.stakes()["worst_case"], "stays_behind": stays}
    found = said(report(snapshot=late, plan=plan, rates=rates, rejection=samples.rejection()))
    assert [one.split()[0] for one in found] == ["Producers", "It", "The", "If", "With", "12", "<omar>"]
    assert found[1] == (
        "It cannot end by 2026-05-03 15:00:00 UTC. Batches that would end later do not start. Approve a smaller "
        "candidate, or a higher throttle. A later run moves the rest."
    )
    assert found[2] == (
        "The disk of broker 1 gets 97 % full; 90 % are allowed. Free space there first, or approve a candidate that "
        "copies less."
    )
    assert found[3] == (
        "If broker 1 fails in batch 2, 37 partitions are under min.insync.replicas (today 35 at worst). Restart no "
        "broker while it runs."
    )
    assert found[5].startswith("12 replicas stay on broker 3 (4.00 GiB), which the job should empty.")
    assert found[6].startswith("<omar> rejected such a plan on 2026-04-19: <Not before the sale>.")


def test_of_a_rack_only_a_loss_that_is_worse_than_todays_is_a_risk() -> None:
    worse = {
        "today": samples.loss("a", 4), "during": samples.loss("b", 9, 1), "after": samples.loss("a", 0),
    }  # fmt: skip
    assert said(report(plan={"worst_case": HARMLESS | {"rack": worse}})) == [
        "If rack <b> fails while it runs, 9 partitions are without a replica in sync (today 4). Plan no work on that "
        "rack while it runs."
    ]
    same = worse | {"during": samples.loss("b", 4, 1)}
    assert said(report(plan={"worst_case": HARMLESS | {"rack": same}})) == []


def test_why_a_candidate_is_not_possible_is_said_first() -> None:
    plan = {"status": "infeasible", "note": "The job copies 287 GiB at least. Raise the limit, or ask for less."}
    (first,) = said(report(plan=plan))
    assert (
        first == "Not possible: <The job copies 287 GiB at least. Raise the limit, or ask for less>. Then plan again."
    )


def test_a_candidate_whose_planning_failed_shows_its_error_first() -> None:
    (first,) = said(report(plan={"status": "failed", "note": "ZeroDivisionError: division by zero"}))
    assert first == (
        "Planning it failed: <ZeroDivisionError: division by zero>. Choose another candidate. Report the error with "
        "this run's folder."
    )


def test_what_is_left_out_because_its_brokers_are_away_is_named() -> None:
    waiting = [
        {"brokers": [4], "being_deleted": False, "named": ["scratch-0"], "count": 1},
        {"brokers": [4, 5], "being_deleted": True, "named": [f"old-{n}" for n in range(10)], "count": 12},
    ]
    lost, deleted = said(report(plan={"left_waiting": waiting}))
    assert lost.startswith("Left out: <scratch-0>. Lost unless broker 4 returns.")
    assert deleted.startswith("The deletion of <old-0>, <old-1>")
    assert "and 2 more goes on waiting for brokers 4, 5." in deleted
