"""How much of a topic is in remote storage, in the words of page and request."""

from __future__ import annotations

import html
from typing import Any

from kafka_rebalance.command.first_look import check_lines
from kafka_rebalance.pages.approver_facts import brief
from kafka_rebalance.pages.page import render_file
from kafka_rebalance.pages.run_report import RunReport
from kafka_rebalance.rebalance.request import approval_body
from support.documents import report_samples as samples
from support.documents.built_report import planned


def report(**snapshot: Any) -> RunReport:
    return planned(snapshot=samples.snapshot(**snapshot))


def test_it_is_said_how_much_of_a_tiered_topic_is_remote_and_that_a_move_copies_the_local_part() -> None:
    def told(*topics: dict[str, Any], count: int = 1, unknown: int = 0) -> str:
        found = report(tiered={"topics": count, "unknown": unknown, "largest": topics})
        words = dict(brief(found).verdict)["Tiered topics"]
        assert words in html.unescape(render_file(found)).replace("\xa0", " ")
        assert f"Tiered topics: {words}" in check_lines(found)
        name, _, rest = words.partition(":")
        assert f"Tiered topics: `{name}`:{rest.partition(';')[0]}" in approval_body(found)
        return words

    orders = {"topic": "orders", "local_bytes": samples.GIB, "local_records": 1000, "remote_records": 3000}
    assert told(orders) == (
        "orders: 1.00 GiB on disk a replica of each partition, 75 % of its records in remote storage alone, about "
        "3.00 GiB. A move copies no more than the part on disk"
    )
    young = {"topic": "young", "local_bytes": 0, "local_records": 0, "remote_records": 0}
    hidden = {"topic": "hidden", "local_bytes": samples.GIB, "untold": "broker 3 answers NotLeaderForPartitionError"}
    words = told(orders, hidden, young, count=7, unknown=1)
    assert "hidden: 1.00 GiB on disk a replica of each partition, an unknown part in remote storage" in words
    assert "young: 0 B on disk a replica of each partition, nothing in remote storage alone" in words
    assert "4 more topics" in words
    assert (
        "of 1 of 7 topics the remote part is unknown (broker 3 answers NotLeaderForPartitionError), so their bytes in "
        "are estimated"
    ) in words
    emptied = {**orders, "local_records": 0, "local_bytes": 0}
    assert "100 % of its records in remote storage alone." in told(emptied), "nothing on disk tells their size"
    assert "Tiered topics" not in dict(brief(report()).verdict)
