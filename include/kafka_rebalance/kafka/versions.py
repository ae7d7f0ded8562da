"""The differences between Kafka's releases that matter to us."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kafka_rebalance.errors import InputError

_VERSION = re.compile(r"(\d+)\.(\d+)(?:[.-].*)?")


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What brokers and tools of one release do. The configs of topics have a table of their own, in `topic_configs`."""

    topic_znode_version: int  # of `/brokers/topics/T`; from version 3 on, it has the topic's id
    marks_moves_in_topic_znode: bool  # `adding_replicas` and `removing_replicas` (KIP-455)
    throttles_every_planned_partition: bool  # and sorts the lists: kafka-reassign-partitions was rewritten


def major_minor(version: str) -> tuple[int, int]:
    """(major, minor) of `2.0`, `2.0.1` or `3.9.2-rc1`: features come with minor releases."""
    match = _VERSION.fullmatch(version)
    if match is None:
        raise InputError(f"{version!r} is not a Kafka version such as 2.0 or 3.9.2. Nothing was read or written.")
    return int(match[1]), int(match[2])


def behaviour(version: str) -> Behaviour:
    """What that version does. Raises InputError for a text that is no version."""
    release = major_minor(version)
    return Behaviour(
        topic_znode_version=1 if release < (2, 4) else 2 if release < (2, 8) else 3,
        marks_moves_in_topic_znode=release >= (2, 4),
        throttles_every_planned_partition=release >= (2, 6),
    )
