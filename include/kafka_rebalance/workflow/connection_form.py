"""The connection forms of a cluster. Every Airflow process reads this at its start, so it imports nothing heavy."""

from __future__ import annotations

from typing import Any

WITH_ZOOKEEPER, WITH_ADMIN_API = "kafka_zookeeper", "kafka_admin_api"
_SOME_BROKERS = "host:port of some brokers, separated by commas."
_SECURITY_EXAMPLE = '{"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "…"}'
_METRICS_EXAMPLE = '{"url": "https://prometheus:9090", "bytes_in": "sum by (topic) (rate(…[1h]))", "token": "…"}'
_CAPACITIES_EXAMPLE = '{"1": {"disk_bytes": 4000000000000, "nic_in_bytes_per_second": 1250000000}}'


def get_provider_info() -> dict[str, Any]:
    """The entry point `apache_airflow_provider`. It is metadata, so the forms need neither a hook nor its clients.

    The forms' fields are those that the hooks read. The keys follow Airflow's `provider_info.schema.json`.
    """
    return {
        "package-name": "kafka-rebalance",
        "name": "Kafka rebalance",
        "description": "Rebalances Kafka clusters after a person's approval.",
        "connection-types": [
            {
                "connection-type": WITH_ZOOKEEPER,
                "hook-name": "Kafka (ZooKeeper mode)",
                "hook-class-name": "kafka_rebalance.workflow.hooks.KafkaClusterHook",
                "ui-field-behaviour": {
                    "hidden-fields": ["schema", "port", "extra"],
                    "relabeling": {
                        "host": "ZooKeeper connect string",
                        "login": "ZooKeeper digest user",
                        "password": "ZooKeeper digest password",
                    },
                    "placeholders": {"host": "zk1:2181,zk2:2181,zk3:2181/kafka"},
                },
                "conn-fields": {
                    "bootstrap_servers": _text("Bootstrap servers", _SOME_BROKERS),
                    **_kafka_fields(),
                    "zookeeper_secret_config": _text(
                        "ZooKeeper TLS (JSON)",
                        "use_ssl, verify_certs, ca, certfile, keyfile, keyfile_password, check_hostname.",
                        secret=True,
                    ),
                    "session_timeout_seconds": {
                        "label": "ZooKeeper session timeout (s)",
                        "description": "After how many seconds ZooKeeper ends a silent session.",
                        "schema": {"type": ["number", "null"], "default": 10, "minimum": 1, "maximum": 3600},
                    },
                },
            },
            {
                "connection-type": WITH_ADMIN_API,
                "hook-name": "Kafka (Admin API)",
                "hook-class-name": "kafka_rebalance.workflow.hooks.AdminApiHook",
                "ui-field-behaviour": {
                    "hidden-fields": ["schema", "port", "login", "password", "extra"],
                    "relabeling": {"host": "Bootstrap servers"},
                    "placeholders": {"host": "broker1:9092,broker2:9092"},
                },
                "conn-fields": _kafka_fields(),
            },
        ],
    }


def _kafka_fields() -> dict[str, Any]:
    """The fields of both types."""
    return {
        "expected_cluster_id": _text(
            "Expected cluster id",
            "If given, a run refuses a cluster with another id. This protects against a wrong address.",
        ),
        "kafka_secret_config": _text(
            "Kafka security (JSON)",
            "security.protocol, sasl.* and ssl.*, as librdkafka names them. For example: " + _SECURITY_EXAMPLE,
            secret=True,
        ),
        "broker_capacities": _text(
            "Broker capacities (JSON)",
            "By broker id: disk_bytes, nic_in_bytes_per_second, nic_out_bytes_per_second. Without them "
            "brokers count as equal, and headroom is unknown. For example: " + _CAPACITIES_EXAMPLE,
        ),
        "metrics_secret_config": _text(
            "Metrics server (JSON)",
            "Bytes in of each topic from a server with Prometheus' HTTP API: url, bytes_in, network_use, "
            "produce_latency, ca, certfile, keyfile, keyfile_password, token, username, password. For example: "
            + _METRICS_EXAMPLE,
            secret=True,
        ),
    }


def _text(label: str, description: str, *, secret: bool = False) -> dict[str, Any]:
    """A text field; a secret one is masked in the form (`format: password`)."""
    schema: dict[str, Any] = {"type": ["string", "null"]}
    if secret:
        schema["format"] = "password"
    return {"label": label, "description": description, "schema": schema}
