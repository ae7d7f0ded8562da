"""How many replicas brokers hold after a plan, against `replicas_per_broker`.

`planning.rules.replica_limits` has the same rule for the lists of a search.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.finding import Finding
from kafka_rebalance.model.partition import TopicPartition


def held_replicas(lists: Iterable[Iterable[int]]) -> Counter[int]:
    """{broker: its replicas}"""
    return Counter(broker for brokers in lists for broker in brokers)


def beyond_limit(moves: Iterable[Move], held: Mapping[int, int], limit: int) -> dict[int, int]:
    """{broker: its replicas in the end} of those that end with more than the limit, and with more than they hold."""
    added: Counter[int] = Counter()
    for move in moves:
        added.update(move.added)
        added.subtract(move.removed)
    ends = {broker: held.get(broker, 0) + more for broker, more in sorted(added.items()) if more > 0}
    return {broker: end for broker, end in ends.items() if end > limit}


def too_many_now(
    moves: Iterable[Move],
    lying: Mapping[TopicPartition, Collection[int]],
    brokers: Collection[int],
    limit: int | None,
) -> Iterable[Finding]:
    """Brokers that end beyond the limit with what the plan still brings, because topics have come since the snapshot.

    `lying` are the brokers of each replica today, of the `brokers` that told. A limit of None is that of a run whose
    plan had none.
    """
    if limit is None:
        return
    now, come, go = held_replicas(lying.values()), Counter[int](), Counter[int]()
    for move in moves:
        here = set(lying.get(move.topic_partition, ()))
        come.update(set(move.after) - here)
        go.update(here & set(move.removed))
    for broker in sorted(come.keys() & set(brokers)):
        end = now[broker] + come[broker] - go[broker]
        if end > max(limit, now[broker]):
            yield Finding(
                f"broker {broker}",
                f"{now[broker]:,} replicas lie there today. With what the approved plan still brings it would hold "
                f"{end:,}, and replicas_per_broker of the policy is {limit:,}",
                "Delete topics that nobody needs and clear this task. Or start a new Dag run, which plans with the "
                "replicas of today",
            )
