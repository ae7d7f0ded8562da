"""`spark-submit keys_job.py --sample FILE.json --out DIR [--expect-nonce X]`: counts the keys of a topic's records.

Spark's own Kafka source reads the offsets that the request names. The job writes keys.json: rows by partition, as they
are now, and as murmur2 would place them with other numbers of partitions. Kafka's client settings come from the
environment (`kafka_options`), because every user of a machine can read its command lines.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

try:
    import kafka_rebalance  # noqa: F401
except ImportError:  # submitted by hand, without py_files
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from py4j.protocol import Py4JJavaError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import from_arrow_schema

from kafka_rebalance.documents.json_files import JsonFile
from kafka_rebalance.documents.key_sample import (
    KAFKA_CONFIG,
    SAMPLE_FILE,
    HeavyKey,
    KeySample,
    SampleRequest,
    key_in_words,
)
from kafka_rebalance.errors import ConnectionSettingsError, ReadError
from kafka_rebalance.kafka.partitioner import murmur2
from kafka_rebalance.model.connection import (
    CERTIFICATE,
    HOST_CHECK,
    KEY,
    KEY_PASSWORD,
    MECHANISM,
    PASSWORD,
    PROTOCOL,
    PROTOCOLS,
    TRUSTED,
    USERNAME,
)
from kafka_rebalance.model.finding import listed
from kafka_rebalance.planning.command_line import folder_at, say
from kafka_rebalance.spark.job_driver import add_folder_checks, open_session, own_folder, run_job, said_by

HEAVIEST = 10
POLL_MILLISECONDS = 60_000  # if no record of a range comes in that time, the range is unreadable


def main(arguments: Sequence[str] | None = None) -> int:
    """0: keys.json is written. 2: an input or the topic cannot be read, and the error's text is on stderr."""
    parser = argparse.ArgumentParser(prog="keys_job.py", description="Counts the keys of a topic's records.")
    parser.add_argument("--sample", required=True, help="JSON file or URL: topic, offsets, numbers of partitions")
    parser.add_argument("--out", required=True, help="folder or URL for keys.json")
    add_folder_checks(parser)
    options = parser.parse_args(arguments)
    return run_job(lambda scratch: _sample(options, scratch))


def _sample(options: argparse.Namespace, scratch: Path) -> None:
    """Reads, counts on Spark, writes. It opens the session only after all checks that need none."""
    kafka = kafka_options(settings_of(os.environ))
    del os.environ[KAFKA_CONFIG]  # child processes must not inherit it
    out = own_folder(options)
    folder, _, name = options.sample.rpartition("/")
    request = JsonFile(name, SampleRequest).read(folder_at(folder or "."))
    say(f"{request.topic}: reading {sum(given.offsets for given in request.ranges):,} offsets")
    try:
        sample = count_keys(read_records(open_session(scratch), request, kafka), request)
    except (Py4JJavaError, PySparkException) as failed:
        raise ReadError(
            f"{request.topic}: Spark's Kafka client could not read the keys ({said_by(failed)}). "
            "Check that the driver and the executors reach the brokers, and check the Kafka settings of the Airflow "
            "connection."
        ) from None
    say(
        f"{sample.topic}: {sample.rows:,} rows, {sample.rows_without_key:,} of them without a key; "
        f"{sample.distinct_keys:,} keys; {sample.foreign_rows:,} rows are not where murmur2 places their key"
    )
    SAMPLE_FILE.write(out, sample)


def read_records(spark: SparkSession, request: SampleRequest, kafka: Mapping[str, str]) -> DataFrame:
    """[key, partition, timestamp_ms] of the records in the ranges."""
    ranges = [given for given in request.ranges if given.offsets > 0]
    if not ranges:
        return spark.createDataFrame([], "key binary, partition int, timestamp_ms long")
    source = spark.read.format("kafka").options(
        **kafka,
        assign=json.dumps({request.topic: [given.partition for given in ranges]}),
        startingOffsets=json.dumps({request.topic: {str(given.partition): given.start for given in ranges}}),
        endingOffsets=json.dumps({request.topic: {str(given.partition): given.end for given in ranges}}),
        # Retention may delete records after their offsets were read; the others are enough.
        failOnDataLoss=False,
        minPartitions=max(len(ranges), spark.sparkContext.defaultParallelism),
        **{"kafkaConsumer.pollTimeoutMs": POLL_MILLISECONDS},
    )
    return source.load().select("key", "partition", sql.unix_millis("timestamp").alias("timestamp_ms"))


