"""The words on the worst loss of one broker: what the others then send and hold."""

from __future__ import annotations

from typing import Any

from kafka_rebalance.pages.approver_facts import brief
from kafka_rebalance.pages.page import render_page
from kafka_rebalance.pages.run_report import RunReport
from support.documents import report_samples as samples
from support.documents.built_report import build_report

GIB = samples.GIB
SENT = {"over_share": 1.9, "bytes_per_second": 105_000_000, "network_bytes_per_second": 125_000_000}
FULL = {"used_bytes": 950 * GIB, "capacity_bytes": 1000 * GIB}
TODAY: dict[str, dict[str, Any]] = {"network": SENT | {"lost": 3, "broker": 5}, "disk": FULL | {"lost": 1, "broker": 2}}
AFTERWARDS: dict[str, dict[str, Any]] = {
    "network": SENT | {"lost": 2, "broker": 4, "bytes_per_second": 75_000_000, "over_share": 1.4},
    "disk": FULL | {"lost": 2, "broker": 1, "used_bytes": 640 * GIB},
}


def report(today: dict[str, Any], afterwards: dict[str, Any]) -> RunReport:
    plan = samples.proposals_of(broker_loss={"before": today, "after": afterwards})
    return build_report(samples.snapshot(), proposals=plan)


def test_the_worst_loss_of_a_broker_says_what_the_others_then_send_and_hold_today_and_afterwards() -> None:
    found = report(TODAY, AFTERWARDS)
    assert brief(found).worst[-1] == (
        "Without one broker, the busiest other sends 84 % of its network today (broker 5 without broker 3), and 60 % "
        "afterwards (broker 4 without broker 2). New copies of its replicas in the same rack fill the fullest disk to "
        "95 % today (broker 2 without broker 1), and to 64 % afterwards (broker 1 without broker 2)."
    )
    page = render_page(found, static_url="/s", run_url="/r")
    assert "After the worst loss of a broker" in page
    assert 'busiest, of its network <span class="was">84 %</span> → 60 %; fullest disk' in page


def test_where_a_network_is_not_known_the_worst_loss_is_a_multiple_of_the_fair_share() -> None:
    unknown = TODAY["network"] | {"network_bytes_per_second": None}
    said = brief(report({"network": unknown, "disk": None}, AFTERWARDS)).worst[-1]
    assert said == (
        "Without one broker, the busiest other sends 1.90 of its fair share today (broker 5 without broker 3), and "
        "1.40 afterwards (broker 4 without broker 2)."
    )


def test_a_loss_of_which_nothing_is_known_adds_no_words_and_an_unknown_cell() -> None:
    nothing = {"network": None, "disk": None}
    found = report(nothing, nothing)
    assert not any("Without one broker" in text for text in brief(found).worst)
    assert "<td>unknown</td>" in render_page(found, static_url="/s", run_url="/r")
    assert "After the worst loss" not in render_page(build_report(samples.snapshot()), static_url="/s", run_url="/r")
