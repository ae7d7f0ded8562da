"""What `kafka_rebalance_cancel` says: for the log, and as the text of an approval request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from kafka_rebalance.report.requests.markdown import asked_by, code, format_ids
from kafka_rebalance.report.units import format_bytes, format_count, format_rate

_SHOWN = 40
_FATES = {  # in the order in which people want to read them
    "blocked": "cannot be taken back now",
    "back": "in flight, goes back",
    "ending": "ends by itself in a moment, stays there",
    "returning": "is on its way back already",
    "queued": "not begun, stays where it is",
    "done": "in place, stays there",
    "changed": "changed by somebody else, left alone",
}


def lines(document: Mapping[str, Any]) -> tuple[str, ...]:
    """What the action does, what it leaves undone and what it cannot restore; one statement a line."""
    said = [_headline(document), *_figures(document)]
    return (*said, *(f"Not restored: {text}" for text in document.get("cannot_restore", ())))


def _headline(document: Mapping[str, Any]) -> str:
    run = document["run"]
    return {
        "stop_after_batch": f"{run} stops after the batch under way",
        "cancel_now": f"{run} is cancelled now",
        "roll_back": f"back to the lists recorded before {run}",
        "set_throttle": f"{run} gets another throttle",
    }[document["action"]]


def _figures(document: Mapping[str, Any]) -> list[str]:
    if document["action"] == "stop_after_batch":
        left = document["remaining"]
        under_way = "no batch is under way" if left["running"] is None else f"batch {left['running']} goes to its end"
        undone = (
            f"undone remain {format_count(left['partitions'], 'partition', 'partitions')} in "
            f"{format_count(len(left['batches']), 'batch', 'batches')}, {format_bytes(left['bytes'])} to copy"
        )
        return [f"{under_way}; {undone if left['batches'] else 'nothing remains undone'}"]
    if document["action"] == "set_throttle":
        was, rate = document["approved_bytes_per_second"], document["bytes_per_second"]
        return [f"{format_rate(rate)} per broker; approved was {format_rate(was)}"]
    if document["action"] == "roll_back":
        return [
            f"{format_count(document['partitions'], 'partition', 'partitions')} go back, "
            f"{format_bytes(document['bytes'])} to copy; {document['unchanged']} have their recorded list, "
            f"{len(document['left_out'])} cannot go back. A run of kafka_rebalance plans it, with its own checks, "
            "time and approval."
        ]
    return _counts(document["steps"], document["sizes_known"])


def _counts(steps: Sequence[Mapping[str, Any]], sizes_known: bool) -> list[str]:
    counts = Counter(step["fate"] for step in steps)
    thrown = sum(step["bytes_thrown_away"] for step in steps)
    said = [f"{counts[fate]} {words}" for fate, words in _FATES.items() if counts[fate]]
    size = (
        format_bytes(thrown) if sizes_known else "an unknown number of bytes, since brokers did not tell their sizes,"
    )
    return [*said, f"{size} of half-built copies are thrown away"]


def approval_subject(document: Mapping[str, Any]) -> str:
    """One line of plain text."""
    return f"Kafka {document['connection_id']}: cancel {document['run']} now?"


def approval_body(document: Mapping[str, Any]) -> str:
    """Markdown: for each partition what would be done and what it costs, what cannot be restored, and the consent."""
    parts = [
        f"**Cancel {code(document['run'], 120)} now** on {code(document['connection_id'], 120)} · "
        f"{code(document['cluster_id'], 60)}. Nothing has been changed yet.",
        asked_by(document["requested_by"], document["reason"]),
        "\n".join(f"- {code(line, 300)}" for line in _figures(document)),
        _table(document["steps"]),
        "A batch that begins before the answer is cancelled likewise: each partition only ever goes back to its "
        "original list. What is already back, or has ended, is left as it is. The run then requests nothing more and "
        "puts its throttles back.",
        "**Not restored**\n\n" + "\n".join(f"- {code(text, 300)}" for text in document["cannot_restore"]),
    ]
    if document["consent"] is not None:
        parts.append(_consent(document["consent"]))
    return "\n\n".join([*parts, f"**Digest** {code(document['digest'], 80)}"])


def rate_subject(document: Mapping[str, Any]) -> str:
    """One line of plain text."""
    return (
        f"Kafka {document['connection_id']}: throttle of {document['run']} up to "
        f"{format_rate(document['bytes_per_second'])}?"
    )


def rate_body(document: Mapping[str, Any]) -> str:
    """Markdown: the rate that is asked for beside the approved one, and who asks."""
    return "\n\n".join(
        [
            f"**Another throttle for {code(document['run'], 120)}** on {code(document['connection_id'], 120)} · "
            f"{code(document['cluster_id'], 60)}. Nothing has been changed yet.",
            asked_by(document["requested_by"], document["reason"]),
            "\n".join(f"- {code(line, 300)}" for line in _figures(document)),
            "Each broker may then send, and receive, that much for this rebalance. It works within seconds. The rate "
            "is above the one that the plan was approved with, so it needs an approval of its own. A lower one needs "
            "none.",
            f"**Digest** {code(document['digest'], 80)}",
        ]
    )


def _table(steps: Sequence[Mapping[str, Any]]) -> str:
    order = list(_FATES)
    touched = [step for step in steps if step["fate"] not in ("done", "queued")]
    touched.sort(key=lambda step: order.index(step["fate"]))
    if not touched:
        return "No partition is in flight."
    rows = ["| partition | now | in sync | goes to | thrown away | |", "|:--|:--|:--|:--|--:|:--|"]
    for step in touched[:_SHOWN]:
        to = step["original"] if step["fate"] in ("back", "returning") else step["approved"]
        words = f"{_FATES[step['fate']]}{': ' + step['note'] if step['note'] else ''}"
        now, in_sync = format_ids(step["now"]), format_ids(sorted(step["in_sync"]))
        rows.append(
            f"| {code(step['partition'], 120)} | {now} | {in_sync} | {format_ids(to)} | "
            f"{format_bytes(step['bytes_thrown_away'])} | {code(words, 240)} |"
        )
    more = [f"and {len(touched) - _SHOWN} more, in `cancel.json`"] if len(touched) > _SHOWN else []
    return "\n\n".join(["\n".join(rows), *more])


def _consent(sentence: str) -> str:
    return (
        "**This Kafka is below 2.4**, which knows no request to cancel. `/admin/reassign_partitions` is deleted and "
        "created with the original lists, and `/controller` is deleted, in one step: the controller stands down and "
        "another broker becomes controller. Clients go on producing and consuming; until it has taken over, usually "
        "within seconds and on clusters of many partitions within minutes, no leader is elected for a broker that "
        "fails, and no topic is created.\n\n**To go on, repeat this word for word** in *I consent to*: "
        f"{code(sentence, 300)}"
    )
