"""The texts of `kafka_rebalance_cancel`: lines for the log, and approval requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kafka_rebalance.cancel.cancel_file import (
    CANCEL_NOW,
    ELECT_CONTROLLER,
    ROLL_BACK,
    SET_THROTTLE,
    STOP,
    CancelRequest,
    StepShown,
)
from kafka_rebalance.moves.cancel_plan import Fate
from kafka_rebalance.moves.stuck_request import ElectionPlan, EntryState
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
    if document.action == ELECT_CONTROLLER:
        return _election_lines(document)
    not_restored = (f"Not restored: {text}" for text in document.cannot_restore)
    return (_headline(document), *_figures(document), *not_restored)


def approval_texts(document: CancelRequest) -> tuple[str, str]:
    """The subject, one line of plain text, and the body in Markdown."""
    if document.action == ELECT_CONTROLLER:
        subject = "elect another controller to clear a reassignment request?"
        body = _election_body(document)
    elif document.action == SET_THROTTLE:
        subject = f"throttle of {document.run} up to {format_rate(document.bytes_per_second)}?"
        body = _rate_body(document)
    else:
        subject, body = f"cancel {document.run} now?", _cancel_body(document)
    return f"Kafka {document.connection_id}: {subject}", body


def _headline(document: CancelRequest) -> str:
    run = document.run
    return {
        STOP: f"{run} stops after the batch under way",
        CANCEL_NOW: f"{run} is cancelled now",
        ROLL_BACK: f"{run} is rolled back to the replica lists recorded before it",
        SET_THROTTLE: f"{run} gets another throttle",
    }[document.action]


def _figures(document: CancelRequest) -> list[str]:
    if (remaining := document.remaining) is not None:
        running = "no batch is running" if remaining.running is None else f"batch {remaining.running} runs to its end"
        undone = (
            f"{format_count(remaining.partitions, 'partition', 'partitions')} in "
            f"{format_count(len(remaining.batches), 'batch', 'batches')} remain undone, "
            f"{format_bytes(remaining.bytes)} to copy"
        )
        return [f"{running}; {undone if remaining.batches else 'nothing remains undone'}"]
    if document.action == SET_THROTTLE:
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


def _cancel_body(document: CancelRequest) -> str:
    """What happens to each partition and what it costs, what cannot be restored, and the consent."""
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


def _rate_body(document: CancelRequest) -> str:
    """The requested rate beside the approved one, and who asks."""
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
    touched = [step for fate in _FATES if fate not in (Fate.DONE, Fate.QUEUED) for step in steps if step.fate == fate]
    if not touched:
        return "No partition is in flight."
    rows = [
        (
            code(step.partition, 120),
            format_ids(step.now),
            format_ids(sorted(step.in_sync)),
            format_ids(step.original if step.fate in (Fate.BACK, Fate.RETURNING) else step.approved),
            format_bytes(step.bytes_thrown_away),
            code(f"{_FATES[step.fate]}{': ' + step.note if step.note else ''}", 240),
        )
        for step in touched
    ]
    return _first_rows(("partition", "now", "in sync", "goes to", "#thrown away", ""), rows)


def _first_rows(columns: Sequence[str], rows: Sequence[tuple[object, ...]]) -> str:
    more = f"\n\nand {len(rows) - _SHOWN} more, in `cancel.json`" if len(rows) > _SHOWN else ""
    return table(columns, rows[:_SHOWN]) + more


# The words of elect_controller.


_STATES = {
    EntryState.GONE: "no longer exists: the next controller drops it from the request",
    EntryState.MADE_AGAIN: "belongs to a topic that was deleted and created again: the next controller moves the "
    "partition of the new topic",
    EntryState.ENDED: "is already in place and in sync: the next controller removes it from the request",
    EntryState.UNHEARD: "has not started, because the controller has not seen it: the next controller moves it",
    EntryState.IN_SYNC: "has all its replicas in sync, but the controller does not end its move: the next controller "
    "ends it",
    EntryState.MOVING: "is moving",
}
_COSTS = (
    "Clients go on producing and consuming. Until the next controller has taken over, no leader is elected for a "
    "broker that fails, and no topic is created. That takes seconds, and minutes on clusters of many partitions.",
    "The next controller reads its state from ZooKeeper again. It resumes queued topic deletions and pending elections "
    "of preferred leaders.",
    "There is no way back: controller epochs only grow, and the run does not elect the present controller again.",
)


def _election_lines(document: CancelRequest) -> tuple[str, ...]:
    """Which controller is replaced, why, and what it costs; one statement a line."""
    plan = document.election_plan
    return (
        f"another broker becomes controller of cluster {plan.cluster_id}; the controller is now broker {plan.broker}, "
        f"epoch {plan.epoch}",
        *(f"{tp}: {words}" for tp, _, words in _entries(plan)[:_SHOWN]),
        *_effects(plan, document),
    )


def _election_body(document: CancelRequest) -> str:
    """The controller, the request and why it does not end, what the election costs, and the consent."""
    plan = document.election_plan
    entries = [(code(tp, 120), replicas, code(words, 240)) for tp, replicas, words in _entries(plan)]
    return "\n\n".join(
        [
            f"**Elect another controller** {on_cluster(document.connection_id, plan.cluster_id)}. "
            "Nothing has been changed yet.",
            asked_by(document.requested_by, document.reason),
            f"The controller is **broker {plan.broker}**, epoch {plan.epoch}. `/admin/reassign_partitions` requests "
            f"{format_count(len(plan.requested), 'partition', 'partitions')}, and the controller does nothing for it.",
            _first_rows(("partition", "requested", "why it stays, and what follows"), entries),
            "\n".join(f"- {code(text, 400)}" for text in _effects(plan, document)),
            "The run deletes `/controller` if controller, epoch and request are still those shown here. Otherwise it "
            "deletes nothing.\n\n**To go on, repeat this word for word** in *I consent to*: " + code(plan.consent, 300),
            f"**Digest** {code(plan.digest, 80)}",
        ]
    )


def _entries(plan: ElectionPlan) -> list[tuple[str, str, str]]:
    """(partition, requested replicas, why it stays and what follows)"""
    return [(str(tp), format_ids(replicas), _STATES[state]) for tp, (replicas, state) in sorted(plan.requested.items())]


def _effects(plan: ElectionPlan, document: CancelRequest) -> list[str]:
    begins = any(state in (EntryState.UNHEARD, EntryState.MADE_AGAIN) for _, state in plan.requested.values())
    effects = (
        [f"Run {plan.holder} holds the cluster. It goes on, with its lock and its throttle."] if plan.holder else []
    )
    if begins and not plan.holder:
        effects.append("No run holds the cluster, so no throttle of a run limits the copies that start then.")
    if document.deletions:
        effects.append(f"The deletion of these topics resumes: {', '.join(document.deletions[:_SHOWN])}.")
    return [*effects, *_COSTS]
