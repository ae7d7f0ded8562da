"""The page: well-formed, escaped, complete at every stage, and one file without Airflow."""

from __future__ import annotations

import base64
import itertools
import re
import subprocess
import sys
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest

from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.pages.page import InAirflow, render_file, render_page
from kafka_rebalance.pages.plots import BROKERS_SHOWN, broker_plots
from kafka_rebalance.pages.run_report import RunReport
from kafka_rebalance.pages.shell import read_static, render_message
from kafka_rebalance.pages.tables import BrokerChange, Load
from support.documents import report_samples as samples
from support.documents.built_report import build_report

STATIC = "/kafka-rebalance/static"
RUN = "/kafka-rebalance/run/kafka_rebalance/one%2Ftwo"
FILES = f"{RUN}/reassignments"
PLAN: dict[str, Any] = {
    "proposals": samples.proposals(),
    "loads": samples.loads(),
    "moves": samples.all_moves(),
    "disks": samples.disks(),
}
UNDER_WAY: dict[str, Any] = {
    "decision": samples.decision(),
    "throttle": samples.throttle(),
    "batches": samples.batches(),
    "progress": samples.progress(),
}
STAGES: dict[str, dict[str, Any]] = {
    "planning": {},
    "waiting": PLAN,
    "rejected": PLAN | {"decision": samples.decision("Reject", digest=None)},
    "expired": PLAN | {"decision": {"format_version": 1, "choice": None, "expired": True}},
    "approved": PLAN | {"decision": samples.decision()},
    "executing": PLAN | UNDER_WAY,
    "verified": PLAN | UNDER_WAY | {"verification": samples.verification(passed=True)},
    "failed": PLAN | UNDER_WAY | {"verification": samples.verification()},
}


def page(*, live: bool = False, snapshot: dict[str, Any] | None = None, **documents: Any) -> str:
    report = build_report(snapshot or samples.snapshot(), **documents)
    return render_page(report, static_url=STATIC, run_url=RUN, airflow=InAirflow(is_live=live))


class Outline(HTMLParser):
    """Tags in their order, and the text of the page."""

    VOID = frozenset({"meta", "link", "img", "path", "circle"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_gives_a_well_formed_page_with_headings_in_order(stage: str) -> None:
    outline = Outline(page(live=True, **STAGES[stage]))
    assert outline.open == []
    levels = [int(tag[1]) for tag, _ in outline.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))


@pytest.mark.parametrize("stage", STAGES)
def test_every_table_has_a_caption_and_a_box_to_scroll_in(stage: str) -> None:
    html = page(**STAGES[stage])
    tables = len(re.findall("<table", html))
    assert (
        len(re.findall(r'<div class="scroll[^"]*" role="region" aria-label="[^"]+" tabindex="0">\s*<table', html))
        == tables
    )
    assert html.count("<caption>") == tables


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        ("planning", "There is no plan yet"),
        ("waiting", "No decision yet"),
        ("rejected", "Rejected: nothing was written to the cluster"),
        ("expired", "the request ended without an answer"),
        ("approved", "Nothing has been requested from Kafka yet"),
        ("executing", "has not been verified yet"),
        ("verified", "All 102 checks passed"),
        ("failed", "17 of 34 moves are not in place"),
    ],
)
def test_each_stage_is_said_in_words(stage: str, words: str) -> None:
    assert words in Outline(page(**STAGES[stage])).text.replace("\N{NO-BREAK SPACE}", " ")


def test_progress_says_phases_bytes_rate_remaining_time_batches_and_anomalies() -> None:
    text = Outline(page(**STAGES["executing"])).text.replace("\N{NO-BREAK SPACE}", " ")
    for words in (
        "Partitions in place: 17 of 34",
        "Bytes copied: 205 GiB of 287 GiB",
        "5 copying",
        "10 waiting for their batch",
        "2 caught up, in the ISR",
        "45.1 MiB/s",
        "Batch 2 of 3",
        "under way: 5 of 12 partitions, 41.0 GiB of 92.0 GiB",
        "47.7 MiB/s, on 6 brokers",
        "orders.payments.authorised-19: no progress for 5 min; is broker 3 up?",
        "2026-05-03 15:10:31 UTC",
    ):
        assert words in text, words


