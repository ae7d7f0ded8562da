"""Whether brokers that were to be emptied hold no replica of any topic any more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from kafka_rebalance.model.finding import some
from kafka_rebalance.model.partition import TopicAssignment, TopicPartition
from kafka_rebalance.model.settings import matches
from kafka_rebalance.run.check_result import Check, CheckName


def check_emptied(
    brokers: Iterable[int],
    assignments: Mapping[str, TopicAssignment],
    topics_in: Sequence[str],
    waits: Mapping[TopicPartition, Sequence[int]] = MappingProxyType({}),
) -> tuple[Check, ...]:
    """`emptied` for each of these brokers. `assignments` are of all topics of the cluster: internal topics, topics made
    meanwhile, and topics that the policy keeps out count too.

    A run for some topics alone (`topics_in`, globs) empties the broker of these: other topics are a warning. So is what
    the approved plan has left out because it waits for the broker itself (`waits`).
    """
    return tuple(_check(broker, assignments, topics_in, waits) for broker in sorted(brokers))


def _check(
    broker: int,
    assignments: Mapping[str, TopicAssignment],
    topics_in: Sequence[str],
    waits: Mapping[TopicPartition, Sequence[int]],
) -> Check:
    here = [
        TopicPartition(topic, partition)
        for topic, assignment in sorted(assignments.items())
        for partition, replicas in assignment.partitions.items()
        if broker in replicas
    ]
    lost = sorted(tp for tp in here if broker in waits.get(tp, ()))
    held = Counter(tp.topic for tp in here if tp not in set(lost))
    asked = {topic: count for topic, count in held.items() if matches(topic, topics_in)}
    check = partial(Check, CheckName.EMPTIED, f"broker {broker}", "it holds no replica of any topic")
    if asked:
        return check(f"it holds {_named(asked)}", False)
    if lost:
        left = f"it still holds {some(lost)}, lost unless it returns, which the plan has left out"
        return check(left, True, "warning")
    if held:
        return check(f"it still holds {_named(held)}, which topics_in leaves out", True, "warning")
    return check("it holds no replica", True)


def _named(held: Mapping[str, int]) -> str:
    return f"{sum(held.values())} replicas of {some([f'{topic} ({count})' for topic, count in held.items()])}"
