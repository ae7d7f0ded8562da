"""The Kafka settings of a connection, in librdkafka's names, as options of Spark's Kafka source.

The Java client has other names for them. It takes keys and certificates as text, so that no executor needs a file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from kafka_rebalance.documents.key_sample import KAFKA_CONFIG
from kafka_rebalance.errors import ConnectionSettingsError
from kafka_rebalance.model.finding import listed

# If no broker answers, the job ends after the second of these. With the defaults, and with Spark's three attempts, it
# would take minutes: in each attempt the client retries as long as it may.
TIMEOUTS = {
    "kafka.request.timeout.ms": "15000",
    "kafka.default.api.timeout.ms": "20000",
    "fetchOffset.numRetries": "1",
}

_BOOTSTRAP = "bootstrap.servers"
_PROTOCOL = "security.protocol"
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS = ("sasl.mechanism", "sasl.mechanisms")
_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_LOGIN = ("sasl.username", "sasl.password")
# librdkafka's setting for a PEM file: the Java client's setting for its content (KIP-651).
_PEM_FILES = {
    "ssl.ca.location": "ssl.truststore.certificates",
    "ssl.certificate.location": "ssl.keystore.certificate.chain",
    "ssl.key.location": "ssl.keystore.key",
}
# The same content, given as a text.
_PEM_TEXTS = {name.replace(".location", ".pem"): java for name, java in _PEM_FILES.items()}
_KEY_PASSWORD = "ssl.key.password"
_HOST_CHECK = "ssl.endpoint.identification.algorithm"
_KNOWN = (_BOOTSTRAP, _PROTOCOL, *_MECHANISMS, *_LOGIN, *_PEM_FILES, *_PEM_TEXTS, _KEY_PASSWORD, _HOST_CHECK)


def settings_of(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings in the JSON of the environment variable. Raises ConnectionSettingsError."""
    text = environment.get(KAFKA_CONFIG)
    if not text:
        raise _refused(
            f"The environment variable {KAFKA_CONFIG} is not set",
            "Set it for spark-submit, which starts the driver (client mode). It holds Kafka's client settings as JSON, "
            "in librdkafka's names",
        )
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    # Not with the parser's own text, which quotes the content.
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        raise _refused(f"The environment variable {KAFKA_CONFIG} is not a JSON object of texts", "Correct it")
    return given


def kafka_options(
    settings: Mapping[str, str], read_text: Callable[[str], str] = lambda name: Path(name).read_text("utf-8")
) -> dict[str, str]:
    """Options `kafka.*` of Spark's source. Raises ConnectionSettingsError, which names the setting, never its value."""
    unknown = sorted(settings.keys() - set(_KNOWN))
    if unknown:
        raise _refused(
            f"The Kafka setting {listed(unknown)} is not known for Spark's Java client",
            f"Remove it. Known settings are {listed(sorted(_KNOWN))}",
        )
    if not settings.get(_BOOTSTRAP):
        raise _refused(
            f"The Kafka setting {_BOOTSTRAP} is empty", "Name some brokers as host:port, separated by commas"
        )
    java = {_BOOTSTRAP: settings[_BOOTSTRAP]}
    protocol = settings.get(_PROTOCOL, "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise _refused(f"The Kafka setting {_PROTOCOL} is none of {listed(_PROTOCOLS)}", "Correct it")
    java[_PROTOCOL] = protocol
    if protocol.startswith("SASL"):
        java |= _sasl(settings)
    if protocol.endswith("SSL"):
        java |= _tls(settings, read_text)
    return {f"kafka.{name}": value for name, value in java.items()} | TIMEOUTS


def _sasl(settings: Mapping[str, str]) -> dict[str, str]:
    # librdkafka's default is GSSAPI, which needs a keytab on every executor.
    mechanism = next((settings[name] for name in _MECHANISMS if name in settings), "GSSAPI").upper()
    if mechanism not in _LOGIN_MODULES:
        raise _refused(
            f"The Kafka setting {_MECHANISMS[0]} is none of {listed(_LOGIN_MODULES)}",
            "Use one of these, which Spark's Kafka client supports here",
        )
    for name in _LOGIN:
        if not settings.get(name):
            raise _refused(f"The Kafka setting {name} is empty", f"Set it: {mechanism} needs it")
    username, password = (_quoted(settings[name]) for name in _LOGIN)
    return {
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"{_LOGIN_MODULES[mechanism]} required username={username} password={password};",
    }


def _quoted(value: str) -> str:
    """A value of a JAAS line, in quotes. java.io.StreamTokenizer reads it (JaasConfig).

    It ends a quote at a line break, and reads `\\` with three octal digits as one character.
    """
    special = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r"}
    return f'"{"".join(special.get(character, character) for character in value)}"'


def _tls(settings: Mapping[str, str], read_text: Callable[[str], str]) -> dict[str, str]:
    java = {java_name: settings[name] for name, java_name in _PEM_TEXTS.items() if settings.get(name)}
    for name, java_name in _PEM_FILES.items():
        if settings.get(name):
            try:
                java[java_name] = read_text(settings[name])
            except (OSError, ValueError) as unreadable:
                raise _refused(
                    f"The Spark driver cannot read the file of the Kafka setting {name} ({type(unreadable).__name__})",
                    "It must be a PEM file",
                ) from None
    if "ssl.truststore.certificates" in java:
        java["ssl.truststore.type"] = "PEM"
    if "ssl.keystore.key" in java:
        java["ssl.keystore.type"] = "PEM"
    if settings.get(_KEY_PASSWORD):
        java[_KEY_PASSWORD] = settings[_KEY_PASSWORD]
    if _HOST_CHECK in settings:
        java[_HOST_CHECK] = "https" if settings[_HOST_CHECK].lower() == "https" else ""
    return java


def _refused(what: str, remedy: str) -> ConnectionSettingsError:
    return ConnectionSettingsError(f"{what}. No key was read. {remedy}.")
