"""The texts of `kafka_rebalance_cancel`: lines for the log, and approval requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kafka_rebalance.cancel.cancel_file import CancelRequest, StepShown
from kafka_rebalance.moves.cancel_plan import Fate
from kafka_rebalance.pages.markdown import asked_by, code, format_ids, on_cluster, table
from kafka_rebalance.pages.units import format_bytes, format_count, format_rate

_SHOWN = 40
_FATES = {  # in the order of the text
    Fate.BLOCKED: "cannot be cancelled now",
    Fate.BACK: "in flight, goes back",
    Fate.ENDING: "about to end, stays there",
    Fate.RETURNING: "is already on its way back",
    Fate.QUEUED: "not started, stays where it is",
    Fate.DONE: "in place, stays there",
    Fate.CHANGED: "changed by somebody else, left alone",
}


def lines(document: CancelRequest) -> tuple[str, ...]:
    """What the action does, what remains undone, and what it cannot restore; one statement a line."""
    said = [_headline(document), *_figures(document)]
    return (*said, *(f"Not restored: {text}" for text in document.cannot_restore))


def _headline(document: CancelRequest) -> str:
    run = document.run
    return {
        "stop_after_batch": f"{run} stops after the batch under way",
        "cancel_now": f"{run} is cancelled now",
        "roll_back": f"{run} is rolled back to the replica lists recorded before it",
        "set_throttle": f"{run} gets another throttle",
    }[document.action]


def _figures(document: CancelRequest) -> list[str]:
    if (left := document.remaining) is not None:
        running = "no batch is running" if left.running is None else f"batch {left.running} runs to its end"
        undone = (
            f"{format_count(left.partitions, 'partition', 'partitions')} in "
            f"{format_count(len(left.batches), 'batch', 'batches')} remain undone, "
            f"{format_bytes(left.bytes)} to copy"
        )
        return [f"{running}; {undone if left.batches else 'nothing remains undone'}"]
    if document.action == "set_throttle":
        was, rate = document.approved_bytes_per_second, document.bytes_per_second
        return [f"{format_rate(rate)} per broker; {format_rate(was)} was approved"]
    if (behind := document.left_out) is not None:
        return [
            f"{format_count(document.partitions, 'partition', 'partitions')} go back, "
            f"{format_bytes(document.bytes)} to copy; {document.unchanged} already have their recorded list, "
            f"{len(behind)} cannot go back. A run of kafka_rebalance plans the way back, with its own "
            "checks, time and approval."
        ]
    steps = document.steps or ()
    counts = Counter(step.fate for step in steps)
    thrown = format_bytes(sum(step.bytes_thrown_away for step in steps))
    lost = (
        f"{thrown} of unfinished copies are thrown away"
        if document.sizes_known
        else "unfinished copies of unknown size are thrown away: the brokers did not report their sizes"
    )
    return [*(f"{counts[fate]} {words}" for fate, words in _FATES.items() if counts[fate]), lost]


def approval_subject(document: CancelRequest) -> str:
    """One line of plain text."""
    return f"Kafka {document.connection_id}: cancel {document.run} now?"


def approval_body(document: CancelRequest) -> str:
    """Markdown: what happens to each partition and what it costs, what cannot be restored, and the consent."""
    parts = [
        *_head(document, f"Cancel {code(document.run, 120)} now"),
        _table(document.steps or ()),
        "A batch that starts before the answer is cancelled too: a partition only ever goes back to its original list. "
        "Moves that have ended, and partitions that are already back, stay as they are. The run then requests nothing "
        "more and puts back the throttles that were there before.",
        "**Not restored**\n\n" + "\n".join(f"- {code(text, 300)}" for text in document.cannot_restore),
    ]
    if document.consent is not None:
        parts.append(
            "**This Kafka is older than 2.4** and knows no request to cancel. In one step, the run deletes "
            "`/admin/reassign_partitions`, creates it with the original lists, and deletes `/controller`. So the "
            "controller stands down and another broker becomes controller. Clients go on producing and consuming. "
            "Until the new controller has taken over, no leader is elected for a broker that fails, and no topic is "
            "created. That usually takes seconds, on clusters of many partitions minutes.\n\n"
            f"**To go on, repeat this word for word** in *I consent to*: {code(document.consent, 300)}"
        )
    return "\n\n".join([*parts, f"**Digest** {code(document.digest, 80)}"])


def rate_subject(document: CancelRequest) -> str:
    """One line of plain text."""
    return f"Kafka {document.connection_id}: throttle of {document.run} up to {format_rate(document.bytes_per_second)}?"


def rate_body(document: CancelRequest) -> str:
    """Markdown: the requested rate beside the approved one, and who asks."""
    may = "Each broker may then send, and receive, that much for this rebalance."
    if document.between_log_dirs:
        may = "Each broker may then copy that much between its log dirs."
    return "\n\n".join(
        [
            *_head(document, f"Another throttle for {code(document.run, 120)}"),
            f"{may} The change takes effect within seconds. The rate is above the approved one, so it needs its own "
            "approval. A lower rate needs none.",
            f"**Digest** {code(document.digest, 80)}",
        ]
    )


def _head(document: CancelRequest, what: str) -> list[str]:
    return [
        f"**{what}** {on_cluster(document.connection_id, document.cluster_id)}. Nothing has been changed yet.",
        asked_by(document.requested_by, document.reason),
        "\n".join(f"- {code(line, 300)}" for line in _figures(document)),
    ]


def _table(steps: Sequence[StepShown]) -> str:
    shown = [fate for fate in _FATES if fate not in ("done", "queued")]
    touched = [step for fate in shown for step in steps if step.fate == fate]
    if not touched:
        return "No partition is in flight."
    rows = [
        (
            code(step.partition, 120),
            format_ids(step.now),
            format_ids(sorted(step.in_sync)),
            format_ids(step.original if step.fate in ("back", "returning") else step.approved),
            format_bytes(step.bytes_thrown_away),
            code(f"{_FATES[step.fate]}{': ' + step.note if step.note else ''}", 240),
        )
        for step in touched[:_SHOWN]
    ]
    found = table(("partition", "now", "in sync", "goes to", "#thrown away", ""), rows)
    more = len(touched) - _SHOWN
    return f"{found}\n\nand {more} more, in `cancel.json`" if more > 0 else found
