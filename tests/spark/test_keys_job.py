"""The keys job through the real spark-submit on real brokers: against counting record by record, and no secret left."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Position

from kafka_rebalance.documents.json_files import write_json
from kafka_rebalance.documents.key_sample import (
    REQUEST,
    REQUEST_FILE,
    SAMPLE,
    SAMPLE_FILE,
    HeavyKey,
    KeySample,
    OffsetRange,
    SampleRequest,
    key_in_words,
)
from kafka_rebalance.kafka.partitioner import partition_for_key
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.local_cluster.jars.class_path import spark_source_jars
from kafka_rebalance.local_cluster.jars.locked_jars import DEFAULT_VERSION, VERSIONS
from kafka_rebalance.local_cluster.machine.ports import free_port
from kafka_rebalance.spark import keys_job
from kafka_rebalance.spark.job_driver import NONCE
from kafka_rebalance.spark.keys_job import KAFKA_CONFIG
from support.kafka.java.default_partitioner import DefaultPartitioner

JOB = keys_job.__file__
TOPIC, PARTITIONS = "payments.by-customer", 5
COUNTS = (5, 7, 10)
USER, PASSWORD = "ann", 'hunter"2; \\o/ =//'
ROWS, HEAVY_ROWS = 4_000, 1_640
EARLY_MS, LATE_MS = 1_700_000_000_000, 1_700_000_999_000
ENDS = 120.0  # seconds; every job has ended by then, whatever it met

OLDER = [version for version in VERSIONS if version != DEFAULT_VERSION]
SECRETS = ("hunter", "LoginModule")
QUIET = "--conf spark.ui.enabled=false"
# A driver that samples several clusters: [[settings, arguments], …].
SEVERAL = """
import json, os, sys
from kafka_rebalance.spark import keys_job
for settings, arguments in json.loads(sys.argv[1]):
    os.environ[keys_job.KAFKA_CONFIG] = json.dumps(settings)
    if keys_job.main(arguments):
        sys.exit(1)
"""

Start = Callable[..., subprocess.Popen[str]]


@dataclass(frozen=True, slots=True)
class Record:
    partition: int
    offset: int
    key: bytes | None
    timestamp_ms: int


@pytest.fixture(scope="module")
def jars() -> str:
    """What Spark's Kafka source consists of, as spark-submit wants it."""
    return ",".join(map(str, spark_source_jars()))


@pytest.fixture(scope="module")
def brokers() -> Iterator[dict[str, str]]:
    """librdkafka's settings for a broker that wants a password full of what JAAS and JSON escape."""
    sasl = free_port()
    quoted = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    config = {
        "listeners": f"PLAINTEXT://127.0.0.1:{{port}},SASL_PLAINTEXT://127.0.0.1:{sasl}",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{quoted}";'
        ),
    }
    with LocalCluster(DEFAULT_VERSION, brokers=1, racks=0, broker_config=config) as cluster:
        # The records have timestamps of 2023, which retention would go by.
        cluster.create_topic(TOPIC, dict.fromkeys(range(PARTITIONS), (1,)), {"retention.ms": -1})
        settings = {
            "bootstrap.servers": f"127.0.0.1:{sasl}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
        }
        produce(settings)
        yield settings


def produce(settings: Mapping[str, str]) -> None:
    """One key in 41 % of the records, others of every kind, some without, some placed by hand, some of another time."""
    draw = random.Random(3)
    # Records with a key are placed by librdkafka; those without in turn, as clients up to 2.3 do it.
    producer = Producer({**settings, "partitioner": "murmur2", "log_level": 0})
    turn, every = DefaultPartitioner(draw.randrange(-(2**31), 2**31)), range(PARTITIONS)
    others = [b"", None, b"\xff\x00\xfe", "größe".encode(), b"long-" * 60]
    for number in range(ROWS):
        key = b"customer-1" if number < HEAVY_ROWS else draw.choice([*others, *[b"customer-%d" % number] * 5])
        time_ms = draw.choice((EARLY_MS, LATE_MS)) + number
        chosen = 1 if number % 500 == 0 else -1 if key is not None else turn.partition(None, PARTITIONS, every)
        producer.produce(TOPIC, b"value", key, chosen, timestamp=time_ms)  # -1: librdkafka chooses
    assert producer.flush(60) == 0


