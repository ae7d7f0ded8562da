"""The approval request: everything to decide on, at most 8 KiB, and nothing in it is markup but ours."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from kafka_rebalance.report.requests.markdown import code, sentence
from kafka_rebalance.report.requests.rebalance import BODY_BYTES, approval_body, approval_subject
from kafka_rebalance.report.run.run_report import RunReport
from support.documents import report_samples as samples
from support.documents.built_report import build_report


def report(snapshot: dict[str, Any] | None = None, **documents: Any) -> RunReport:
    plan = {
        "proposals": samples.proposals(),
        "loads": samples.loads(),
        "moves": samples.all_moves(),
        "disks": samples.disks(),
    }
    return build_report(snapshot or samples.snapshot(), **plan | documents)


def test_the_body_has_what_a_decision_needs() -> None:
    body = approval_body(report(), link="https://airflow.example.org/x")
    for words in (
        "`orders-prod`",
        "`uma`",
        "Brokers 5 and 6 were added on Friday",
        "| `balanced · cccccccc` (recommended) | 287 GiB | 281 GiB | 34 | 6 | 3 | 1 h 30 min | `ok` |",
        "| Bytes copied | 330 GiB (policy: 10 % of the cluster, at most 2.00 TiB) | 287 GiB |",
        "| `orders.payments.authorised-0` | 19.9 GiB | 3, 1, 2 → 3, 1, 5 | 1 | broker 3 above its share |",
        "bytes on disk 1.62 → 1.04",
        "replicas that crowd a broker with their topic: 12 → 9",
        "Balanced is recommended: for 287 GiB copied, the highest broker goes from 1.62 to 1.04 of its share "
        "of bytes on disk.",
        "**Balanced** copies 287 GiB; no plan within 10 % copies less than 281 GiB (2 % above the bound) · takes "
        "about 1 h 30 min, at least 1 h 23 min · fullest disk meanwhile 71 %",
        "Racks: rack rack-1 has 2 of 6 brokers",
        "- 21 moves take broker 1 from 91 % to 54 % of its disk",
        "**Controller** broker 2 on `kafka-2.orders.example` since 2026-04-19 03:10:44 UTC · epoch 41, settled · "
        "nothing queued",
        "c" * 64,
        "[Open the full report](https://airflow.example.org/x)",
    ):
        assert words in body, words


def test_a_bound_that_reads_like_the_time_itself_is_not_said() -> None:
    proposals = samples.proposals()
    for candidate in proposals["candidates"]:
        candidate |= {"makespan_seconds": 0.4, "makespan_bound_seconds": 0.3}
    body = approval_body(report(proposals=proposals))
    assert "takes about 15 s" in body, "its three batches"
    assert ", at least" not in body


def test_a_controller_that_changed_or_has_work_queued_is_said_so() -> None:
    queued = {what: {"count": 0, "first": []} for what in ("reassignments", "elections")}
    busy = samples.controller(
        host=None, epochs_read=[40, 41], queued=queued | {"deletions": {"count": 2, "first": ["a", "b"]}}
    )
    body = approval_body(report(samples.snapshot(controller=busy)))
    assert "**Controller** broker 2 since 2026-04-19 03:10:44 UTC · epoch 41, 1 election meanwhile · " in body
    assert " · 2 topic deletions queued" in body


def test_the_subject_is_one_line_with_cluster_size_and_recommendation() -> None:
    assert approval_subject(report()) == (
        "Kafka orders-prod: balance? 34 partitions, 287 GiB to copy. Recommended: balanced · cccccccc"
    )


def test_the_subject_has_the_job_in_words_and_no_bytes_where_none_are_copied() -> None:
    proposals = samples.proposals()
    for candidate in proposals["candidates"]:
        candidate["moved_bytes"] = 0
    snapshot = samples.snapshot()
    snapshot["settings"] |= {"job": "leaders"}
    assert approval_subject(report(snapshot, proposals=proposals)) == (
        "Kafka orders-prod: balance leaders only? 34 partitions, nothing to copy. Recommended: balanced · cccccccc"
    )


def test_without_a_policy_the_body_says_that_nothing_can_be_executed() -> None:
    assert "this cluster is read-only" in approval_body(report(samples.snapshot(policy=None)))


hostile_text = st.text(st.sampled_from("`|\\<>[]()!*_#{}%&\n\r\t\x00\u202e\u2028 wW.htps:/@a~-="), max_size=300)


def rendered(body: str) -> list[Any]:
    """Tokens of a GFM parser that also turns bare addresses into links; code spans and texts flattened."""
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    tokens: list[Any] = []
    for token in parser.parse(body):
        tokens += token.children or [token]
    return tokens


@given(hostile_text, hostile_text)
def test_hostile_names_give_no_markup_and_no_template(topic: str, words: str) -> None:
    moves = samples.all_moves(topic)
    plan = samples.proposals()
    for candidate in plan["candidates"]:
        candidate["note"] = words
    snapshot = samples.snapshot(reason=words, requested_by=words, connection_id=words, cluster_id=words)
    body = approval_body(report(snapshot, moves=moves, proposals=plan), link="https://airflow.example.org/x")
    plain = approval_body(report(), link="https://airflow.example.org/x")
    assert len(body.encode()) <= BODY_BYTES
    assert not re.search(r"\{[{%#]", body)
    tokens = rendered(body)
    assert [token.attrs["href"] for token in tokens if token.type == "link_open"] == ["https://airflow.example.org/x"]
    kinds = {token.type for token in tokens}
    assert not kinds & {
        "html_inline",
        "html_block",
        "image",
        "heading_open",
        "fence",
        "code_block",
        "hr",
        "blockquote_open",
    }
    for token in tokens:
        if token.type == "text":  # nothing hostile outside code spans, where GFM would turn www. into a link
            assert not re.search(r"www\.|https?:|[\x00\u202e\u2028@`|<]", token.content), token.content
    cells = sum(token.type == "td_open" for token in rendered(plain))
    assert sum(token.type == "td_open" for token in tokens) == cells


@given(hostile_text)
def test_the_subject_stays_one_short_line_without_a_template(name: str) -> None:
    subject = approval_subject(report(samples.snapshot(connection_id=name)))
    assert len(subject) <= 200
    assert subject.isprintable()
    assert not re.search(r"\{[{%#]", subject)


@given(st.text(max_size=400))
def test_any_text_becomes_exactly_one_code_span(text: str) -> None:
    tokens = rendered(code(text, 100))
    assert [token.type for token in tokens] == ["paragraph_open", "code_inline", "paragraph_close"]


@given(st.text(max_size=200) | st.text("ab_*-+=.:/w ()%'1#~<>[]!&\\", max_size=60))
def test_a_sentence_is_text_only_where_nothing_in_it_could_be_markup(text: str) -> None:
    (paragraph,) = [
        token for token in MarkdownIt("gfm-like", {"linkify": False}).parse(sentence(text, 100)) if token.children
    ]
    kinds = [child.type for child in paragraph.children or ()]
    assert kinds in (["text"], ["code_inline"])
    if kinds == ["text"]:
        assert not re.search(r"www\.|//|[@`|<&*\[\]#~\\]", sentence(text, 100))


def test_our_own_sentences_are_text_and_what_holds_a_strange_name_is_code() -> None:
    assert sentence("21 moves take broker 1 from 91 % to 54 % of its disk", 100).startswith("21 moves")
    assert sentence("stopped at max_bytes of the request", 100) == "stopped at max_bytes of the request"
    for strange in (
        "leaders of __consumer_offsets",
        "see www.evil.example",
        "- a list",
        "1. a list",
        "0)",
        "*",
        "1 <b>",
        "",
    ):
        assert sentence(strange, 100).startswith("`"), strange


def test_long_names_shorten_the_list_of_moves_and_keep_digest_and_link() -> None:
    body = approval_body(report(moves=samples.all_moves("ö" * 249)), link="https://airflow.example.org/" + "x" * 500)
    assert len(body.encode()) <= BODY_BYTES
    assert "c" * 64 in body
    assert body.endswith("x)")


def test_even_a_body_that_cannot_fit_keeps_to_the_limit_says_so_and_has_digest_and_link() -> None:
    plan = samples.proposals()
    plan["candidates"] = [dict(plan["candidates"][2], name=f"c{n}", note="ö" * 300) for n in range(60)]
    body = approval_body(report(proposals=plan, moves={}), link="https://airflow.example.org/x")
    assert len(body.encode()) <= BODY_BYTES
    rest, digest, link = body.split("\n\n")[-3:]
    assert rest == "The rest is on the run's tab Rebalance."
    assert "c" * 64 in digest
    assert link == "[Open the full report](https://airflow.example.org/x)"
    assert body.count("`") % 2 == 0
