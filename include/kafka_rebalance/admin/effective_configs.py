"""Effective configs of brokers. ZooKeeper has only the dynamic ones, and never what is in server.properties."""

from __future__ import annotations

import logging
from collections.abc import Collection

from confluent_kafka import KafkaException
from confluent_kafka.admin import ConfigResource, ConfigSource

from kafka_rebalance.admin.clients import REQUEST_SECONDS, open_admin, reason_of, unread
from kafka_rebalance.errors import ReadError
from kafka_rebalance.model.configs import ConfigValue
from kafka_rebalance.model.connection import KafkaConnection

log = logging.getLogger(__name__)


def read_effective_configs(
    kafka: KafkaConnection, brokers: Collection[int], *, of_the_rest: bool = False
) -> dict[int, dict[str, ConfigValue]]:
    """What applies on each broker now, by key, without sensitive values. Raises ReadError naming the broker.

    `of_the_rest`: a broker that does not answer is logged and absent, as long as another one answers.
    """
    admin = open_admin(kafka)
    # Each broker answers only for itself. So all requests go out before the first answer is awaited.
    resources = {broker: ConfigResource(ConfigResource.Type.BROKER, str(broker)) for broker in brokers}
    asked = {
        broker: admin.describe_configs([resource], request_timeout=REQUEST_SECONDS)[resource]
        for broker, resource in resources.items()
    }
    configs: dict[int, dict[str, ConfigValue]] = {}
    silent: ReadError | None = None
    for broker, answer in asked.items():
        try:
            entries = answer.result(REQUEST_SECONDS + 5)
        except (KafkaException, TimeoutError) as failed:
            silent = unread(
                failed,
                f"Broker {broker} does not tell its configs ({reason_of(failed)}). Check that the broker is up and "
                "that the Kafka user may describe the configs of the cluster: it needs DescribeConfigs on the cluster.",
            )
            if not of_the_rest:
                raise silent from failed
            log.warning("%s", silent)
            continue
        configs[broker] = {
            entry.name: ConfigValue(entry.value, ConfigSource(entry.source).name)
            for entry in entries.values()
            if not entry.is_sensitive
        }
    if silent is not None and not configs:
        raise silent
    return configs
