"""Whether a controller has taken up new partitions, as the znodes tell."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from kazoo.client import KazooClient

from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.zookeeper import znodes


def are_led(client: KazooClient, topic: str, partitions: Mapping[int, Sequence[int]]) -> bool:
    """Whether each of these partitions is stored with these replicas, and has a leader."""
    stored = json.loads(client.get(znodes.topic_path(topic))[0])["partitions"]
    states = [znodes.state_path(TopicPartition(topic, partition)) for partition in partitions]
    return all(
        stored.get(str(partition)) == list(replicas)
        and client.exists(state) is not None
        and json.loads(client.get(state)[0])["leader"] >= 0
        for (partition, replicas), state in zip(partitions.items(), states, strict=True)
    )
