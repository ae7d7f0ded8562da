"""The lines on the approval page that say where bytes in and out come from."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from kafka_rebalance.documents.json_files import decode
from kafka_rebalance.documents.proposals import HistoryUsed, ReadByGroups
from kafka_rebalance.pages.page import render_file
from kafka_rebalance.pages.run_report import bytes_out_line, history_line
from kafka_rebalance.rebalance.request import approval_body
from support.documents import report_samples
from support.documents.built_report import build_report

SNAPSHOT_AT = datetime.fromisoformat("2026-05-03T14:32:10+00:00")
GIB = 1 << 30
MEASURED = (
    "95th percentile of 14 days (27 samples) for 96 % of the partitions, which hold 99 % of the bytes; 12 partitions "
    "estimated from their topic; data grows by 2.00 GiB a day"
)


def account(**changes: Any) -> dict[str, Any]:
    """`history` of proposals.json."""
    return {
        "digest": "d" * 64,
        "first_at": None,
        "unreadable_first": [],
        "estimated_topics": 1,
        "estimated_first": [],
        "expiring_partitions": 0,
        "days": 14.02,
        "samples": 27,
        "last_at": "2026-05-03T14:32:10+00:00",
        "share_of_partitions": 0.96,
        "share_of_bytes": 0.9912,
        "partitions": {"history": 288, "snapshot": 0, "topic": 12, "cluster": 0},
        "at_least": 0,
        "growth_bytes_per_day": 2 * GIB,
        "expiring_bytes": 0,
        "unreadable_files": 0,
        **changes,
    }


def server(**changes: Any) -> dict[str, Any]:
    """`history.metrics_server`."""
    return {
        "digest": "e" * 64,
        "problem": None,
        "days": 27.96,
        "first_at": "2026-04-05T15:00:00+00:00",
        "last_at": "2026-05-03T14:00:00+00:00",
        "topics": 40,
        "short_topics": 0,
        "partitions": 280,
        "share_of_partitions": 0.9,
        "share_of_bytes": 0.8,
        "left_out": {},
        **changes,
    }


BY_SERVER = (
    "95th percentile of 28 days by the metrics server, of 40 topics, for 90 % of the partitions, which hold 80 % of "
    "the bytes; "
)


def partitions(**counts: int) -> dict[str, int]:
    return {"history": 0, "snapshot": 0, "topic": 0, "cluster": 0, **counts}


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, MEASURED),
        ({"partitions": partitions(), "samples": 3}, "too little history to say (3 samples)"),
        (
            {"partitions": partitions(snapshot=4), "samples": 1, "unreadable_files": 1},
            "too little history to say (1 sample; 1 file of the ledger could not be read); 4 partitions as in the "
            "snapshot",
        ),
        (
            {"at_least": 1, "expiring_bytes": 3 * GIB},
            MEASURED.replace("; data", "; 1 partition of compacted topics may take more; data")
            + "; 3.00 GiB expire first, so the plan does not count them as staying",
        ),
        (
            {"worst_hour": {"hour": 47, "weeks": 2.0, "samples": 2}},
            MEASURED.replace(
                "95th percentile",
                "mean of Tue 23:00-00:00 UTC, the hour of the week with most bytes in "
                "(each hour from at least 2 samples in 2 weeks),",
            ),
        ),
        (
            {"worst_hour": {"hour": None, "weeks": 0.0, "samples": 0}},
            MEASURED.replace(
                "; 12", "; the samples do not show each hour of the week in two weeks, so no worst hour is known; 12"
            ),
        ),
        (
            {"last_at": "2026-05-03T11:12:10+00:00"},
            MEASURED.replace("samples)", "samples, the newest 3 h 20 min older than the snapshot)"),
        ),
        (
            {"metrics_server": server()},
            BY_SERVER + MEASURED.replace("95th percentile", "from the ledger, the same"),
        ),
        (
            {"metrics_server": server(), "partitions": partitions(topic=1), "samples": 3},
            BY_SERVER + "1 partition estimated from their topic",
        ),
        (
            {
                "metrics_server": server(
                    partitions=0,
                    short_topics=1,
                    left_out={"without_topic": 1, "unknown_topics": 2, "no_rate_topics": 3},
                ),
                "partitions": partitions(),
                "samples": 3,
            },
            "the metrics server has no rate that counts; 1 topic of the metrics server known for too short a time; "
            "2 topics of the metrics server unknown to the cluster; 3 topics of the metrics server with points that "
            "are no rate; too little history to say (3 samples)",
        ),
        (
            {"metrics_server": server(problem="It cannot be read (HTTP 503). Check it.", partitions=0)},
            "the metrics server gives nothing: It cannot be read (HTTP 503). Check it; " + MEASURED,
        ),
        (
            {
                "metrics_server": server(),
                "worst_hour": {"hour": 47, "weeks": 4.0, "samples": 4},
                "partitions": partitions(topic=1),
            },
            BY_SERVER.replace(
                "95th percentile",
                "mean of Tue 23:00-00:00 UTC, the hour of the week with most bytes in "
                "(each hour from at least 4 samples in 4 weeks),",
            )
            + "1 partition estimated from their topic",
        ),
    ],
)
def test_the_line_says_how_much_is_known_and_what_was_estimated(changes: dict[str, Any], line: str) -> None:
    assert history_line(decode(HistoryUsed, account(**changes), "proposals.json"), SNAPSHOT_AT) == line


def test_the_page_has_the_line_only_where_history_was_used() -> None:
    proposals = report_samples.proposals()
    without = build_report(report_samples.snapshot(), proposals=proposals)
    report = build_report(report_samples.snapshot(), proposals={**proposals, "history": account()})
    assert MEASURED in render_file(report)
    assert "95th percentile" not in render_file(without)


@pytest.mark.parametrize(
    ("groups", "line"),
    [
        (
            ReadByGroups(partitions=20, unread=0, share_of_bytes_in=0.87),
            "measured for 87 % of the bytes in, by what consumer groups commit; the rest counts as read once",
        ),
        (
            ReadByGroups(partitions=20, unread=1, share_of_bytes_in=1.0),
            "measured for 100 % of the bytes in, by what consumer groups commit (1 partition in which no group goes "
            "forward counts as unread)",
        ),
    ],
)
def test_the_line_says_how_much_of_the_bytes_out_is_measured(groups: ReadByGroups, line: str) -> None:
    assert bytes_out_line(groups) == line


def test_page_and_request_say_what_bytes_out_rest_on_only_where_some_are_measured() -> None:
    proposals = report_samples.proposals()
    groups = {"partitions": 20, "unread": 3, "share_of_bytes_in": 0.87}
    line = (
        "measured for 87 % of the bytes in, by what consumer groups commit (3 partitions in which no group goes "
        "forward count as unread); the rest counts as read once"
    )
    known = build_report(report_samples.snapshot(), proposals={**proposals, "history": account(groups=groups)})
    unknown = build_report(report_samples.snapshot(), proposals={**proposals, "history": account()})
    assert f"<dt>Bytes out</dt><dd>{line}</dd>" in render_file(known)
    assert f". Bytes out: {line}\n" in approval_body(known)
    assert "<dt>Bytes out</dt>" not in render_file(unknown)
    assert "Bytes out" not in approval_body(unknown)
