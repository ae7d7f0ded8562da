"""The fields of a cluster's connection: checked once, and never quoted with their secrets."""

from __future__ import annotations

import json
import re
import ssl
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_rebalance.errors import ConnectionSettingsError
from kafka_rebalance.model.connection import certificate_problem, cluster_connection

SECRET = "hunter2-s3cret"


def connection(**changes: Any) -> SimpleNamespace:
    """As Airflow gives it."""
    extra = {"bootstrap_servers": "b1:9092,b2:9092", **changes.pop("extra", {})}
    fields = {
        "conn_id": "prod",
        "conn_type": "kafka_zookeeper",
        "host": "zk1:2181,zk2:2181/kafka",
        "extra_dejson": extra,
    }
    return SimpleNamespace(**dict.fromkeys(("port", "schema", "login", "password")) | fields | changes)


@pytest.mark.parametrize(
    ("given", "hosts"),
    [
        ({}, "zk1:2181,zk2:2181/kafka"),
        ({"host": "zk1", "port": 2181, "schema": "kafka"}, "zk1:2181/kafka"),
        ({"host": "zk1"}, "zk1"),
    ],
)
def test_a_host_that_was_split_like_a_uri_is_put_together(given: dict[str, Any], hosts: str) -> None:
    assert cluster_connection(connection(**given)).zookeeper.hosts == hosts


def test_a_secret_is_in_no_repr() -> None:
    kafka = {"security.protocol": "SASL_SSL", **LOGIN, "ssl.key.password": SECRET, "ssl.key.pem": PEM}
    zookeeper = {"use_ssl": True, "certfile": "/c.pem", "keyfile": "/k.pem", "keyfile_password": SECRET}
    extra = {"kafka_secret_config": {**kafka, "ssl.certificate.pem": PEM}, "zookeeper_secret_config": zookeeper}
    assert SECRET not in repr(cluster_connection(connection(login="rebalancer", password=SECRET, extra=extra)))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"host": ""}, "host is empty"),
        ({"conn_type": "http"}, "its type is 'http'"),
        ({"extra": {"bootstrap_servers": ""}}, "bootstrap_servers is empty"),
        ({"extra": {"kafka_secret_config": "{nonsense"}}, "kafka_secret_config is not JSON"),
        ({"extra": {"kafka_secret_config": "[1]"}}, "kafka_secret_config must be a JSON object"),
        (
            {"extra": {"zookeeper_secret_config": {"insecure": True}}},
            "zookeeper_secret_config has unknown keys insecure",
        ),
        ({"extra": {"broker_capacities": {"1": {"disk_bytes": -1}}}}, "broker_capacities['1']"),
        ({"extra": {"broker_capacities": {"one": {}}}}, "broker_capacities['one']"),
        ({"extra": {"session_timeout_seconds": -2}}, "session_timeout_seconds must be a positive number"),
        ({"extra": {"session_timeout_seconds": float("inf")}}, "session_timeout_seconds must be a positive number"),
        ({"extra": {"session_timeout_seconds": float("nan")}}, "session_timeout_seconds must be a positive number"),
        ({"extra": {"session_timeout_seconds": False}}, "session_timeout_seconds must be a positive number"),
        ({"extra": {"broker_capacities": {"1": {"disk_bytes": float("inf")}}}}, "broker_capacities['1']"),
        ({"extra": {"broker_capacities": {"1": {"nic_in_bytes_per_second": 1e300}}}}, "broker_capacities['1']"),
        ({"extra": {"bootstrap_servers": ["b1:9092"]}}, "bootstrap_servers must be a text"),
        ({"extra": {"expected_cluster_id": 0}}, "expected_cluster_id must be a text"),
        ({"extra": {"zookeeper_secret_config": {"use_ssl": "false"}}}, "use_ssl must be true or false"),
        ({"extra": {"zookeeper_secret_config": {"ca": "/ca.pem"}}}, "ca has no effect without use_ssl: true"),
        (
            {"extra": {"zookeeper_secret_config": {"use_ssl": True, "certfile": "/c.pem"}}},
            "certfile and keyfile must be given together",
        ),
        (
            {"extra": {"zookeeper_secret_config": {"use_ssl": True, "check_hostname": True, "verify_certs": False}}},
            "check_hostname needs verify_certs",
        ),
        ({"extra_dejson": [1]}, "extra is not a JSON object"),
        ({"extra": {"bootstrap": "b1:9092"}}, "unknown fields bootstrap"),
        ({"login": "rebalancer"}, "login and password"),
        ({"host": "zookeeper://zk1:2181/kafka"}, "leave out zookeeper:// before a host"),
        ({"host": "zk1:2181, https://u:hunter2-s3cret@zk2:2181"}, "leave out https:// before a host"),
        ({"extra": {"bootstrap_servers": "PLAINTEXT://b1:9092,SSL://b2:9093"}}, "leave out SSL:// before a host"),
        ({"host": 5}, "host must be a text"),
        ({"conn_type": {"a": 1}}, "its type is {'a': 1}"),
        ({"login": ["a"], "password": {"b": 1}}, "login, password must be a text"),
    ],
)
def test_what_is_wrong_is_named_with_the_connection(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ConnectionSettingsError) as caught:
        cluster_connection(connection(**changes))
    assert named in str(caught.value)
    assert "'prod'" in str(caught.value)


