"""How to reach one cluster: the checked content of the Airflow connection. A repr shows no secret."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from kafka_rebalance.errors import ConnectionSettingsError
from kafka_rebalance.model.finding import listed

WITH_ZOOKEEPER, WITH_ADMIN_API = CONNECTION_TYPES = "kafka_zookeeper", "kafka_admin_api"
_EXTRAS = ("expected_cluster_id", "kafka_secret_config", "broker_capacities", "metrics_secret_config")
EXTRAS = {
    WITH_ZOOKEEPER: ("bootstrap_servers", *_EXTRAS, "zookeeper_secret_config", "session_timeout_seconds"),
    WITH_ADMIN_API: _EXTRAS,
}
_SOME_BROKERS = "it must hold host:port of some brokers, separated by commas"
_CAPACITIES = ("disk_bytes", "nic_in_bytes_per_second", "nic_out_bytes_per_second")
_BEYOND_ANY_BROKER = 2**63  # bytes, or bytes a second; Python's JSON parser accepts Infinity and NaN, too
_LONGEST_SESSION, _TEXTS = 3600, ("host", "schema", "login", "password")  # seconds; fields of a connection

# Kafka's client properties that both client libraries know, in librdkafka's names.
PROTOCOL, MECHANISM, USERNAME, PASSWORD = "security.protocol", "sasl.mechanism", "sasl.username", "sasl.password"
KEY_PASSWORD, HOST_CHECK = "ssl.key.password", "ssl.endpoint.identification.algorithm"


class Pem(NamedTuple):
    """The settings of one PEM document: its file, or its text."""

    file: str
    text: str

    @property
    def names(self) -> tuple[str, str]:
        return self.file, self.text


TRUSTED, CERTIFICATE, KEY = (Pem(f"ssl.{name}.location", f"ssl.{name}.pem") for name in ("ca", "certificate", "key"))
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_WITH_LOGIN, _WITH_TLS = ("SASL_PLAINTEXT", "SASL_SSL"), ("SSL", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_ALIAS = "sasl.mechanisms"  # librdkafka's older name
_LOGIN_KEYS = (MECHANISM, USERNAME, PASSWORD)
_CERTIFICATE_KEYS = (*TRUSTED.names, *CERTIFICATE.names, *KEY.names, KEY_PASSWORD, HOST_CHECK, "ssl.crl.location")
_SECURITY = (PROTOCOL, *_LOGIN_KEYS, *_CERTIFICATE_KEYS)
_HOST_CHECKS = ("https", "none")
# In OpenSSL's names of what the other side says.
_ABOUT_CERTIFICATES = ("CERTIFICATE", "UNKNOWN_CA", "HANDSHAKE_FAILURE", "DECRYPT_ERROR", "ACCESS_DENIED")
_TLS_FLAGS = ("use_ssl", "verify_certs", "check_hostname")
_TLS_KEYS = (*_TLS_FLAGS, "ca", "certfile", "keyfile", "keyfile_password")
_VISIBLE = re.compile("[!-~]+")  # ASCII without spaces: what a header and a path take
_METRICS_TLS = ("ca", "certfile", "keyfile", "keyfile_password")
_METRICS_KEYS = ("url", "bytes_in", "network_use", "produce_latency", *_METRICS_TLS, "token", "username", "password")


@dataclass(frozen=True, slots=True)
class ZooKeeperConnection:
    """`hosts` is ZooKeeper's connect string with its chroot: `zk1:2181,zk2:2181/kafka`."""

    hosts: str
    sasl_options: Mapping[str, str] = field(default_factory=dict, repr=False)  # kazoo's: mechanism, username, password
    tls_options: Mapping[str, object] = field(default_factory=dict, repr=False)  # kazoo's: use_ssl, ca, certfile, ...
    session_timeout_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class KafkaConnection:
    """`security` has librdkafka's names: `security.protocol`, `sasl.mechanism`, `sasl.username`, `ssl.ca.location`."""

    bootstrap_servers: str
    security: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def has_login(self) -> bool:
        return self.security.get(PROTOCOL) in _WITH_LOGIN

    @property
    def has_tls(self) -> bool:
        return self.security.get(PROTOCOL) in _WITH_TLS

    def without_secrets(self, text: str) -> str:
        """What a client or a broker says, even if it quotes a password."""
        for secret in (self.security.get(PASSWORD), self.security.get(KEY_PASSWORD)):
            text = text.replace(secret, "***") if secret else text
        return text


