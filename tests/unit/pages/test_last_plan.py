"""What the page says of the cluster's last proposal."""

from __future__ import annotations

from kafka_rebalance.pages.approver_facts import brief
from kafka_rebalance.pages.page import render_file
from support.documents import report_samples as samples
from support.documents.built_report import planned


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
