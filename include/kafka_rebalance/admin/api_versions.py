"""The versions of Kafka's requests that each broker supports. They show which brokers run other software."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from kafka.errors import KafkaError
from kafka.protocol.metadata import ApiVersionsRequest

from kafka_rebalance.admin.clients import open_kafka_python
from kafka_rebalance.errors import ReadError
from kafka_rebalance.model.connection import KafkaConnection

ApiVersions = dict[int, tuple[int, int]]  # key of the request -> oldest and newest version


def read_api_versions(kafka: KafkaConnection, brokers: Collection[int]) -> dict[int, ApiVersions]:
    """Each broker's answer to ApiVersions. Raises ReadError naming the broker.

    kafka-python's `get_broker_version_data` does not help: it cuts each answer down to what the first broker supports.
    """
    found: dict[int, ApiVersions] = {}
    with open_kafka_python(kafka) as client:
        for broker in brokers:
            try:
                answer = client._manager.run(_ask, client._manager, broker)
            except (KafkaError, OSError) as failed:
                raise ReadError(
                    f"Broker {broker} does not tell which requests it supports ({type(failed).__name__}). Check that "
                    "the broker is up and that this host can reach it."
                ) from failed
            found[broker] = {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys}
    return found


async def _ask(manager: Any, broker: int) -> Any:
    return await manager.send(ApiVersionsRequest(max_version=2), node_id=broker)