@dataclass(frozen=True, slots=True)
class BrokerCapacity:
    """What an operator states about one broker; None: unknown."""

    disk_bytes: int | None = None
    nic_in_bytes_per_second: float | None = None
    nic_out_bytes_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class MetricsServer:
    """A server with Prometheus' HTTP API, and queries: for the bytes in a second of each topic, and for what a run with
    a range of rates looks at.
    """

    url: str  # without /api/v1
    bytes_in: str
    network_use: str | None = None  # of each broker, as a share of its network; None: not looked at
    produce_latency: str | None = None  # of each broker, in seconds; None: not looked at
    ca: str | None = None  # a file of trusted certificates; None: the machine's own
    certfile: str | None = None  # PEM: the certificate that this side shows, with its chain
    keyfile: str | None = None
    keyfile_password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    username: str | None = None
    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class ClusterConnection:
    """One Airflow connection: to a cluster with ZooKeeper, or through Kafka's Admin API to one without."""

    connection_id: str
    its_zookeeper: ZooKeeperConnection | None
    kafka: KafkaConnection
    expected_cluster_id: str | None = None
    capacities: Mapping[int, BrokerCapacity] = field(default_factory=dict)
    metrics: MetricsServer | None = None

    @property
    def has_zookeeper(self) -> bool:
        return self.its_zookeeper is not None

    @property
    def zookeeper(self) -> ZooKeeperConnection:
        """Raises ConnectionSettingsError if the cluster has none."""
        if self.its_zookeeper is None:
            raise ConnectionSettingsError(
                f"The connection {self.connection_id!r} is for a cluster without ZooKeeper, and this needs ZooKeeper. "
                "Only elect_controller, and cancelling below Kafka 2.4, need it."
            )
        return self.its_zookeeper


def certificate_problem(failed: BaseException) -> str | None:
    """What one side says of the other's certificate in a TLS handshake; None if it fails for another reason."""
    if isinstance(failed, ssl.SSLCertVerificationError):
        return failed.verify_message
    reason = (failed.reason or "") if isinstance(failed, ssl.SSLError) else ""
    return reason if any(name in reason for name in _ABOUT_CERTIFICATES) else None


class ConnectionFields(Protocol):
    conn_id: str
    conn_type: str
    host: str | None
    port: int | None
    schema: str | None
    login: str | None
    password: str | None

    @property
    def extra_dejson(self) -> Any: ...


def cluster_connection(connection: ConnectionFields) -> ClusterConnection:
    """The checked connection. Raises ConnectionSettingsError, which names each wrong field, and never a password."""
    problems: list[str] = []
    extra: Any = None
    with suppress(ValueError, RecursionError):  # Airflow parses it when it is read
        extra = connection.extra_dejson or {}
    if not isinstance(extra, Mapping):
        problems.append("extra is not a JSON object")
        extra = {}
    if wrong := [name for name in _TEXTS if not isinstance(getattr(connection, name), str | None)]:
        problems.append(f"{listed(wrong)} must be a text")
    if connection.conn_type not in CONNECTION_TYPES:
        problems.append(f"its type is {connection.conn_type!r}, not {' or '.join(map(repr, CONNECTION_TYPES))}")
    fields = EXTRAS[WITH_ADMIN_API if connection.conn_type == WITH_ADMIN_API else WITH_ZOOKEEPER]
    unknown = sorted(ascii(name)[1:-1] for name in set(extra) - set(fields))
    if unknown:
        problems.append(f"extra has unknown fields {listed(unknown)}; fields are {listed(fields)}")
    read_addresses = _without_zookeeper if connection.conn_type == WITH_ADMIN_API else _with_zookeeper
    zookeeper, bootstrap = read_addresses(connection, extra, problems)
    schemes = sorted(set(re.findall(r"(?:^|,)\s*([^,/]*://)", f"{_host(connection)},{bootstrap}")))
    problems += [f"leave out {scheme} before a host: clients would dial it as if it were one" for scheme in schemes]
    expected = _text(extra, "expected_cluster_id", problems)
    security = _security(_object(extra, "kafka_secret_config", problems), problems)
    capacities = _capacities(_object(extra, "broker_capacities", problems), problems)
    metrics = _metrics_server(_object(extra, "metrics_secret_config", problems), problems)
    if problems:
        raise ConnectionSettingsError(
            f"The connection {connection.conn_id!r} cannot be used: {'; '.join(problems)}. "
            "Correct it under Admin, Connections."
        )
    return ClusterConnection(
        connection_id=connection.conn_id,
        its_zookeeper=zookeeper,
        kafka=KafkaConnection(bootstrap, security),
        expected_cluster_id=expected or None,
        capacities=capacities,
        metrics=metrics,
    )