@pytest.fixture(scope="module")
def records(brokers: dict[str, str]) -> list[Record]:
    """What another client reads of the topic."""
    consumer = Consumer({**brokers, "group.id": "check", "auto.offset.reset": "earliest", "log_level": 0})
    consumer.assign([Position(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    found = []
    while len(found) < ROWS:
        batch = consumer.consume(1000, 30)
        assert batch, f"{len(found)} of {ROWS} records were read"
        found += [Record(read.partition(), read.offset(), read.key(), read.timestamp()[1]) for read in batch]
    consumer.close()
    return found


def expected_of(records: list[Record], asked: SampleRequest) -> KeySample:
    """The sample, counted record by record with the plain partitioner."""
    bounds = {given.partition: given for given in asked.ranges}
    seen = [
        record
        for record in records
        if (given := bounds.get(record.partition)) is not None
        and given.start <= record.offset < given.end
        and record.timestamp_ms >= asked.not_before_ms
    ]
    keyed = [record for record in seen if record.key is not None]
    keys = Counter(record.key for record in keyed)
    placed = {count: Counter(partition_for_key(record.key, count) for record in keyed) for count in asked.counts}
    own = [partition_for_key(record.key, asked.partitions) for record in keyed]
    return KeySample(
        topic=asked.topic,
        partitions=asked.partitions,
        ranges=asked.ranges,
        not_before_ms=asked.not_before_ms,
        rows=len(seen),
        rows_without_key=len(seen) - len(keyed),
        foreign_rows=sum(record.partition != partition for record, partition in zip(keyed, own, strict=True)),
        distinct_keys=len(keys),
        heaviest=tuple(
            HeavyKey(key_in_words(key), rows)
            for key, rows in sorted(keys.items(), key=lambda item: (-item[1], item[0]))[: keys_job.HEAVIEST]
        ),
        oldest_ms=min((record.timestamp_ms for record in seen), default=None),
        newest_ms=max((record.timestamp_ms for record in seen), default=None),
        found_rows=tuple(Counter(record.partition for record in seen)[p] for p in range(asked.partitions)),
        murmur2_rows={count: tuple(placed[count][p] for p in range(count)) for count in asked.counts},
        moved_rows={
            count: sum(partition_for_key(record.key, count) != was for record, was in zip(keyed, own, strict=True))
            for count in asked.counts
        },
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_json(tmp_path, NONCE, {"nonce": "c0ffee"})
    return tmp_path


def ask(folder: Path, asked: SampleRequest) -> tuple[str, ...]:
    """The request in the run's folder, and the job's arguments for it."""
    REQUEST_FILE.write(folder, asked)
    return ("--sample", str(folder / REQUEST), "--out", str(folder), "--expect-nonce", "c0ffee")


def ended(process: subprocess.Popen[str]) -> str:
    """What the job has said, on both of its streams."""
    try:
        return "".join(process.communicate(timeout=ENDS))
    finally:
        process.kill()


@pytest.fixture(scope="module", autouse=True)
def unanswered(
    tmp_path_factory: pytest.TempPathFactory, start_submit: Start, jars: str
) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A job for brokers that are not there. It mostly waits: started first, it does so beside the other tests."""
    write_json(folder := tmp_path_factory.mktemp("unanswered"), NONCE, {"nonce": "c0ffee"})
    asked = SampleRequest(TOPIC, 1, (OffsetRange(0, 0, 9),), 0, (1, 2))
    environment = {KAFKA_CONFIG: json.dumps({"bootstrap.servers": f"127.0.0.1:{free_port()}"})}
    process = start_submit(JOB, *ask(folder, asked), options={"--jars": jars}, environment=environment)
    yield process, folder
    process.kill()


def test_the_figures_are_those_of_counting_the_records_asked_for_and_no_secret_is_left(
    brokers: dict[str, str], records: list[Record], folder: Path, start_submit: Start, jars: str
) -> None:
    sizes = Counter(record.partition for record in records)
    # Of some, the beginning or the end is left out; one is left out as a whole, one has an empty range.
    ranges = (
        OffsetRange(0, 17, sizes[0]),
        OffsetRange(1, 0, sizes[1] - 23),
        OffsetRange(2, 5, 5),
        OffsetRange(4, 0, sizes[4]),
    )
    asked = SampleRequest(TOPIC, PARTITIONS, ranges, LATE_MS, COUNTS)
    (events := folder / "events").mkdir()
    process = start_submit(
        JOB,
        *ask(folder, asked),
        options={
            "--jars": jars,
            # Spark's own record of plans and settings, in which a secret would show.
            "--conf": "spark.eventLog.enabled=true",
            "--driver-java-options": f"-Dspark.eventLog.compress=false -Dspark.eventLog.dir={events.as_uri()}",
        },
        environment={KAFKA_CONFIG: json.dumps(brokers)},
    )
    said = ended(process)
    assert process.returncode == 0, said
    found = SAMPLE_FILE.read(folder)
    assert found == expected_of(records, asked)
    # The data is what this test is about.
    assert found.heaviest[0].key == "customer-1"
    assert found.heaviest[0].rows / found.rows > 0.4
    assert {"(empty)", "0xff00fe", "größe"} < {heavy.key for heavy in found.heaviest}
    assert min(found.rows_without_key, found.foreign_rows, found.moved_rows[7]) > 0
    assert f"{TOPIC}: {found.rows:,} rows" in said
    left = [said, *(path.read_text() for path in folder.rglob("*") if path.is_file())]
    assert any("SparkListenerJobStart" in text for text in left)
    assert not any(secret in text for text in left for secret in SECRETS)


@pytest.mark.long
def test_brokers_of_older_versions_are_read(tmp_path: Path, spark_environment: Mapping[str, str], jars: str) -> None:
    """Spark 4.2 brings the client of Kafka 3.9, which still speaks to 2.0. One driver reads them in turn."""
    keys = [b"a", b"b", b"b", b"c", None]
    runs = []
    with ExitStack() as stack:
        for version in OLDER:
            cluster = stack.enter_context(LocalCluster(version, brokers=1, racks=0))
            cluster.create_topic("topic", {0: (1,), 1: (1,)})
            producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
            for key in keys:
                producer.produce("topic", b"value", key, partition_for_key(key, 2) if key else 0)
            assert producer.flush(60) == 0
            ends = Counter(partition_for_key(key, 2) if key else 0 for key in keys)
            (folder := tmp_path / version).mkdir()
            write_json(folder, NONCE, {"nonce": "c0ffee"})
            ranges = tuple(OffsetRange(partition, 0, ends[partition]) for partition in range(2))
            arguments = ask(folder, SampleRequest("topic", 2, ranges, 0, (2, 3)))
            runs.append(({"bootstrap.servers": cluster.bootstrap_servers}, arguments))
        process = subprocess.Popen(
            [sys.executable, "-c", SEVERAL, json.dumps(runs)],
            env={**spark_environment}
            | {"PYSPARK_SUBMIT_ARGS": f"--master local[2] --jars {jars} {QUIET} pyspark-shell"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        said = ended(process)
    assert process.returncode == 0, said
    for version in OLDER:
        found = SAMPLE_FILE.read(tmp_path / version)
        assert (found.rows, found.rows_without_key, found.distinct_keys, found.foreign_rows) == (5, 1, 3, 0)
        assert found.heaviest == (HeavyKey("b", 2), HeavyKey("a", 1), HeavyKey("c", 1))


def test_brokers_that_do_not_answer_end_the_job_with_one_line(unanswered: tuple[subprocess.Popen[str], Path]) -> None:
    process, folder = unanswered
    said = ended(process)
    assert process.returncode == 2, said
    (line,) = [line for line in said.splitlines() if "Error: " in line]
    assert line.startswith(f"ReadError: {TOPIC}: Spark's Kafka client could not read the keys (")
    assert "TimeoutException" in line
    assert "Check that" in line
    assert not (folder / SAMPLE).exists()


def run_here(folder: Path, monkeypatch: pytest.MonkeyPatch, kafka: str | None, nonce: str = "c0ffee") -> int:
    """The job in this process: for what ends it before there is a session."""
    monkeypatch.delenv(KAFKA_CONFIG, raising=False)
    if kafka is not None:
        monkeypatch.setenv(KAFKA_CONFIG, kafka)
    *arguments, _ = ask(folder, SampleRequest(TOPIC, 1, (), 0, (1, 2)))
    return keys_job.main([*arguments, nonce])


def test_without_settings_in_the_environment_nothing_is_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_here(folder, monkeypatch, None) == 2
    assert f"ConnectionSettingsError: The environment variable {KAFKA_CONFIG} is not set" in capsys.readouterr().err


def test_a_setting_of_no_use_is_named_without_its_value(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_here(folder, monkeypatch, json.dumps({"bootstrap.servers": "a:1", "sasl.x": PASSWORD})) == 2
    said = capsys.readouterr().err
    assert "ConnectionSettingsError: The Kafka setting sasl.x is not known" in said
    assert not any(secret in said for secret in SECRETS)


def test_a_folder_of_another_run_is_refused_and_the_settings_are_gone_from_the_environment(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_here(folder, monkeypatch, '{"bootstrap.servers": "a:1"}', nonce="other") == 2
    assert "RunFolderError: run folder not shared" in capsys.readouterr().err
    assert not (folder / SAMPLE).exists()
    assert KAFKA_CONFIG not in os.environ


def test_a_request_that_is_none_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_json(folder, "other.json", {"topic": TOPIC})
    monkeypatch.setenv(KAFKA_CONFIG, '{"bootstrap.servers": "a:1"}')
    assert keys_job.main(["--sample", str(folder / "other.json"), "--out", str(folder)]) == 2
    assert "other.json: Object missing required field" in capsys.readouterr().err