LOGIN = {"sasl.mechanism": "PLAIN", "sasl.username": "rebalancer", "sasl.password": SECRET}
PEM = f"-----BEGIN {SECRET}"


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"ssl.keystore.location": "/etc/store.p12"}, "unknown keys ssl.keystore.location; keys are security.protocol"),
        ({"enable.ssl.certificate.verification": False}, "unknown keys enable.ssl.certificate.verification"),
        ({"security.protocol": "SASL"}, "security.protocol must be one of PLAINTEXT, SSL"),
        ({"security.protocol": "SASL_SSL", **LOGIN, "sasl.mechanism": "GSSAPI"}, "sasl.mechanism must be one of PLAIN"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "sasl.username, sasl.password is empty"),
        ({"security.protocol": "SSL", **LOGIN}, "sasl.password has no effect with security.protocol SSL"),
        (LOGIN, "sasl.password has no effect with security.protocol PLAINTEXT; it needs SASL_PLAINTEXT or SASL_SSL"),
        ({"security.protocol": "SASL_PLAINTEXT", **LOGIN, "ssl.ca.location": "/ca"}, "ssl.ca.location has no effect"),
        ({"sasl.mechanisms": "PLAIN", **LOGIN}, "sasl.mechanism and sasl.mechanisms are one setting"),
        ({"security.protocol": "SSL", "ssl.ca.location": "/ca", "ssl.ca.pem": PEM}, "ssl.ca.location or ssl.ca.pem"),
        ({"security.protocol": "SSL", "ssl.ca.pem": SECRET}, "ssl.ca.pem must be a PEM text"),
        ({"security.protocol": "SSL", "ssl.certificate.pem": PEM}, "needs both ssl.certificate.location and ssl.key"),
        ({"security.protocol": "SSL", "ssl.key.location": "/key"}, "needs both ssl.certificate.location and ssl.key"),
        (
            {"security.protocol": "SSL", "ssl.key.password": SECRET},
            "ssl.key.password is given, but no ssl.key.location",
        ),
        ({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "no"}, "must be https or none"),
        ({"sasl.password": None}, "sasl.password must be a text"),
    ],
)
def test_what_a_kafka_client_does_not_take_is_named_at_once(given: dict[str, Any], named: str) -> None:
    with pytest.raises(ConnectionSettingsError) as caught:
        cluster_connection(connection(extra={"kafka_secret_config": given}))
    assert named in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("host_check", ["", "none", "NONE"])
def test_names_and_words_of_other_clients_mean_the_same(host_check: str) -> None:
    given = {
        "security.protocol": "sasl_ssl",
        "sasl.mechanisms": "scram-sha-512",
        "sasl.username": "rebalancer",
        "sasl.password": SECRET,
        "ssl.endpoint.identification.algorithm": host_check,
    }
    assert cluster_connection(connection(extra={"kafka_secret_config": given})).kafka.security == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "rebalancer",
        "sasl.password": SECRET,
        "ssl.endpoint.identification.algorithm": "none",
    }


def test_zookeepers_host_name_is_checked_unless_the_connection_says_otherwise() -> None:
    def options(**given: Any) -> Any:
        return cluster_connection(connection(extra={"zookeeper_secret_config": given})).zookeeper.tls_options

    assert options(use_ssl=True) == {"use_ssl": True, "check_hostname": True}
    assert options(use_ssl=True, check_hostname=False)["check_hostname"] is False
    assert "check_hostname" not in options(use_ssl=True, verify_certs=False)


def test_an_error_about_secrets_does_not_quote_them() -> None:
    with pytest.raises(ConnectionSettingsError) as caught:
        cluster_connection(
            connection(host="", password=SECRET, extra={"kafka_secret_config": f'{{"sasl.password": "{SECRET}"'})
        )
    assert SECRET not in str(caught.value)


def without_zookeeper(**changes: Any) -> SimpleNamespace:
    fields = {"conn_type": "kafka_admin_api", "host": "b1:9092,b2:9092", "extra_dejson": changes.pop("extra", {})}
    return connection(**fields | changes)


