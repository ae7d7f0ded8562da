"""Keys on Spark: their hashes and sums, what the forecast makes of them, and the options of Spark's Kafka source."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_rebalance.documents.key_sample import KeySample, OffsetRange
from kafka_rebalance.errors import ConnectionSettingsError
from kafka_rebalance.kafka.partitioner import murmur2, partition_for_key
from kafka_rebalance.spark.keys_job import (
    KAFKA_CONFIG,
    TIMEOUTS,
    Placements,
    hash_keys,
    kafka_options,
    partitions_of,
    settings_of,
)
from kafka_rebalance.topics.forecast import KeyForecast, Verdict, forecast_keys
from support.kafka.java.default_partitioner import DefaultPartitioner

a_key = st.one_of(st.binary(max_size=80), st.text(max_size=40).map(str.encode))


def binary(keys: list[bytes]) -> pa.Array:
    return pa.array(keys, pa.binary())


@settings(deadline=None)
@given(st.lists(a_key, max_size=40), st.integers(1, 4))
def test_every_key_has_the_hash_of_the_plain_function(keys: list[bytes], times: int) -> None:
    many = keys * times  # past the number from which on they are hashed together
    hashes = hash_keys(binary(many))
    assert hashes.dtype == np.int32
    assert hashes.tolist() == [murmur2(key) for key in many]


def test_thousands_of_keys_of_every_length_have_the_hash_of_the_plain_function() -> None:
    draw = random.Random(7)
    keys = [draw.randbytes(length % 101) for length in range(6_000)]
    keys += [draw.randbytes(draw.randrange(2_000, 300_000)) for _ in range(5)]
    draw.shuffle(keys)
    assert hash_keys(binary(keys)).tolist() == [murmur2(key) for key in keys]


@settings(deadline=None)
@given(st.lists(a_key, min_size=1, max_size=60), st.data())
def test_a_slice_is_hashed_like_a_column_of_its_own(keys: list[bytes], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(keys)))
    end = data.draw(st.integers(start, len(keys)))
    part = binary(keys)[start:end]
    assert hash_keys(part).tolist() == [murmur2(key) for key in keys[start:end]]


def test_long_offsets_and_text_are_taken_too() -> None:
    keys = ["", "ä", "key", "鍵" * 30] * 20
    expected = [murmur2(key.encode()) for key in keys]
    assert hash_keys(pa.array([key.encode() for key in keys], pa.large_binary())[3:]).tolist() == expected[3:]
    assert hash_keys(pa.array(keys, pa.string())[5:]).tolist() == expected[5:]


@pytest.mark.parametrize("keys", [[], [b""], [b""] * 100])
def test_empty_keys_and_empty_columns_are_hashed(keys: list[bytes]) -> None:
    assert hash_keys(binary(keys)).tolist() == [275646681] * len(keys)
    assert murmur2(b"") == 275646681


def test_a_null_is_refused() -> None:
    with pytest.raises(ValueError, match="1 of 2 keys are null"):
        hash_keys(binary([b"a", None]))


@settings(deadline=None)
@given(st.lists(a_key, min_size=1, max_size=60), st.integers(1, 5_000))
def test_partitions_are_those_of_the_plain_function(keys: list[bytes], partitions: int) -> None:
    found = partitions_of(hash_keys(binary(keys)), partitions)
    assert found.tolist() == [partition_for_key(key, partitions) for key in keys]


def test_hashes_lose_their_sign_bit_and_not_their_sign() -> None:
    smallest = np.array([-(2**31), -1, 0, 2**31 - 1], np.int32)
    assert partitions_of(smallest, 10).tolist() == [0, 7, 0, 7]


# --- sums of rows by partition, however the groups are dealt to tasks and batches ---

PARTITIONS, COUNTS = 4, (4, 6, 9)
a_group = st.tuples(st.none() | st.binary(max_size=12), st.integers(0, PARTITIONS - 1), st.integers(1, 10**12))


def add(sums: Placements, groups: list[tuple[bytes | None, int, int]]) -> None:
    keys, partitions, rows = ([group[column] for group in groups] for column in range(3))
    sums.add(pa.array(keys, pa.binary()), np.array(partitions, np.int32), np.array(rows, np.int64))


@settings(deadline=None)
@given(st.lists(st.lists(st.lists(a_group, max_size=50), max_size=3), max_size=3))
def test_sums_are_those_of_adding_up_group_by_group(tasks: list[list[list[tuple[bytes | None, int, int]]]]) -> None:
    total = Placements(PARTITIONS, COUNTS)
    for batches in tasks:
        of_task = Placements(PARTITIONS, COUNTS)
        for batch in batches:
            add(of_task, batch)
        (row,) = of_task.to_batch().to_pylist()
        total.add_sums(row)
    groups = [group for batches in tasks for batch in batches for group in batch]
    keyed = [(key, partition, rows) for key, partition, rows in groups if key is not None]
    placed = {count: [partition_for_key(key, count) for key, _, _ in keyed] for count in COUNTS}
    rows_of = [rows for _, _, rows in keyed]
    assert total.found.tolist() == [sum(rows for _, at, rows in groups if at == p) for p in range(PARTITIONS)]
    assert total.without_key == sum(rows for key, _, rows in groups if key is None)
    assert total.foreign == sum(rows for (_, at, rows), own in zip(keyed, placed[PARTITIONS], strict=True) if at != own)
    for index, count in enumerate(COUNTS):
        expected = [sum(r for r, at in zip(rows_of, placed[count], strict=True) if at == p) for p in range(count)]
        assert total.murmur2[index].tolist() == expected
        moved = zip(rows_of, placed[PARTITIONS], placed[count], strict=True)
        assert total.moved[index] == sum(rows for rows, own, now in moved if own != now)


# --- what the forecast says of records whose partition no key chose; they lie where Kafka's own rule puts them ---

BEFORE, AFTER = 6, 12
KEYS = [b"key-%d" % number for number in range(600)]


def placements(records: list[tuple[bytes | None, int]], rows: int = 10) -> Placements:
    """The sums of these records, each a key and its partition, `rows` times."""
    sums = Placements(BEFORE, (BEFORE, AFTER))
    keys, partitions = zip(*records, strict=True)
    sums.add(pa.array(keys, pa.binary()), np.array(partitions, np.int32), np.full(len(records), rows, np.int64))
    return sums


def forecast_of(sums: Placements) -> KeyForecast:
    found = [int(rows) for rows in sums.found]
    sample = KeySample(
        topic="orders",
        partitions=BEFORE,
        ranges=tuple(OffsetRange(partition, 0, rows) for partition, rows in enumerate(found)),
        not_before_ms=0,
        rows=sum(found),
        rows_without_key=sums.without_key,
        foreign_rows=sums.foreign,
        distinct_keys=len(KEYS),
        heaviest=(),
        oldest_ms=1,
        newest_ms=2,
        found_rows=tuple(found),
        murmur2_rows={count: tuple(map(int, rows)) for count, rows in zip(sums.counts, sums.murmur2, strict=True)},
        moved_rows=dict(zip(sums.counts, map(int, sums.moved), strict=True)),
    )
    return forecast_keys("orders", BEFORE, AFTER, sample)


def test_partitioner_explicit_partition_wins() -> None:
    """Seed 003, row 1: explicit partition wins."""
    producer = DefaultPartitioner(5)
    explicit = [(key, producer.partition(key, BEFORE, [0, 1], explicit=4)) for key in KEYS]
    sums = placements(explicit)
    assert sums.found.tolist() == [0, 0, 0, 0, 6000, 0], "the records count where they lie, whatever their keys"
    elsewhere = sum(partition_for_key(key, BEFORE) != 4 for key in KEYS)
    assert sums.foreign == 10 * elsewhere > 0
    told = forecast_of(sums)
    assert told.verdict is Verdict.OTHER_PARTITIONER, "where these records will lie is not foretold from their keys"
    assert "The forecast of rows does not apply" in told.text


@pytest.mark.parametrize(("available", "fullest"), [([4, 0, 2], 2.0), ([], 1.0)])
def test_partitioner_null_key_takes_turns_over_available_partitions(available: list[int], fullest: float) -> None:
    """Seed 003, row 2: null key: random start then +1, positive, modulo available partitions; none: modulo all."""
    producer = DefaultPartitioner(7)
    without_key: list[tuple[bytes | None, int]] = [
        (None, producer.partition(None, BEFORE, available)) for _ in range(len(KEYS))
    ]
    sums = placements(without_key)
    lies = set(available or range(BEFORE))
    assert sums.found.tolist() == [6000 // len(lies) if partition in lies else 0 for partition in range(BEFORE)]
    assert (sums.without_key, sums.foreign, sums.moved.tolist()) == (6000, 0, [0, 0])
    told = forecast_of(sums)
    assert told.verdict is Verdict.NO_KEYS
    assert told.skew_before == 1.0, "after the expansion they take turns over all partitions"
    assert told.chosen is not None
    assert (told.chosen.skew, told.chosen.moved_rows) == (1.0, 0.0)
    assert max(sums.found) * BEFORE / sums.found.sum() == fullest


def test_records_without_a_key_make_those_with_one_more_even() -> None:
    keyed: list[tuple[Any, int]] = [(key, partition_for_key(key, BEFORE)) for key in KEYS]
    turns = [(None, number % BEFORE) for number in range(len(KEYS))]
    alone, mixed = forecast_of(placements(keyed)), forecast_of(placements([*keyed, *turns]))
    assert alone.chosen is not None
    assert mixed.chosen is not None
    assert mixed.chosen.skew == pytest.approx((alone.chosen.skew + 1) / 2)


# --- librdkafka's settings as options of Spark's source ---

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