def _with_zookeeper(
    connection: ConnectionFields, extra: Mapping[str, Any], problems: list[str]
) -> tuple[ZooKeeperConnection, str]:
    """(ZooKeeper, bootstrap servers)"""
    hosts, bootstrap = _host(connection), _text(extra, "bootstrap_servers", problems)
    if not hosts:
        problems.append("host is empty: it must hold ZooKeeper's connect string, as in zk1:2181,zk2:2181/kafka")
    if not bootstrap:
        problems.append(f"extra field bootstrap_servers is empty: {_SOME_BROKERS}")
    tls = _object(extra, "zookeeper_secret_config", problems)
    if unknown := sorted(set(tls) - set(_TLS_KEYS)):
        problems.append(f"zookeeper_secret_config has unknown keys {listed(unknown)}; keys are {listed(_TLS_KEYS)}")
    wrong = sorted(key for key in _TLS_FLAGS if not isinstance(tls.get(key, False), bool))
    if wrong:
        problems.append(f"zookeeper_secret_config: {listed(wrong)} must be true or false")
    problems += [f"zookeeper_secret_config: {text}" for text in _tls_problems(tls)]
    if tls.get("use_ssl") and tls.get("verify_certs", True):
        tls = {"check_hostname": True, **tls}
    timeout = extra.get("session_timeout_seconds")
    timeout = 10 if timeout in (None, "") else timeout
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout <= _LONGEST_SESSION:
        problems.append(f"session_timeout_seconds must be a positive number, at most {_LONGEST_SESSION}")
        timeout = 10
    if bool(connection.login) != bool(connection.password):
        problems.append("login and password (ZooKeeper's digest user) must be given together")
    sasl = {}
    if connection.login and connection.password:
        sasl = {"mechanism": "DIGEST-MD5", "username": connection.login, "password": connection.password}
    return ZooKeeperConnection(hosts, sasl, tls, float(timeout)), bootstrap


def _tls_problems(tls: Mapping[str, Any]) -> Iterator[str]:
    """Of kazoo, which ignores what has no effect."""
    if not tls.get("use_ssl") and (unused := sorted(set(tls) & set(_TLS_KEYS) - {"use_ssl"})):
        yield f"{listed(unused)} has no effect without use_ssl: true"
    if bool(tls.get("certfile")) != bool(tls.get("keyfile")):
        yield "certfile and keyfile must be given together"
    if tls.get("check_hostname") and not tls.get("verify_certs", True):
        yield "check_hostname needs verify_certs"


def _without_zookeeper(connection: ConnectionFields, extra: Mapping[str, Any], problems: list[str]) -> tuple[None, str]:
    """(no ZooKeeper, bootstrap servers)"""
    bootstrap = _host(connection)
    if not bootstrap:
        problems.append(f"host is empty: {_SOME_BROKERS}")
    if connection.login or connection.password:
        problems.append("login and password are not used here: kafka_secret_config holds the user of Kafka")
    return None, bootstrap


def _host(connection: ConnectionFields) -> str:
    """The host, with its port and path. Airflow splits these off in connections given as URIs, but not as JSON."""
    host = connection.host.strip() if isinstance(connection.host, str) else ""
    if host and connection.port and ":" not in host:
        host = f"{host}:{connection.port}"
    if host and connection.schema and "/" not in host:
        host = f"{host}/{connection.schema}"
    return host


def _text(extra: Mapping[str, Any], field: str, problems: list[str]) -> str:
    """A field that holds a text; empty if it is not set."""
    value = extra.get(field)
    if value is not None and not isinstance(value, str):
        problems.append(f"{field} must be a text")
    return value.strip() if isinstance(value, str) else ""


def _object(extra: Mapping[str, Any], field: str, problems: list[str]) -> dict[str, Any]:
    """A field that holds an object, or its JSON text, which the form saves. No error shows its content."""
    value = extra.get(field)
    if value in (None, ""):
        return {}
    if isinstance(value, str) and value.strip():
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            problems.append(f"{field} is not JSON")
            return {}
    if isinstance(value, dict):
        return value
    problems.append(f"{field} must be a JSON object")
    return {}


