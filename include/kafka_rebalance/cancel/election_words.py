"""The texts of `elect_controller` of `kafka_rebalance_cancel`: lines for the log, and an approval request."""

from __future__ import annotations

from kafka_rebalance.cancel.cancel_file import CancelRequest
from kafka_rebalance.moves.stuck_request import ElectionPlan, EntryState
from kafka_rebalance.pages.markdown import asked_by, code, format_ids, on_cluster, table
from kafka_rebalance.pages.units import format_count

_SHOWN = 40
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


def lines(document: CancelRequest) -> tuple[str, ...]:
    """Which controller is replaced, why, and what it costs; one statement a line."""
    plan = document.election_plan
    return (
        f"another broker becomes controller of cluster {plan.cluster_id}; the controller is now broker {plan.broker}, "
        f"epoch {plan.epoch}",
        *(f"{tp}: {words}" for tp, _, words in _entries(plan)[:_SHOWN]),
        *_effects(plan, document),
    )


def approval_subject(document: CancelRequest) -> str:
    """One line of plain text."""
    return f"Kafka {document.connection_id}: elect another controller to clear a reassignment request?"


def approval_body(document: CancelRequest) -> str:
    """Markdown: the controller, the request and why it does not end, what the election costs, and the consent."""
    plan = document.election_plan
    entries = _entries(plan)
    found = table(
        ("partition", "requested", "why it stays, and what follows"),
        [(code(tp, 120), replicas, code(words, 240)) for tp, replicas, words in entries[:_SHOWN]],
    )
    more = [f"and {len(entries) - _SHOWN} more, in `cancel.json`"] if len(entries) > _SHOWN else []
    return "\n\n".join(
        [
            f"**Elect another controller** {on_cluster(document.connection_id, plan.cluster_id)}. "
            "Nothing has been changed yet.",
            asked_by(document.requested_by, document.reason),
            f"The controller is **broker {plan.broker}**, epoch {plan.epoch}. `/admin/reassign_partitions` requests "
            f"{format_count(len(plan.requested), 'partition', 'partitions')}, and the controller does nothing for it.",
            found,
            *more,
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
    said = [f"Run {plan.holder} holds the cluster. It goes on, with its lock and its throttle."] if plan.holder else []
    if begins and not plan.holder:
        said.append("No run holds the cluster, so no throttle of a run limits the copies that start then.")
    if document.deletions:
        said.append(f"The deletion of these topics resumes: {', '.join(document.deletions[:_SHOWN])}.")
    return [*said, *_COSTS]
