"""What page and approval request say about segment settings: short where all is well, errors first where not."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from markdown_it import MarkdownIt

from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.pages.page import FINDINGS_SHOWN, render_file
from kafka_rebalance.pages.run_report import RunReport
from kafka_rebalance.pages.run_state import RunState
from kafka_rebalance.rebalance.request import approval_body
from kafka_rebalance.segments.open_files import expected_rolls
from support.documents import report_samples as samples
from support.documents.as_in_a_file import in_json
from support.documents.built_report import planned
from support.documents.segment_configs import DAY, configs, placed, reported
from support.documents.segment_samples import SMALL_SEGMENTS, TOPIC, segments

TABLE_ROW = re.compile(r"<tr>(.*?)</tr>", re.DOTALL)


SOUND = segments({})


def report(document: dict[str, Any], **others: Any) -> RunReport:
    return planned(segments=document, **others)


def text_of(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).replace("\N{NO-BREAK SPACE}", " ").split())


def section(page: str) -> str:
    found = re.search(r'<section id="segments">.*?</section>', page, re.DOTALL)
    assert found is not None
    return found[0]


def test_a_sound_cluster_is_one_sentence() -> None:
    words = text_of(section(render_file(report(SOUND))).partition("<details>")[0])
    assert words == "Segment settings 0 errors, 0 warnings 1 topic on 6 brokers: no finding."


def test_a_run_without_an_audit_has_no_section() -> None:
    bare = planned()
    assert "Segment settings" not in render_file(bare)
    assert "Segment settings" not in approval_body(bare)
    assert bare.state is RunState.WAITING


def test_each_finding_has_severity_topic_brokers_value_source_and_remedy_errors_first() -> None:
    found = segments({"broken": {"segment.ms": 5, "segment.jitter.ms": 5}, "short": {"retention.ms": DAY}})
    page = section(render_file(report(found)))
    rows = [text_of(row) for row in TABLE_ROW.findall(page)[1:3]]
    assert rows[0].startswith(
        "error broken on broker 1, 2, 3 segment.jitter.ms 5 reaches segment.ms 5: it may roll at once"
    )
    assert "segment.jitter.ms: topic; segment.ms: topic" in rows[0]
    assert "Lower segment.jitter.ms well below segment.ms." in rows[0]
    assert rows[1].startswith("warning short on broker 1, 2, 3 retention.ms is 1 d")


def test_long_lists_are_cut_and_counted() -> None:
    many = {f"t{number:03}": {"retention.bytes": number} for number in range(40)}
    many |= {f"same{number}": {"segment.index.bytes": 20} for number in range(9)}
    page = section(render_file(report(segments(many))))
    assert f"1 error, 40 warnings, the first {FINDINGS_SHOWN} shown" in text_of(page)
    assert len(TABLE_ROW.findall(page.partition("</table>")[0])) == FINDINGS_SHOWN + 1
    assert "same0, same1, same2, same3, same4 and 4 more" in text_of(page)


def test_what_stops_the_copies_is_said_first_and_the_candidates_are_not_offered() -> None:
    stopped = segments({TOPIC: SMALL_SEGMENTS})
    found = report(stopped)
    assert found.stopped == ("light", "balanced")
    assert found.state is RunState.WAITING, "leaders_only can be approved"
    page = render_file(found)
    words = text_of(section(page))
    assert "light, balanced: not offered for approval." in words
    assert f"error {TOPIC} on broker 5, 6 segment.bytes is 100000, replica.fetch.max.bytes 1048576" in words
    assert page.count('<span class="failed">not offered</span>') == 2
    body = approval_body(found)
    assert (
        "**Can go wrong** Its copies could not end: `segment.bytes is 100000, replica.fetch.max.bytes 1048576" in body
    )
    assert body.count(", **not offered** |") == 2


def test_a_plan_of_which_nothing_is_left_to_approve_does_not_wait() -> None:
    stopped = segments({TOPIC: SMALL_SEGMENTS})
    stopped["candidates"]["leaders_only"] = stopped["candidates"]["light"]
    found = report(stopped)
    assert found.state is RunState.COPIES_WOULD_STOP
    assert found.state.waits_for_people
    assert RunState.COPIES_WOULD_STOP.sentence in text_of(render_file(found))
    page = render_file(found)
    assert "The run does not ask for approval: with today's segment settings, no copy could end" in text_of(page)
    switch = page.partition('<nav class="switch"')[2].partition("</nav>")[0]
    assert switch.count("not offered") == 3
    assert "recommended" not in switch
    assert report(stopped, decision=samples.decision()).state is RunState.APPROVED


def test_a_partition_that_will_roll_otherwise_is_told_with_the_candidate() -> None:
    found = report(segments({}, {6: reported(log_roll_hours=1)}))
    words = text_of(section(render_file(found)))
    assert "What balanced changes" in words
    change = "segment.ms 604800000 -> 3600000 segment.ms: log.roll.hours (broker static)"
    assert f"warning {TOPIC} on broker 6 {change}" in words
    assert "segment.ms 604800000 -> 3600000" in approval_body(found)


def test_open_files_are_listed_for_every_broker() -> None:
    page = section(render_file(report(SOUND)))
    assert "Open files and memory maps with balanced" in page
    table = page.rpartition("<tbody>")[2]
    assert len(TABLE_ROW.findall(table)) == 6


def test_what_znodes_hold_is_text_on_the_page_and_in_the_request() -> None:
    hostile = segments({TOPIC: {samples.HOSTILE: samples.HOSTILE, "cleanup.policy": samples.HOSTILE}})
    page = render_file(report(hostile))
    assert "<script>alert" not in page
    tokens = MarkdownIt("gfm-like").parse(approval_body(report(hostile)))
    kinds = {child.type for token in tokens for child in token.children or []}
    assert not kinds & {"html_inline", "image", "link_open"}
    assert "{{" not in approval_body(report(hostile))


@pytest.mark.parametrize("change", [{"topics": "many"}, {"findings": [{"severity": "error"}]}, {"candidates": []}])
def test_a_document_with_a_wrong_value_is_named(change: dict[str, Any]) -> None:
    with pytest.raises(ArtifactError, match=r"segments\.json"):
        report(SOUND | change)


def test_a_warning_of_the_verification_is_told_apart_from_a_pass() -> None:
    checks = samples.verification(passed=True)
    checks["checks"][1]["severity"] = "warning"
    words = text_of(render_file(planned(verification=checks)))
    assert "All 102 checks passed, 1 with a warning" in words
    assert words.index("warning in_sync") < words.index("passed in_sync")


def test_the_page_says_when_segments_roll_and_why() -> None:
    partitions, known = [placed("fast-0", (1, 2)), placed("slow-0", (1, 2)), placed("idle-0", (1,))], configs()
    written = {partitions[0].topic_partition: 2.0**20, partitions[1].topic_partition: 10.0}
    page = section(render_file(report(SOUND | {"rolls": in_json(expected_rolls(partitions, written, known, 20))})))
    words = text_of(page)
    assert "When segments roll: 1 topic by size, 1 topic by time" in words
    assert "Nothing is written to 1 topic, so their segments do not roll." in words
    rows = [text_of(row) for row in TABLE_ROW.findall(page)]
    assert "fast-0 size 17 min 1.00 GiB" in rows
    assert any(row.startswith("slow-0 time 7 d") for row in rows)
    assert "When segments roll" not in text_of(section(render_file(report(SOUND | {"rolls": None}))))
