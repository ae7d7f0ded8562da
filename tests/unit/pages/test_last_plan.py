"""What the page says of the cluster's last proposal."""

from __future__ import annotations

from typing import Any

from kafka_rebalance.pages.approver_facts import brief
from kafka_rebalance.pages.page import render_file
from kafka_rebalance.pages.run_report import RunReport
from support.documents import report_samples as samples
from support.documents.built_report import build_report


def report(snapshot: dict[str, Any] | None = None, proposals: dict[str, Any] | None = None) -> RunReport:
    return build_report(
        snapshot or samples.snapshot(), proposals=proposals or samples.proposals(), loads=samples.loads()
    )


def test_page_says_how_a_plan_differs_from_the_last_one() -> None:
    plan = samples.proposals()
    for candidate in plan["candidates"]:
        candidate["since_last"] = {"same": 1, "changed": 0, "new": 0, "dropped": 2}
    last = {"run_id": "manual__one", "observed_at": "2026-05-02T10:00:00+00:00", "unread": None}
    found = report(samples.snapshot(last_proposal=last), proposals=plan)
    words = "since the plan of 2026-05-02 10:00:00 UTC, 1 of 1 move is the same, 2 dropped"
    assert dict(brief(found).verdict)["Last plan"] == words
    assert ", 1 of 1 move is the same, 2 dropped" in render_file(found)
    assert "Last plan" not in dict(brief(report(proposals=plan)).verdict)
    assert "Last plan" not in dict(brief(report(samples.snapshot(last_proposal=last))).verdict), "of other candidates"


def test_a_last_plan_that_cannot_be_read_is_not_taken_for_none() -> None:
    unread = {"run_id": None, "observed_at": None, "unread": "the ledger cannot be listed"}
    words = "whether there was a plan before cannot be read, so this one was searched without it"
    assert dict(brief(report(samples.snapshot(last_proposal=unread))).verdict)["Last plan"] == words
    hostile = {"run_id": "<script>", "observed_at": None, "unread": "moves: no parquet"}
    found = report(samples.snapshot(last_proposal=hostile))
    words = "the plan of run <script> cannot be read, so this one was searched without it"
    assert dict(brief(found).verdict)["Last plan"] == words
    assert words not in render_file(found)
    assert "the plan of run &lt;script&gt; cannot be read" in render_file(found)