@pytest.mark.parametrize("stage", ["approved", "executing", "verified", "failed"])
def test_what_was_left_out_is_named_with_its_reason_and_what_to_do(stage: str) -> None:
    text = Outline(page(**STAGES[stage], left_out=samples.left_out())).text.replace("\N{NO-BREAK SPACE}", " ")
    one = samples.moves()[3]
    for words in (
        "The run leaves out 1 approved move",
        str(one.topic_partition),
        f"{one.topic_partition}: replicas are now [9, 8]",
        ", ".join(map(str, one.after)),
        "To move these as well, start a new Dag run",
    ):
        assert words in text, words
    assert "Left out" not in Outline(page(**STAGES[stage])).text


@pytest.mark.parametrize("broken", [{"before": None}, {"after": ["1"]}, {"at": "now"}, {"bytes": "5"}, {"topic": 5}])
def test_a_left_out_json_that_is_not_what_we_write_is_an_error_that_names_it(broken: dict[str, Any]) -> None:
    with pytest.raises(ArtifactError, match=f"left_out.json: partitions.0..{next(iter(broken))}"):
        page(**STAGES["executing"], left_out=samples.left_out(**broken))


def hostile() -> dict[str, Any]:
    """Every text that the cluster or a person gives is hostile."""
    bad = samples.HOSTILE
    plan = samples.proposals()
    for candidate in plan["candidates"]:
        candidate["note"] = bad
    checks = [dict.fromkeys(("name", "subject", "expectation", "finding"), bad) | {"passed": False}]
    return {
        "snapshot": samples.snapshot(
            connection_id=bad, cluster_id=bad, reason=bad, requested_by=bad, run_id=bad, dag_id=bad
        ),
        "proposals": plan,
        "loads": samples.loads(rack=bad),
        "moves": samples.all_moves(bad),
        "decision": samples.decision(note=bad, approved_by={"id": bad, "name": bad}),
        "batches": {
            "batches": [samples.batches()["batches"][0] | {"state": bad}],
            "stopped": {"at": "2026-05-03T15:07:20+00:00", "why": bad},
        },
        "progress": samples.progress(
            anomalies=[bad],
            state=bad,
            phases={bad: 1},
            waiting_for=[bad],
            events=[{"at": "2026-05-03T15:07:20+00:00", "text": bad}],
            partitions=[samples.progress()["partitions"][0] | {"partition": bad, "phase": bad, "next": bad}],
        ),
        "throttle": samples.throttle(
            rate_changes=[{"at": "2026-05-03T15:07:20+00:00", "bytes_per_second": 1, "by": bad}]
        ),
        "control": {"stop_after_batch": {"by": bad, "at": "2026-05-03T15:07:20+00:00"}},
        "verification": {"passed": False, "checks": checks},
        "left_out": samples.left_out(topic=bad, why=[bad]),
    }


@pytest.mark.parametrize("verified", [True, False])
def test_hostile_names_stay_text(verified: bool) -> None:
    documents = hostile()
    if not verified:
        del documents["verification"]
    html = page(live=True, **documents)
    outline = Outline(html)
    assert "<script>alert(1)</script>" in outline.text
    assert [attributes for tag, attributes in outline.tags if tag == "script"] == [
        {"src": f"{STATIC}/parts.js", "defer": None},
        {"src": f"{STATIC}/links.js", "defer": None},
        {"src": f"{STATIC}/refresh.js", "defer": None},
    ]
    assert not [tag for tag, _ in outline.tags if tag in ("iframe", "form", "style")]
    links = [attributes["href"] or "" for tag, attributes in outline.tags if tag == "a"]
    assert all(re.fullmatch(rf"{RUN}/[\w%.~/?=-]+|#[\w-]+", link) for link in links), links
    assert "7*7" in outline.text
    assert "49 }}" not in outline.text


