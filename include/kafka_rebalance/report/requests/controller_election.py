"""What `elect_controller` of `kafka_rebalance_cancel` says: for the log, and as the text of an approval request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kafka_rebalance.execution.stuck_request import ElectionPlan, EntryState
from kafka_rebalance.report.requests.markdown import asked_by, code
from kafka_rebalance.report.units import format_count

_SHOWN = 40
_STATES = {
    EntryState.GONE: "does not exist any more: the next controller drops it from the request",
    EntryState.MADE_AGAIN: "belongs to a topic that was made again since: the next controller moves the partition of "
    "the new topic",
    EntryState.ENDED: "is in place and in sync already: the next controller takes it out of the request",
    EntryState.UNHEARD: "was not begun, since the controller has not heard of it: the next controller moves it",
    EntryState.IN_SYNC: "has all its copies in sync, and the controller does not end its move: the next controller "
    "ends it",
    EntryState.MOVING: "is moving",
}
_COSTS = (
    "Clients go on producing and consuming. Until the next controller has taken over, no leader is elected for a "
    "broker that fails, and no topic is created. That takes seconds, and minutes on clusters of many partitions.",
    "The next controller reads everything in ZooKeeper anew: it resumes queued deletions of topics and pending "
    "elections of preferred leaders.",
    "Controller epochs only grow; the present controller is not elected back.",
)


def lines(document: Mapping[str, Any]) -> tuple[str, ...]:
    """What is done to which controller, why, and what it costs; one statement a line."""
    plan = ElectionPlan.from_mapping(document["plan"])
    return (
        f"another broker becomes controller of cluster {plan.cluster_id}; now it is broker {plan.broker}, epoch "
        f"{plan.epoch}",
        *(f"{tp}: {words}" for tp, _, words in _entries(plan)[:_SHOWN]),
        *_effects(plan, document),
    )


def approval_subject(document: Mapping[str, Any]) -> str:
    """One line of plain text."""
    return f"Kafka {document['connection_id']}: elect another controller to clear a reassignment request?"


def approval_body(document: Mapping[str, Any]) -> str:
    """Markdown: who is controller, what is requested and why it does not end, what the election costs, the consent."""
    plan = ElectionPlan.from_mapping(document["plan"])
    return "\n\n".join(
        [
            f"**Elect another controller** on {code(document['connection_id'], 120)} · {code(plan.cluster_id, 60)}. "
            "Nothing has been changed yet.",
            asked_by(document["requested_by"], document["reason"]),
            f"Controller is **broker {plan.broker}**, epoch {plan.epoch}. `/admin/reassign_partitions` asks for "
            f"{format_count(len(plan.requested), 'partition', 'partitions')}, and the controller does nothing for it.",
            _table(plan),
            "\n".join(f"- {code(text, 400)}" for text in _effects(plan, document)),
            "`/controller` is deleted, if controller, epoch and request are still those shown here. Otherwise nothing "
            "is deleted.\n\n**To go on, repeat this word for word** in *I consent to*: " + code(plan.consent, 300),
            f"**Digest** {code(plan.digest, 80)}",
        ]
    )


def _entries(plan: ElectionPlan) -> list[tuple[str, Sequence[int], str]]:
    """(partition, requested replicas, what becomes of it)"""
    return [(str(tp), replicas, _STATES[state]) for tp, (replicas, state) in sorted(plan.requested.items())]


def _effects(plan: ElectionPlan, document: Mapping[str, Any]) -> list[str]:
    begins = any(state in (EntryState.UNHEARD, EntryState.MADE_AGAIN) for _, state in plan.requested.values())
    said = [f"Run {plan.holder} holds the cluster. It goes on, with its lock and its throttle."] if plan.holder else []
    if begins and not plan.holder:
        said.append("No run holds the cluster, so no throttle of a run holds back the copies that then begin.")
    if document["deletions"]:
        said.append(f"Topics in deletion that are resumed: {', '.join(document['deletions'][:_SHOWN])}.")
    return [*said, *_COSTS]


def _table(plan: ElectionPlan) -> str:
    entries = _entries(plan)
    rows = ["| partition | requested | why it stays, and what follows |", "|:--|:--|:--|"]
    rows += [
        f"| {code(tp, 120)} | {', '.join(map(str, replicas))} | {code(words, 240)} |"
        for tp, replicas, words in entries[:_SHOWN]
    ]
    more = [f"and {len(entries) - _SHOWN} more, in `cancel.json`"] if len(entries) > _SHOWN else []
    return "\n\n".join(["\n".join(rows), *more])
