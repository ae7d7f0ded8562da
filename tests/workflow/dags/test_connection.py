"""The Airflow connection of a cluster: what Airflow gives reaches the clients."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.sdk import Connection

from kafka_rebalance.errors import ConnectionSettingsError
from kafka_rebalance.model.connection import cluster_connection
from kafka_rebalance.workflow.hooks import read_connection

SECRET = "hunter2-s3cret"


def connection(**changes: Any) -> Connection:
    extra = {"bootstrap_servers": "b1:9092,b2:9092", **changes.pop("extra", {})}
    fields = {"conn_id": "prod", "conn_type": "kafka_zookeeper", "host": "zk1:2181,zk2:2181/kafka", **changes}
    return Connection(**fields, extra=json.dumps(extra))


LOGIN = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "rebalancer",
    "sasl.password": SECRET,
}


def test_hosts_keep_their_chroot_and_secrets_reach_the_clients() -> None:
    got = cluster_connection(
        connection(
            login="rebalancer",
            password=SECRET,
            extra={
                "expected_cluster_id": "abc",
                "kafka_secret_config": json.dumps(LOGIN),
                "broker_capacities": {"1": {"disk_bytes": 10**12}},
            },
        )
    )
    assert got.zookeeper.hosts == "zk1:2181,zk2:2181/kafka"
    assert got.zookeeper.sasl_options == {"mechanism": "DIGEST-MD5", "username": "rebalancer", "password": SECRET}
    assert got.kafka.security["sasl.password"] == SECRET
    assert got.expected_cluster_id == "abc"
    assert got.capacities[1].disk_bytes == 10**12


def test_a_missing_connection_says_where_to_make_one() -> None:
    with pytest.raises(ConnectionSettingsError, match="There is no Airflow connection 'nowhere'"):
        read_connection("nowhere")