def count_keys(records: DataFrame, request: SampleRequest) -> KeySample:
    """The figures of [key, partition, timestamp_ms]. It reads each record once and hashes each key once a partition."""
    spark = records.sparkSession
    # A sample is small. Each of Spark's 200 tasks would start Python, which takes longer than its work.
    spark.conf.set("spark.sql.shuffle.partitions", spark.sparkContext.defaultParallelism)
    grouped = (
        records.where(sql.col("timestamp_ms") >= request.not_before_ms)
        .groupBy("key", "partition")
        .agg(
            sql.count("*").alias("rows"),
            sql.min("timestamp_ms").alias("oldest_ms"),
            sql.max("timestamp_ms").alias("newest_ms"),
        )
        .persist(StorageLevel.MEMORY_AND_DISK)
    )
    try:
        placed = place(grouped, request.partitions, request.counts)
        times = grouped.agg(sql.min("oldest_ms").alias("oldest"), sql.max("newest_ms").alias("newest")).first()
        keys = grouped.where("key IS NOT NULL").groupBy("key").agg(sql.sum("rows").alias("rows"))
        distinct_keys = keys.count()
        heaviest = keys.orderBy(sql.desc("rows"), "key").limit(HEAVIEST).collect()
    finally:
        grouped.unpersist()
    return KeySample(
        topic=request.topic,
        partitions=request.partitions,
        ranges=request.ranges,
        not_before_ms=request.not_before_ms,
        rows=int(placed.found.sum()),
        rows_without_key=placed.without_key,
        foreign_rows=placed.foreign,
        distinct_keys=distinct_keys,
        heaviest=tuple(HeavyKey(key_in_words(bytes(row["key"])), row["rows"]) for row in heaviest),
        oldest_ms=times["oldest"],
        newest_ms=times["newest"],
        found_rows=tuple(placed.found.tolist()),
        murmur2_rows={count: tuple(rows.tolist()) for count, rows in zip(request.counts, placed.murmur2, strict=True)},
        moved_rows=dict(zip(request.counts, placed.moved.tolist(), strict=True)),
    )


# In which partition records lie, and where murmur2 puts them with other numbers of partitions.


_LONGS = pa.list_(pa.int64())
_SUMS = {
    "found": _LONGS,
    "without_key": pa.int64(),
    "foreign": pa.int64(),
    "murmur2": pa.list_(_LONGS),
    "moved": _LONGS,
}


class Placements:
    """The sums of `KeySample`. `murmur2` and `moved` have an entry for each number of partitions in `counts`."""

    def __init__(self, partitions: int, counts: Sequence[int]) -> None:
        self.counts = tuple(counts)
        self.found = np.zeros(partitions, np.int64)
        self.without_key = 0
        self.foreign = 0
        self.murmur2 = [np.zeros(count, np.int64) for count in self.counts]
        self.moved = np.zeros(len(self.counts), np.int64)

    def add(self, keys: pa.Array, partitions: NDArray[np.int32], rows: NDArray[np.int64]) -> None:
        """Adds groups of rows. A group has one key, or null, and one partition; `rows` is their number."""
        # numpy sums weights, which are floats; they are exact up to 2**53.
        weights = rows.astype(np.float64)
        self.found += _sum_by(partitions, weights, len(self.found))
        if keys.null_count:
            keyed = keys.is_valid().to_numpy(zero_copy_only=False)
            self.without_key += int(rows[~keyed].sum())
            keys, partitions, weights = keys.drop_null(), partitions[keyed], weights[keyed]
        hashes = hash_keys(keys)
        own = partitions_of(hashes, len(self.found))
        self.foreign += int(weights @ (own != partitions))
        for index, count in enumerate(self.counts):
            placed = partitions_of(hashes, count)
            self.murmur2[index] += _sum_by(placed, weights, count)
            self.moved[index] += int(weights @ (own != placed))

    def add_sums(self, sums: Mapping[str, Any]) -> None:
        self.found += np.array(sums["found"], np.int64)
        self.without_key += sums["without_key"]
        self.foreign += sums["foreign"]
        for index, rows in enumerate(sums["murmur2"]):
            self.murmur2[index] += np.array(rows, np.int64)
        self.moved += np.array(sums["moved"], np.int64)

    def to_batch(self) -> pa.RecordBatch:
        sums = {name: getattr(self, name) for name in _SUMS}
        return pa.RecordBatch.from_pylist([sums], pa.schema(_SUMS.items()))