def test_hostile_racks_stay_text_in_the_pictures() -> None:
    report = build_report(samples.snapshot(), **PLAN | {"loads": samples.loads(rack="<script>&$x^$")})
    assert report.focus is not None
    for plot in broker_plots(report.focus.brokers):
        root = ElementTree.fromstring(base64.b64decode(plot.source.split(",")[1]))
        assert not [element for element in root.iter() if element.tag.endswith("script")]
        assert any(element.text and "<script>" in element.text for element in root.iter())


@pytest.mark.filterwarnings("ignore:Glyph")  # of the measuring font; the reader's own draws the text
@pytest.mark.parametrize(
    ("broker", "rack", "label"),
    [
        (12, "eu-central-1a", "12  eu-central-1a"),
        (2147483647, "eu-central-1a", "2147483647  eu-cent…"),
        (3, "話題" * 20, "3  話題話題話題話題…"),
        (4, None, "4"),
    ],
)
def test_a_label_in_a_picture_loses_the_end_of_its_rack_and_never_the_broker(
    broker: int, rack: str | None, label: str
) -> None:
    load = Load(1, 1, 1, None)
    plots = broker_plots([BrokerChange(broker, rack, None, load, load)])
    root = ElementTree.fromstring(base64.b64decode(plots[0].source.split(",")[1]))
    assert label in {element.text for element in root.iter()}


def test_long_labels_get_room_beside_the_axes() -> None:
    """The axis below starts further right, so that a broker's id is not cut off at the picture's left edge."""

    def left(rack: str) -> float:
        load = Load(1, 1, 1, None)
        svg = base64.b64decode(broker_plots([BrokerChange(12, rack, None, load, load)])[0].source.split(",")[1])
        return min(x for x in map(float, re.findall(r'd="M ([\d.]+) ', svg.decode())) if x > 0)

    assert left("a") == left("b") < left("eu-central-1a")


def test_what_is_wide_may_wrap_and_a_range_stays_together() -> None:
    proposals = samples.proposals_of(note="Two words. And more.")
    html = page(**PLAN | {"proposals": proposals}, snapshot=samples.snapshot(reason="because " * 40))
    assert '<span class="spread">0.96–1.04</span>' in html
    assert '<div class="long"><dt>Reason</dt>' in html
    assert "Two words. And more<" in html
    assert 'class="long"' not in page(**PLAN)


def test_the_page_has_neither_inline_script_nor_inline_style() -> None:
    for tag, attributes in Outline(page(live=True, **STAGES["executing"])).tags:
        assert tag != "style"
        assert tag != "script" or attributes.get("src")
        assert not [name for name in attributes if name == "style" or name.startswith("on")]


def test_the_file_needs_nothing_else_and_runs_no_script() -> None:
    html = render_file(build_report(samples.snapshot(), **STAGES["executing"]))
    outline = Outline(html)
    assert read_static("report.css") in html
    assert not [tag for tag, _ in outline.tags if tag in ("script", "link")]
    sources = [attributes["src"] or "" for tag, attributes in outline.tags if tag == "img"]
    assert sources
    assert all(source.startswith("data:image/svg+xml;base64,") for source in sources)


def test_only_a_page_that_changes_by_itself_loads_the_script() -> None:
    assert "refresh.js" in page(live=True, **STAGES["executing"])
    assert "refresh.js" not in page(live=False, **STAGES["executing"])
    reports = {stage: build_report(samples.snapshot(), **documents) for stage, documents in STAGES.items()}
    assert [stage for stage, one in reports.items() if one.state.changes_by_itself] == [
        "planning",
        "approved",
        "executing",
    ]
    assert [stage for stage, one in reports.items() if one.state.waits_for_people] == ["waiting"]


def test_only_our_own_files_can_be_read() -> None:
    with pytest.raises(KeyError):
        read_static("../page.py")


def test_a_message_escapes_what_it_is_told() -> None:
    assert "<b>" not in render_message("No", "<b>", static_url=STATIC)


def plots_of(brokers: int) -> tuple[Any, ...]:
    report: RunReport = build_report(samples.snapshot(), **PLAN | {"loads": samples.loads(brokers)})
    assert report.focus is not None
    return broker_plots(report.focus.brokers)


