"""What a run throttles: the lists and rates that exactly its moves need.

Choices. Lists are merged: what somebody else lists stays, and `*` stays `*`. A rate that somebody else set is replaced
by the approved one for as long as the run lasts, lower or higher: a broker has one rate for everything it throttles,
and the approved one is what the predicted end rests on; it is put back afterwards. Rates are set only where a listed
replica sends (leader) or receives (follower), lists only for the partitions that gain a broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafka_rebalance.errors import ThrottleError
from kafka_rebalance.kafka.throttles import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    format_throttled_replicas,
    throttled_replicas,
)
from kafka_rebalance.model.candidate import Move

Configs = Mapping[str, Mapping[str, str]]  # "topics/T" or "brokers/N" -> config key -> value; absent: no config there
Changes = dict[str, dict[str, str | None]]  # the same, None: the key is removed


def topic_entity(topic: str) -> str:
    return f"topics/{topic}"


def broker_entity(broker: int) -> str:
    return f"brokers/{broker}"


def desired_throttle(moves: Iterable[Move], bytes_per_second: int) -> dict[str, dict[str, str]]:
    """entity -> key -> value that throttles exactly the copies of these moves; empty if none of them copies anything.

    Raises ThrottleError for a rate that is not a positive integer: 0 would stall the copies for ever.
    """
    if type(bytes_per_second) is not int or bytes_per_second < 1:
        raise ThrottleError(
            f"A throttle of {bytes_per_second!r} bytes/s lets nothing through. Nothing was written. "
            "Give a whole number of bytes per second above 0, within the policy."
        )
    copying = [move for move in moves if move.added]
    lists = throttled_replicas(
        {move.topic_partition: move.before for move in copying}, {move.topic_partition: move.after for move in copying}
    )
    wanted = {
        topic_entity(topic): {
            LEADER_REPLICAS: format_throttled_replicas(sides["leader"]),
            FOLLOWER_REPLICAS: format_throttled_replicas(sides["follower"]),
        }
        for topic, sides in lists.items()
    }
    senders = {broker for move in copying for broker in move.before}
    receivers = {broker for move in copying for broker in move.added}
    for broker in sorted(senders | receivers):
        rates = ((LEADER_RATE, senders), (FOLLOWER_RATE, receivers))
        wanted[broker_entity(broker)] = {key: str(bytes_per_second) for key, which in rates if broker in which}
    return wanted
