"""Which versions of Kafka's requests each broker speaks: what tells its software apart from that of others."""

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
    """What each broker answers to ApiVersions. Raises ReadError naming the broker.

    kafka-python's own `get_broker_version_data` is of no use here: it cuts what a broker speaks down to what the first
    one did.
    """
    found: dict[int, ApiVersions] = {}
    with open_kafka_python(kafka) as client:
        for broker in brokers:
            try:
                answer = client._manager.run(_ask, client._manager, broker)
            except (KafkaError, OSError) as failed:
                raise ReadError(
                    f"Broker {broker} does not tell which requests it speaks ({type(failed).__name__}). Check that it "
                    "is up and can be reached from here."
                ) from failed
            found[broker] = {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys}
    return found


async def _ask(manager: Any, broker: int) -> Any:
    return await manager.send(ApiVersionsRequest(max_version=2), node_id=broker)