def test_the_same_brokers_give_the_same_picture_byte_for_byte() -> None:
    from kafka_rebalance.pages.plots import draw

    first = [plot.source for plot in plots_of(6)]
    draw.cache_clear()
    assert [plot.source for plot in plots_of(6)] == first


def test_pictures_follow_the_readers_mode_and_have_no_ground_of_their_own() -> None:
    for plot in plots_of(6):
        svg = base64.b64decode(plot.source.split(",")[1]).decode()
        assert "prefers-color-scheme:dark" in svg
        colours = set(re.findall(r"(?:fill|stroke): ([^;\"]+)", svg))
        assert colours <= {"none", "var(--ink)", "var(--line)", "var(--before)", "var(--after)"}


def test_of_many_brokers_it_is_drawn_how_the_load_is_spread_and_the_figures_are_said() -> None:
    disk = plots_of(1000)[0]
    assert disk.note == "all 1,000 brokers: 0–891 before, 550–550 after"
    assert "before 0 at least, 0 at a tenth of them, 759 at half, 891 at nine tenths, 891 GiB at most" in (
        disk.description
    )
    assert len(base64.b64decode(disk.source.split(",")[1])) < 16_000
    assert plots_of(BROKERS_SHOWN)[0].note == ""


def test_a_resource_that_is_not_known_of_every_broker_is_not_drawn() -> None:
    loads = samples.loads()
    loads["balanced"][0]["bytes_in_per_second"] = None
    report = build_report(samples.snapshot(), **PLAN | {"loads": loads})
    assert report.focus is not None
    assert [plot.title for plot in broker_plots(report.focus.brokers)] == ["Bytes on disk (GiB)", "Leaders", "Replicas"]


def test_every_number_of_the_pictures_is_in_the_table_too() -> None:
    text = Outline(page(**PLAN)).text.replace("\N{NO-BREAK SPACE}", " ")
    for words in ("825 GiB → 550 GiB", "0 B → 550 GiB", "120 → 80", "46.5 MiB/s → 31.0 MiB/s", "81 % → 54 %"):
        assert words in text


@pytest.mark.slow
def test_the_report_needs_neither_airflow_nor_matplotlib_before_it_draws() -> None:
    # A Dag's file imports the report; it is parsed every few seconds.
    code = "import sys, kafka_rebalance.pages.page; sys.exit(bool({'airflow', 'matplotlib'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_every_candidate_that_moves_something_links_to_its_plan_and_its_way_back() -> None:
    documents = PLAN | {"moves": samples.all_moves() | {"leaders_only": ()}}
    for html, where in (
        (page(**documents), FILES),
        (render_file(build_report(samples.snapshot(), **documents)), "reassignments"),
    ):
        links = [tag for _, tag in Outline(html).tags if "download" in tag and (tag["href"] or "").endswith("json")]
        names = ("light.json", "light-rollback.json", "balanced.json", "balanced-rollback.json")
        assert [link["href"] for link in links] == [f"{where}/{name}" for name in names]
        assert "nothing to move" in Outline(html).text


def test_a_run_that_started_from_a_plan_says_so() -> None:
    given = samples.snapshot()
    given["settings"]["plan"] = '{"version":1,"partitions":[]}'
    assert "a plan in Kafka's JSON, shown as the candidate given" in Outline(page(snapshot=given, **PLAN)).text
    assert "Started from" not in page(**PLAN)


def test_what_crowds_brokers_or_leads_too_much_of_a_topic_is_said_where_the_plan_says_so() -> None:
    assert "12 → 9 beyond the even share of their topic plus one" in " ".join(Outline(page(**PLAN)).text.split())
    assert "31 → 2 beyond the even share of their topic" in " ".join(Outline(page(**PLAN)).text.split())
    older = page(**PLAN | {"proposals": samples.proposals_of("crowded_replicas_before", "excess_leaders_before")})
    assert "Replicas that crowd a broker" not in older
    assert "Excess leaders" not in older
