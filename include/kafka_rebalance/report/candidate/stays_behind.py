"""What stays on brokers that are to be emptied, in words, for whoever approves."""

from __future__ import annotations

from kafka_rebalance.documents.proposals.candidate_figures import Reason, StaysBehind
from kafka_rebalance.report.units import Named, format_bytes, format_count

_WHY = {
    Reason.NOT_SELECTED: "topics_in and topics_out of the run, or of the policy, keep these topics out",
    Reason.INTERNAL: "these topics are Kafka's own, and internal_topics is not ticked",
    Reason.PINNED: "pinned_topics keeps these replicas where they are",
    Reason.ONLY_REORDERED: "this candidate only re-orders lists",
    Reason.NOT_MOVED: "this candidate does not move them",
}


def stays_words(found: tuple[StaysBehind, ...], named: Named) -> str:
    """A sentence for each broker and reason, and what the verification makes of it; empty where nothing stays."""
    if not found:
        return ""
    said = [f"{_words(one, named)}." for one in found]
    return " ".join([*said, "The verification fails while such a broker holds anything of topics_in."])


def _words(one: StaysBehind, named: Named) -> str:
    topics = ", ".join(named(topic) for topic in one.topics)
    more = one.topic_count - len(one.topics)
    others = f" and {format_count(more)} more" if more else ""
    replicas = format_count(one.replicas, "replica", "replicas")
    return (
        f"Broker {one.broker} keeps {replicas} ({format_bytes(one.size_bytes)}) of "
        f"{'topic' if one.topic_count == 1 else 'topics'} {topics}{others}: {_WHY[one.reason]}"
    )
