"""Whether brokers that were to be emptied hold nothing any more, of any topic of the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafka_rebalance.model.partition import TopicAssignment
from kafka_rebalance.verification.checks import Check

TOPICS_NAMED = 5


def check_emptied(brokers: Iterable[int], assignments: Mapping[str, TopicAssignment]) -> tuple[Check, ...]:
    """`emptied` for each of these brokers. `assignments` are of all topics of the cluster, not of the plan's alone:
    internal topics, topics made meanwhile, and what run or policy kept out count too.
    """
    checks = []
    for broker in sorted(brokers):
        held = {
            topic: count
            for topic, assignment in sorted(assignments.items())
            if (count := sum(broker in replicas for replicas in assignment.partitions.values()))
        }
        named = ", ".join(f"{topic} ({count})" for topic, count in list(held.items())[:TOPICS_NAMED])
        more = f" and {len(held) - TOPICS_NAMED} more topics" if len(held) > TOPICS_NAMED else ""
        finding = f"it holds {sum(held.values())} replicas of {named}{more}" if held else "it holds no replica"
        checks.append(Check("emptied", f"broker {broker}", "it holds no replica of any topic", finding, not held))
    return tuple(checks)
