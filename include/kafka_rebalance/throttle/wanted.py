"""What a run throttles: the lists and rates that exactly its moves need.

Lists are merged: what somebody else lists stays, and `*` stays `*`. A broker has one rate for everything that it
throttles. So the approved rate replaces a rate that somebody else has set, lower or higher, for as long as the run
lasts: the predicted end rests on it. The other rate is put back afterwards. Rates are set only where a listed replica
sends (leader) or receives (follower), lists only for the partitions that gain a broker.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from kafka_rebalance.errors import ThrottleError
from kafka_rebalance.kafka.throttles import (
    CORDON,
    EVERY_LOG_DIR,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LIST_KEYS,
    LOG_DIR_RATE,
    format_throttled_replicas,
    split_entry,
    throttled_replicas,
)
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.throttle.throttle_lease import list_entries

Configs = Mapping[str, Mapping[str, str]]  # "topics/T" or "brokers/N" -> config key -> value; absent: no config there
Changes = dict[str, dict[str, str | None]]  # the same, None: the key is removed
Value = TypeVar("Value", str, str | None)


class ListEntry(NamedTuple):
    """One entry of a list of throttled replicas, as `0:101` of topic orders."""

    entity: str
    key: str
    text: str
    topic_partition: TopicPartition
    broker: int


def desired_throttle(
    moves: Iterable[Move], bytes_per_second: int, cordoned: Collection[int] = ()
) -> dict[str, dict[str, str]]:
    """entity -> key -> value that throttles exactly the copies of these moves; empty if none of them copies anything.

    `cordoned` are brokers that get no new replica meanwhile.

    Raises ThrottleError for a rate that is not a positive integer: 0 would stall the copies for ever.
    """
    _check_rate(bytes_per_second)
    copying = [move for move in moves if move.added]
    lists = throttled_replicas(
        {move.topic_partition: move.before for move in copying}, {move.topic_partition: move.after for move in copying}
    )
    wanted = {
        f"topics/{topic}": {
            LEADER_REPLICAS: format_throttled_replicas(sides["leader"]),
            FOLLOWER_REPLICAS: format_throttled_replicas(sides["follower"]),
        }
        for topic, sides in lists.items()
    }
    senders = {broker for move in copying for broker in move.before}
    receivers = {broker for move in copying for broker in move.added}
    for broker in sorted(senders | receivers):
        rates = ((LEADER_RATE, senders), (FOLLOWER_RATE, receivers))
        wanted[f"brokers/{broker}"] = {key: str(bytes_per_second) for key, which in rates if broker in which}
    for broker in sorted(cordoned):
        wanted.setdefault(f"brokers/{broker}", {})[CORDON] = EVERY_LOG_DIR
    return wanted


def desired_log_dir_rate(brokers: Iterable[int], bytes_per_second: int) -> dict[str, dict[str, str]]:
    """As `desired_throttle`, for copies between the log dirs of each of these brokers."""
    _check_rate(bytes_per_second)
    return {f"brokers/{broker}": {LOG_DIR_RATE: str(bytes_per_second)} for broker in sorted(brokers)}


def _check_rate(bytes_per_second: int) -> None:
    if type(bytes_per_second) is not int or bytes_per_second < 1:
        raise ThrottleError(
            f"A throttle of {bytes_per_second!r} bytes/s lets nothing through. "
            "Give a whole number of bytes per second above 0, within the policy."
        )


def each_value(configs: Mapping[str, Mapping[str, Value]]) -> Iterator[tuple[str, str, Value]]:
    """(entity, key, value) of all entities."""
    return ((entity, key, value) for entity, values in configs.items() for key, value in values.items())


def each_entry(wanted: Configs) -> Iterator[ListEntry]:
    """The entries of all lists that a lease wants; these are never `*`."""
    for entity, key, value in each_value(wanted):
        for text in list_entries(value, key) if key in LIST_KEYS else ():
            partition, broker = split_entry(text)
            yield ListEntry(entity, key, text, TopicPartition(entity.partition("/")[2], partition), broker)
