"""The page's view of the controller: who, since when, settled or not, and what waits for it."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_rebalance.pages.page import render_file
from support.documents import report_samples as samples
from support.documents.built_report import build_report


def section(controller: dict[str, Any] | None) -> str:
    """The section's HTML, blanks as blanks."""
    html = render_file(build_report(samples.snapshot(controller=controller)))
    found = html.split("<h2>Controller</h2>")
    return found[1].split("</section>")[0].replace("\N{NO-BREAK SPACE}", " ") if len(found) > 1 else ""


@pytest.mark.parametrize(
    "words",
    [
        "<dt>Broker</dt><dd>2 on kafka-2.orders.example</dd>",
        ">2026-04-19 03:10:44 UTC</time>",
        "<dt>Epoch</dt><dd>41</dd>",
        "settled: two reads found epoch 41, and the controller is registered in the session that elected it",
        "<dt>Migration to KRaft</dt><dd>none</dd>",
        "<dt>Reassignments queued</dt><dd>none</dd>",
        "<dt>Preferred elections queued</dt><dd>none</dd>",
        "<dt>Topic deletions queued</dt><dd>none</dd>",
    ],
)
def test_a_settled_controller_is_named_with_its_epoch_and_that_nothing_waits(words: str) -> None:
    assert words in section(samples.controller())


def test_what_waits_is_counted_and_the_first_are_named() -> None:
    queued = samples.controller()["queued"] | {"deletions": {"count": 12, "first": ["orders", "payments"]}}
    assert "<dt>Topic deletions queued</dt><dd>12: orders, payments and 10 more</dd>" in section(
        samples.controller(queued=queued)
    )


def test_a_failover_between_the_two_reads_and_a_migration_are_said() -> None:
    html = section(samples.controller(epochs_read=[39, 41], kraft_epoch=3, host=None, since=None))
    assert "an ordinary failover: epochs 39 and 41" in html
    assert "under way, KRaft epoch 3" in html
    assert "<dt>Broker</dt><dd>2</dd>" in html
    assert "<dt>Elected</dt><dd>unknown</dd>" in html


def test_hostile_names_stay_text() -> None:
    bad = samples.HOSTILE
    queued = samples.controller()["queued"] | {"deletions": {"count": 1, "first": [bad]}}
    html = section(samples.controller(host=bad, queued=queued))
    assert html.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 2
    assert "<script>" not in html


def test_a_run_of_before_has_no_such_section() -> None:
    assert section(None) == ""