def test_a_cluster_without_zookeeper_has_bootstrap_servers_alone() -> None:
    given = {"kafka_secret_config": {"security.protocol": "SSL"}, "expected_cluster_id": "4L6g3nShT-eMCtK--X86sw"}
    got = cluster_connection(without_zookeeper(extra=given))
    assert not got.has_zookeeper
    assert (got.kafka.bootstrap_servers, got.kafka.security) == ("b1:9092,b2:9092", {"security.protocol": "SSL"})
    assert got.expected_cluster_id == "4L6g3nShT-eMCtK--X86sw"
    with pytest.raises(
        ConnectionSettingsError, match=r"'prod' is for a cluster without ZooKeeper.*Only elect_controller"
    ):
        _ = got.zookeeper


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"host": ""}, "host is empty: it must hold host:port of some brokers"),
        ({"extra": {"bootstrap_servers": "b1:9092"}}, "unknown fields bootstrap_servers"),
        ({"extra": {"zookeeper_secret_config": {}}}, "unknown fields zookeeper_secret_config"),
        ({"login": "rebalancer", "password": SECRET}, "login and password are not used here"),
    ],
)
def test_what_is_wrong_without_zookeeper_is_named(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ConnectionSettingsError) as caught:
        cluster_connection(without_zookeeper(**changes))
    assert named in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("reason", "problem"),
    [
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "TLSV13_ALERT_CERTIFICATE_REQUIRED"),
        ("TLSV1_ALERT_UNKNOWN_CA", "TLSV1_ALERT_UNKNOWN_CA"),
        ("UNEXPECTED_EOF_WHILE_READING", None),
        (None, None),
    ],
)
def test_a_handshake_that_breaks_off_is_no_problem_of_certificates(reason: str | None, problem: str | None) -> None:
    failed = ssl.SSLError(1, "handshake")
    failed.reason = reason
    assert certificate_problem(failed) == problem
    assert certificate_problem(ConnectionRefusedError()) is None


QUERY = "sum by (topic) (rate(kafka_server_brokertopicmetrics_bytesin_total[1h]))"
METRICS = {"url": "https://vm.example.org:8481/select/0/prometheus/", "bytes_in": QUERY}


def with_metrics(given: Any) -> Any:
    return cluster_connection(connection(extra={"metrics_secret_config": given})).metrics


def test_a_metrics_server_is_read_and_shows_no_secret() -> None:
    got = with_metrics({**METRICS, "ca": "/etc/ssl/ours.pem", "token": SECRET})
    assert (got.url, got.bytes_in) == ("https://vm.example.org:8481/select/0/prometheus", QUERY)
    assert (got.ca, got.token) == ("/etc/ssl/ours.pem", SECRET)
    assert SECRET not in repr(got)
    shown = with_metrics({**METRICS, "certfile": "/c.pem", "keyfile": "/k.pem", "keyfile_password": SECRET})
    assert (shown.certfile, shown.keyfile, shown.keyfile_password) == ("/c.pem", "/k.pem", SECRET)
    assert SECRET not in repr(shown)
    login = with_metrics(json.dumps({**METRICS, "username": "olive", "password": SECRET}))
    assert (login.username, login.password) == ("olive", SECRET)
    assert SECRET not in repr(login)
    assert with_metrics("") is None


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"bytes_out": QUERY}, "unknown keys bytes_out; keys are url, bytes_in, network_use, produce_latency, ca,"),
        ({"bytes_in": 7}, "bytes_in must be a text that is not empty"),
        ({"token": " "}, "token must be a text that is not empty"),
        ({"url": None}, "url is missing"),
        ({"url": "file:///etc/passwd"}, "url must be http:// or https://"),
        ({"url": "vm:8428"}, "url must be http:// or https://"),
        ({"url": "https://"}, "url must be http:// or https://"),
        ({"url": "http://vm:port"}, "url must be http:// or https://"),
        ({"url": f"https://olive:{SECRET}@vm"}, "without user, password and query"),
        ({"url": "https://vm/?x=1"}, "without user, password and query"),
        ({"url": "https://vm/a b"}, "url must be http:// or https://"),
        ({"url": "http://vm", "ca": "/ca.pem"}, "ca has no effect with http"),
        ({"url": "http://vm", "certfile": "/c.pem", "keyfile": "/k.pem"}, "certfile, keyfile has no effect with http"),
        ({"certfile": "/c.pem"}, "certfile and keyfile must be given together"),
        ({"keyfile_password": SECRET}, "keyfile_password has no effect without keyfile"),
        ({"username": "olive"}, "username and password must be given together"),
        ({"username": "olive", "password": SECRET, "token": SECRET}, "give token, or username and password"),
        ({"token": f"{SECRET}\r\nHost: x"}, "token must be printable ASCII"),
        ({"username": "o:live", "password": SECRET}, "username must have no colon"),
    ],
)
def test_what_is_wrong_with_a_metrics_server_is_named_without_its_secrets(changes: dict[str, Any], named: str) -> None:
    given = {key: value for key, value in {**METRICS, **changes}.items() if value is not None}
    with pytest.raises(ConnectionSettingsError, match=f"metrics_secret_config: .*{re.escape(named)}") as caught:
        with_metrics(given)
    assert SECRET not in str(caught.value)