def place(grouped: DataFrame, partitions: int, counts: Sequence[int]) -> Placements:
    """The sums of [key binary, partition int, rows long]. Each task returns one row of sums."""

    def place_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sums = Placements(partitions, counts)
        for batch in batches:
            sums.add(batch.column(0), batch.column(1).to_numpy(), batch.column(2).to_numpy())
        yield sums.to_batch()

    total = Placements(partitions, counts)
    for row in (
        grouped.select("key", "partition", "rows")
        .mapInArrow(place_batches, from_arrow_schema(pa.schema(_SUMS.items())))
        .collect()
    ):
        total.add_sums(row.asDict())
    return total


def _sum_by(partitions: NDArray[np.int32], weights: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    return np.bincount(partitions, weights, count).astype(np.int64)


# murmur2 of many keys at once: the same numbers as `kafka.partitioner.murmur2`, in numpy.


_SEED = np.uint32(0x9747B28C)
_MULTIPLIER = np.uint32(0x5BD1E995)
_POSITIVE = np.int32(0x7FFFFFFF)
_FEW = 32  # this many keys take as long one by one as one step of numpy


def hash_keys(keys: pa.Array) -> NDArray[np.int32]:
    """The murmur2 of every key in a column of bytes or text. Raises ValueError for nulls."""
    if keys.null_count:
        raise ValueError(f"{keys.null_count} of {len(keys)} keys are null, which have no hash")
    if not len(keys):
        return np.empty(0, np.int32)
    keys = keys.cast(pa.binary())
    _, offsets, data = keys.buffers()
    bounds = np.frombuffer(offsets, np.int32)[keys.offset : keys.offset + len(keys) + 1]
    used = np.frombuffer(data or b"", np.uint8)[bounds[0] : bounds[-1]]  # a slice shares the buffers of the whole
    return _murmur2_of(used, bounds - bounds[0])


def _murmur2_of(data: NDArray[np.uint8], bounds: NDArray[np.int32]) -> NDArray[np.int32]:
    """The hash of each key `data[bounds[i]:bounds[i + 1]]`. Source: clients, Utils.murmur2.

    A step takes the next four bytes of every key that has them. The longest keys come first, so these are the first.
    """
    lengths = np.diff(bounds)
    order = np.argsort(-lengths, kind="stable")
    lengths, starts = lengths[order], bounds[:-1][order].astype(np.intp)
    # The four bytes from each place as one little-endian word. 32-bit products wrap around, as in Java.
    padded = np.concatenate((data, np.zeros(4, np.uint8)))
    words = np.ndarray(len(padded) - 3, "<u4", padded, strides=(1,))
    hashed = _SEED ^ lengths.astype(np.uint32)
    whole = lengths >> 2
    step = 0
    while (active := int(np.count_nonzero(whole > step))) > _FEW:
        mixed = words[starts[:active] + 4 * step] * _MULTIPLIER
        mixed = _folded(mixed, 24) * _MULTIPLIER
        hashed[:active] = hashed[:active] * _MULTIPLIER ^ mixed
        step += 1
    # The bytes after the last whole word, of the keys that have some.
    tailed = np.flatnonzero(lengths & 3)
    bits = 8 * (lengths[tailed] & 3).astype(np.uint32)
    tail = words[starts[tailed] + 4 * whole[tailed]] & ((1 << bits) - 1)
    hashed[tailed] = (hashed[tailed] ^ tail) * _MULTIPLIER
    hashed = _folded(hashed, 13) * _MULTIPLIER
    hashed = _folded(hashed, 15)
    result = np.empty(len(lengths), np.int32)
    result[order] = hashed.view(np.int32)
    # The few longest keys, which have not had all of their steps.
    for key in order[:active]:
        result[key] = murmur2(data[bounds[key] : bounds[key + 1]].tobytes())
    return result


def _folded(values: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    return values ^ values >> np.uint32(bits)


def partitions_of(hashes: NDArray[np.int32], partitions: int) -> NDArray[np.int32]:
    """The partition of each key among `partitions`, without the sign bit, as `partition_for_key`."""
    return (hashes & _POSITIVE) % np.int32(partitions)


# The Kafka settings of a connection, in librdkafka's names, as options of Spark's Kafka source.
#
# The Java client has other names for them. It takes keys and certificates as text, so that no executor needs a file.


# If no broker answers, the job ends after the second of these. With the defaults, and with Spark's three attempts, it
# would take minutes: in each attempt the client retries as long as it may.
TIMEOUTS = {
    "kafka.request.timeout.ms": "15000",
    "kafka.default.api.timeout.ms": "20000",
    "fetchOffset.numRetries": "1",
}

_BOOTSTRAP = "bootstrap.servers"
_MECHANISMS = (MECHANISM, "sasl.mechanisms")
_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
# librdkafka's settings of a PEM document: the Java client's setting for its content (KIP-651).
_PEM = {
    TRUSTED: "ssl.truststore.certificates",
    CERTIFICATE: "ssl.keystore.certificate.chain",
    KEY: "ssl.keystore.key",
}
_PEM_NAMES = [name for pem in _PEM for name in pem.names]
_KNOWN = (_BOOTSTRAP, PROTOCOL, *_MECHANISMS, USERNAME, PASSWORD, *_PEM_NAMES, KEY_PASSWORD, HOST_CHECK)


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


def kafka_options(settings: Mapping[str, str]) -> dict[str, str]:
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
    protocol = settings.get(PROTOCOL, PROTOCOLS[0]).upper()
    if protocol not in PROTOCOLS:
        raise _refused(f"The Kafka setting {PROTOCOL} is none of {listed(PROTOCOLS)}", "Correct it")
    java[PROTOCOL] = protocol
    if protocol.startswith("SASL"):
        java |= _sasl(settings)
    if protocol.endswith("SSL"):
        java |= _tls(settings)
    return {f"kafka.{name}": value for name, value in java.items()} | TIMEOUTS


def _sasl(settings: Mapping[str, str]) -> dict[str, str]:
    # librdkafka's default is GSSAPI, which needs a keytab on every executor.
    mechanism = next((settings[name] for name in _MECHANISMS if name in settings), "GSSAPI").upper()
    if mechanism not in _LOGIN_MODULES:
        raise _refused(
            f"The Kafka setting {_MECHANISMS[0]} is none of {listed(_LOGIN_MODULES)}",
            "Use one of these, which Spark's Kafka client supports here",
        )
    for name in (USERNAME, PASSWORD):
        if not settings.get(name):
            raise _refused(f"The Kafka setting {name} is empty", f"Set it: {mechanism} needs it")
    username, password = (_quoted(settings[name]) for name in (USERNAME, PASSWORD))
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


def _tls(settings: Mapping[str, str]) -> dict[str, str]:
    java = {name: settings[pem.text] for pem, name in _PEM.items() if settings.get(pem.text)}
    for pem, name in _PEM.items():
        if settings.get(pem.file):
            try:
                java[name] = Path(settings[pem.file]).read_text("utf-8")
            except (OSError, ValueError) as unreadable:
                raise _refused(
                    f"The Spark driver cannot read the file of the Kafka setting {pem.file} "
                    f"({type(unreadable).__name__})",
                    "It must be a PEM file",
                ) from None
    if "ssl.truststore.certificates" in java:
        java["ssl.truststore.type"] = "PEM"
    if "ssl.keystore.key" in java:
        java["ssl.keystore.type"] = "PEM"
    if settings.get(KEY_PASSWORD):
        java[KEY_PASSWORD] = settings[KEY_PASSWORD]
    if HOST_CHECK in settings:
        java[HOST_CHECK] = "https" if settings[HOST_CHECK].lower() == "https" else ""
    return java


def _refused(what: str, remedy: str) -> ConnectionSettingsError:
    return ConnectionSettingsError(f"{what}. No key was read. {remedy}.")


if __name__ == "__main__":
    sys.exit(main())