def _security(given: Mapping[str, Any], problems: list[str]) -> dict[str, str]:
    """The security settings. No problem shows a value."""

    def problem(text: str) -> None:
        problems.append(f"kafka_secret_config: {text}")

    security = {MECHANISM if key == _ALIAS else key: value for key, value in given.items()}
    if {MECHANISM, _ALIAS} <= given.keys():
        problem(f"{MECHANISM} and {_ALIAS} are one setting")
    if unknown := sorted(security.keys() - set(_SECURITY)):
        problem(f"unknown keys {listed(unknown)}; keys are {listed(_SECURITY)}")
    if wrong := sorted(key for key, value in security.items() if not isinstance(value, str)):
        problem(f"{listed(wrong)} must be a text")
        return {}
    for key in (PROTOCOL, MECHANISM):
        if key in security:
            security[key] = security[key].strip().upper()
    protocol = security.get(PROTOCOL, PROTOCOLS[0])
    if protocol not in PROTOCOLS:
        problem(f"{PROTOCOL} must be one of {listed(PROTOCOLS)}")
        return {}
    for keys, protocols in ((_LOGIN_KEYS, _WITH_LOGIN), (_CERTIFICATE_KEYS, _WITH_TLS)):
        if protocol not in protocols and (unused := [key for key in keys if security.get(key)]):
            problem(f"{listed(unused)} has no effect with {PROTOCOL} {protocol}; it needs {' or '.join(protocols)}")
    if protocol in _WITH_LOGIN:
        if security.get(MECHANISM) not in MECHANISMS:
            problem(f"{MECHANISM} must be one of {listed(MECHANISMS)}")
        if missing := [key for key in (USERNAME, PASSWORD) if not security.get(key)]:
            problem(f"{listed(missing)} is empty")
    if HOST_CHECK in security:
        security[HOST_CHECK] = security[HOST_CHECK].lower() or "none"  # Kafka's own clients have an empty text for it
    _check_pem(security, problem)
    return {key: value for key, value in security.items() if value}


def _check_pem(security: Mapping[str, str], problem: Callable[[str], None]) -> None:
    for part in (TRUSTED, CERTIFICATE, KEY):
        if security.get(part.file) and security.get(part.text):
            problem(f"give {part.file} or {part.text}, not both")
        if security.get(part.text) and "-----BEGIN " not in security[part.text]:
            problem(f"{part.text} must be a PEM text, which begins with -----BEGIN")
    has_certificate, has_key = (any(security.get(name) for name in part.names) for part in (CERTIFICATE, KEY))
    if has_certificate != has_key:
        problem(f"a client's certificate needs both {CERTIFICATE.file} and {KEY.file}")
    if security.get(KEY_PASSWORD) and not has_key:
        problem(f"{KEY_PASSWORD} is given, but no {KEY.file}")
    if security.get(HOST_CHECK, "https") not in _HOST_CHECKS:
        problem(f"{HOST_CHECK} must be https or none")


def _capacities(given: Mapping[str, Any], problems: list[str]) -> dict[int, BrokerCapacity]:
    capacities = {}
    for broker, values in given.items():
        if (
            not str(broker).isdecimal()
            or not isinstance(values, dict)
            or not set(values) <= set(_CAPACITIES)
            or not all(type(value) in (int, float) and 0 < value < _BEYOND_ANY_BROKER for value in values.values())
        ):
            problems.append(
                f"broker_capacities[{broker!r}] must be {{{listed(_CAPACITIES)}}} of a broker id, positive numbers"
            )
            continue
        whole = {"disk_bytes": int(values["disk_bytes"])} if "disk_bytes" in values else {}
        capacities[int(broker)] = BrokerCapacity(**values | whole)
    return capacities


def _metrics_server(given: Mapping[str, Any], problems: list[str]) -> MetricsServer | None:
    """None if no server is named. No problem shows a value."""
    wrong = [f"metrics_secret_config: {text}" for text in _metrics_problems(given)] if given else []
    problems += wrong
    return MetricsServer(**{**given, "url": given["url"].rstrip("/")}) if given and not wrong else None


def _metrics_problems(given: Mapping[str, Any]) -> Iterator[str]:
    if unknown := sorted(set(given) - set(_METRICS_KEYS)):
        yield f"unknown keys {listed(unknown)}; keys are {listed(_METRICS_KEYS)}"
    if wrong := sorted(key for key, value in given.items() if not isinstance(value, str) or not value.strip()):
        yield f"{listed(wrong)} must be a text that is not empty"
        return
    if missing := [key for key in ("url", "bytes_in") if key not in given]:
        yield f"{listed(missing)} is missing"
        return
    try:
        url = urlsplit(given["url"])
        is_server = url.scheme in ("http", "https") and url.hostname and url.port != 0
    except ValueError:  # a port that is none
        is_server = False
    if not is_server or not _VISIBLE.fullmatch(given["url"]) or "@" in url.netloc or url.query or url.fragment:
        yield "url must be http:// or https:// with a host, and without user, password and query"
        return
    if url.scheme != "https" and (unused := [key for key in _METRICS_TLS if key in given]):
        yield f"{listed(unused)} has no effect with http"
    if ("certfile" in given) != ("keyfile" in given):
        yield "certfile and keyfile must be given together"
    if "keyfile_password" in given and "keyfile" not in given:
        yield "keyfile_password has no effect without keyfile"
    if ("username" in given) != ("password" in given):
        yield "username and password must be given together"
    if "token" in given and "username" in given:
        yield "give token, or username and password"
    if not _VISIBLE.fullmatch(given.get("token", "-")) or ":" in given.get("username", ""):
        yield "token must be printable ASCII without spaces, and username must have no colon"
