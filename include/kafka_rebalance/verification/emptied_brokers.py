"""Whether brokers that were to be emptied hold no replica of any topic any more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from kafka_rebalance.model.finding import some
from kafka_rebalance.model.partition import TopicAssignment
from kafka_rebalance.model.settings import matches
from kafka_rebalance.verification.check_result import Check, CheckName


def check_emptied(
    brokers: Iterable[int], assignments: Mapping[str, TopicAssignment], topics_in: Sequence[str]
) -> tuple[Check, ...]:
    """`emptied` for each of these brokers. `assignments` are of all topics of the cluster: internal topics, topics made
    meanwhile, and topics that the policy keeps out count too.

    A run for some topics alone (`topics_in`, globs) empties the broker of these: other topics are a warning.
    """
    return tuple(_check(broker, assignments, topics_in) for broker in sorted(brokers))


def _check(broker: int, assignments: Mapping[str, TopicAssignment], topics_in: Sequence[str]) -> Check:
    held = {
        topic: count
        for topic, assignment in sorted(assignments.items())
        if (count := sum(broker in replicas for replicas in assignment.partitions.values()))
    }
    asked = {topic: count for topic, count in held.items() if matches(topic, topics_in)}
    check = partial(Check, CheckName.EMPTIED, f"broker {broker}", "it holds no replica of any topic")
    if asked:
        return check(f"it holds {_named(asked)}", False)
    if held:
        return check(f"it still holds {_named(held)}, which topics_in leaves out", True, "warning")
    return check("it holds no replica", True)


def _named(held: Mapping[str, int]) -> str:
    return f"{sum(held.values())} replicas of {some([f'{topic} ({count})' for topic, count in held.items()])}"
