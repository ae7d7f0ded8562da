"""librdkafka's settings as options of Spark's source: the Java client's names, and no value in any error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafka_rebalance.errors import ConnectionSettingsError
from kafka_rebalance.spark.keys import KAFKA_CONFIG, TIMEOUTS, kafka_options, settings_of

SECRET = "hunter2"
BROKERS = {"bootstrap.servers": "a:9092,b:9092"}
SASL = {
    **BROKERS,
    "security.protocol": "sasl_plaintext",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "ann",
    "sasl.password": SECRET,
}


def test_brokers_without_security_need_their_addresses_alone() -> None:
    assert kafka_options(BROKERS) == {
        "kafka.bootstrap.servers": "a:9092,b:9092",
        "kafka.security.protocol": "PLAINTEXT",
        **TIMEOUTS,
    }


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [
        ("PLAIN", "plain.PlainLoginModule"),
        ("SCRAM-SHA-256", "scram.ScramLoginModule"),
        ("scram-sha-512", "scram.ScramLoginModule"),
    ],
)
@pytest.mark.parametrize("name", ["sasl.mechanism", "sasl.mechanisms"])
def test_a_login_becomes_a_line_of_jaas(name: str, mechanism: str, module: str) -> None:
    given = {key: value for key, value in SASL.items() if key != "sasl.mechanism"} | {name: mechanism}
    options = kafka_options(given)
    assert options["kafka.security.protocol"] == "SASL_PLAINTEXT"
    assert options["kafka.sasl.mechanism"] == mechanism.upper()
    assert options["kafka.sasl.jaas.config"] == (
        f'org.apache.kafka.common.security.{module} required username="ann" password="{SECRET}";'
    )


def test_what_would_end_the_quotes_of_a_password_is_escaped() -> None:
    options = kafka_options({**SASL, "sasl.password": 'a"; b\\c=\n//é', "sasl.username": 'o"x'})
    assert options["kafka.sasl.jaas.config"].endswith(r'username="o\"x" password="a\"; b\\c=\n//é";')


def test_certificates_and_keys_are_handed_over_as_text(tmp_path: Path) -> None:
    names = {"ssl.ca.location": "ca", "ssl.certificate.location": "chain", "ssl.key.location": "key"}
    for name in names.values():
        (tmp_path / name).write_text(f"PEM of {name}")
    given = {name: str(tmp_path / file) for name, file in names.items()}
    options = kafka_options({**BROKERS, "security.protocol": "ssl", "ssl.key.password": SECRET, **given})
    assert {name: value for name, value in options.items() if name.startswith("kafka.ssl")} == {
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": "PEM of ca",
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": "PEM of chain",
        "kafka.ssl.keystore.key": "PEM of key",
        "kafka.ssl.key.password": SECRET,
    }
    assert str(tmp_path) not in str(options)
    texts = {name.replace(".location", ".pem"): f"PEM of {file}" for name, file in names.items()}
    assert options == kafka_options({**BROKERS, "security.protocol": "ssl", "ssl.key.password": SECRET, **texts})


@pytest.mark.parametrize(("value", "java"), [("https", "https"), ("none", ""), ("", "")])
def test_the_check_of_host_names_is_carried_over(value: str, java: str) -> None:
    check = "ssl.endpoint.identification.algorithm"
    options = kafka_options({**BROKERS, "security.protocol": "SSL", check: value})
    assert options[f"kafka.{check}"] == java


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"ssl.crl.location": SECRET}, "ssl.crl.location"),
        ({"sasl.kerberos.service.name": SECRET, "x": SECRET}, "sasl.kerberos.service.name, x"),
        ({"security.protocol": SECRET}, "security.protocol"),
        ({"sasl.mechanism": SECRET}, "sasl.mechanism"),
        ({"sasl.mechanism": "GSSAPI"}, "sasl.mechanism"),
        ({"sasl.username": ""}, "sasl.username"),
        ({"sasl.password": ""}, "sasl.password"),
        ({"bootstrap.servers": ""}, "bootstrap.servers"),
        ({"security.protocol": "SASL_SSL", "ssl.ca.location": f"/no/{SECRET}"}, "ssl.ca.location"),
        ({"security.protocol": "SASL_SSL", "ssl.ca.location": "/"}, "ssl.ca.location"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_without_any_value(changed: dict[str, str], named: str) -> None:
    with pytest.raises(ConnectionSettingsError) as refused:
        kafka_options({**SASL, **changed})
    assert f"Kafka setting {named} " in str(refused.value)
    assert "No key was read" in str(refused.value)
    assert SECRET not in str(refused.value)
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


def test_without_a_mechanism_librdkafkas_default_is_meant_and_refused() -> None:
    with pytest.raises(ConnectionSettingsError, match=r"sasl\.mechanism is none of PLAIN, SCRAM"):
        kafka_options({key: value for key, value in SASL.items() if key != "sasl.mechanism"})


def test_settings_come_from_the_environment_as_json() -> None:
    assert settings_of({KAFKA_CONFIG: json.dumps(SASL)}) == SASL


@pytest.mark.parametrize("text", [None, "", SECRET, f'["{SECRET}"]', '{"sasl.password": 5}', f'{{"a": ["{SECRET}"]}}'])
def test_an_environment_without_usable_settings_is_refused_without_quoting_it(text: str | None) -> None:
    with pytest.raises(ConnectionSettingsError, match=KAFKA_CONFIG) as refused:
        settings_of({} if text is None else {KAFKA_CONFIG: text})
    assert SECRET not in str(refused.value)
    assert refused.value.__context__ is None
