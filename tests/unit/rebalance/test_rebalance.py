"""The approval request: everything to decide on, at most 4 KiB, and nothing in it is markup but ours."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from kafka_rebalance.pages.markdown import code, sentence
from kafka_rebalance.pages.run_report import RunReport
from kafka_rebalance.rebalance.request import BODY_BYTES, LINES, approval_body, approval_subject
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


def test_the_body_has_what_a_decision_needs_in_twelve_lines() -> None:
    body = approval_body(report(), link="https://airflow.example.org/x")
    for words in (
        "`orders-prod`",
        "`uma`",
        "Brokers 5 and 6 were added on Friday",
        "- Balanced is recommended: for 287 GiB copied, the highest broker goes from 1.62 to 1.04 of its share of "
        "bytes on disk.\n",
        "- **Does** copies 287 GiB (34 moves, within 3 % of the least possible), 6 leader changes. Highest broker "
        "1.62 → 1.04 of its share of bytes on disk\n",
        "- **Ends** in 1 h 21 min–2 h 15 min at 95.4 MiB/s a broker, at any time (3 batches, by the plan). Fullest "
        "disk meanwhile 71 % (broker 1, 90 % allowed)\n",
        "- **Can go wrong** If broker 1 fails in batch 2, 37 partitions are under min.insync.replicas (today 35 at "
        "worst). **Restart no broker while it runs.**\n",
        "- **Way back** copies 287 GiB and takes about 1 h 34 min in the same batches, by the Dag "
        "`kafka_rebalance_cancel`",
        "| `balanced · cccccccc` (recommended) | 287 GiB | 1 h 21 min–2 h 15 min | 71 % | 1.62 → 1.04 | 37 partitions "
        "| `ok` |",
        "| `orders.payments.authorised-0` | 19.9 GiB | 3, 1, 2 → 3, 1, 5 | 1 | broker 3 above its share |",
        "c" * 64,
        "[Open the full report](https://airflow.example.org/x)",
    ):
        assert words in body, words
    assert len(body.encode()) <= 4096
    assert sum(line.startswith("- ") for line in body.splitlines()) < LINES
    assert body.count("| `orders.payments.authorised-") == 5


def test_other_policies_of_the_same_cluster_are_told() -> None:
    body = approval_body(report(samples.snapshot(other_policies=["kafka_b"])))
    assert "This cluster is also kafka_b, with another policy. The stricter limit of each counts" in body


def test_the_body_says_which_brokers_are_cordoned_meanwhile_and_which_cannot_be() -> None:
    cordon = {"brokers": [1, 2], "cannot": {"3": "", "4": "The feature <b>is off"}}
    body = approval_body(report(samples.snapshot(cordon=cordon)))
    assert "Brokers 1, 2 are cordoned while the run lasts, so Kafka puts no new replica there" in body
    assert "This Kafka cannot cordon broker 3, so topics made meanwhile may be put there" in body
    assert "Kafka does not let broker 4 be cordoned: `The feature <b>is off`" in body
    assert "ordon" not in approval_body(report())


def test_the_body_says_how_many_replicas_do_not_go_back_where_plans_took_them_from() -> None:
    body = approval_body(report(samples.snapshot(kept_away={"replicas": 1, "days": 7})))
    assert (
        "- **Does** copies 287 GiB (34 moves, within 3 % of the least possible), 6 leader changes. Highest broker "
        "1.62 → 1.04 of its share of bytes on disk. 1 replica does not go back to where plans of the last 7 days took "
        "them from\n"
    ) in body
    assert "go back to where" not in approval_body(report())


def test_the_body_says_how_the_plan_differs_from_the_last_one() -> None:
    plan = samples.proposals()
    for candidate in plan["candidates"]:
        candidate["since_last"] = {"same": 4100, "changed": 40, "new": 26, "dropped": 12}
    last = {"run_id": "manual__one", "observed_at": "2026-05-02T10:00:00+00:00", "unread": None}
    body = approval_body(report(samples.snapshot(last_proposal=last), proposals=plan))
    assert (
        "1.62 → 1.04 of its share of bytes on disk. Since the plan of 2026-05-02 10:00:00 UTC, 4,100 of 4,166 moves "
        "are the same, 40 changed, 26 new, 12 dropped\n"
    ) in body
    unread = approval_body(report(samples.snapshot(last_proposal={**last, "unread": "moves: no parquet"})))
    assert "disk. The plan of run `manual__one` cannot be read, so this one was searched without it\n" in unread
    assert "ince the plan" not in approval_body(report(proposals=plan))


def test_with_everything_to_say_it_is_still_twelve_lines_and_the_rest_is_counted() -> None:
    plan = samples.proposals()
    for candidate in plan["candidates"]:
        candidate["peak_disk_fraction"] = 0.97
    late = samples.snapshot(policy=None, window={"not_before": None, "finish_by": "2026-05-03T15:00:00+00:00"})
    body = approval_body(report(late, proposals=plan, rates=samples.rates(), rejection=samples.rejection()))
    assert sum(line.startswith("- ") for line in body.splitlines()) == LINES
    assert body.count("**Can go wrong**") == 2, "the window has the line of the third"
    assert "or approve a candidate that copies less.** And 3 more in the report." in body


def test_the_subject_is_one_line_with_cluster_size_time_gain_and_recommendation() -> None:
    assert approval_subject(report()) == (
        "Kafka orders-prod: balance? 287 GiB to copy in 1 h 21 min–2 h 15 min, highest broker 1.62 → 1.04. "
        "Recommended: balanced · cccccccc"
    )


def test_the_subject_has_the_job_in_words_and_no_bytes_where_none_are_copied() -> None:
    proposals = samples.proposals()
    for candidate in proposals["candidates"]:
        candidate |= {"moved_bytes": 0, "makespan_seconds": 0.0}
    snapshot = samples.snapshot()
    snapshot["settings"] |= {"job": "leaders"}
    assert approval_subject(report(snapshot, proposals=proposals)) == (
        "Kafka orders-prod: balance leaders only? 34 moves, nothing to copy in 15 s, highest broker 1.62 → 1.04. "
        "Recommended: balanced · cccccccc"
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


@pytest.mark.slow
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
            assert not re.search(r"www\.|https?://|[\x00\u202e\u2028@`|<]", token.content), token.content
    cells = sum(token.type == "td_open" for token in rendered(plain))
    assert sum(token.type == "td_open" for token in tokens) == cells


@pytest.mark.slow
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
