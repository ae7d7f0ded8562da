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
from collections.abc import Mapping, Sequence
from pathlib import Path

try:
    import kafka_rebalance  # noqa: F401
except ImportError:  # submitted by hand, without py_files
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from py4j.protocol import Py4JJavaError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from kafka_rebalance.documents.json_files import JsonFile
from kafka_rebalance.documents.key_sample import (
    KAFKA_CONFIG,
    SAMPLE_FILE,
    HeavyKey,
    KeySample,
    SampleRequest,
    key_in_words,
)
from kafka_rebalance.errors import ReadError
from kafka_rebalance.planning.command_line import folder_at, say
from kafka_rebalance.spark.job_driver import add_folder_checks, open_session, own_folder, run_job, said_by
from kafka_rebalance.spark.keys import kafka_options, place, settings_of

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
    asked = JsonFile(name, SampleRequest).read(folder_at(folder or "."))
    say(f"{asked.topic}: reading {sum(given.offsets for given in asked.ranges):,} offsets")
    try:
        sample = count_keys(read_records(open_session(scratch), asked, kafka), asked)
    except (Py4JJavaError, PySparkException) as failed:
        raise ReadError(
            f"{asked.topic}: Spark's Kafka client could not read the keys ({said_by(failed)}). "
            "Check that the driver and the executors reach the brokers, and check the Kafka settings of the Airflow "
            "connection."
        ) from None
    say(
        f"{sample.topic}: {sample.rows:,} rows, {sample.rows_without_key:,} of them without a key; "
        f"{sample.distinct_keys:,} keys; {sample.foreign_rows:,} rows are not where murmur2 places their key"
    )
    SAMPLE_FILE.write(out, sample)


def read_records(spark: SparkSession, asked: SampleRequest, kafka: Mapping[str, str]) -> DataFrame:
    """[key, partition, timestamp_ms] of the records in the ranges."""
    ranges = [given for given in asked.ranges if given.offsets > 0]
    if not ranges:
        return spark.createDataFrame([], "key binary, partition int, timestamp_ms long")
    source = spark.read.format("kafka").options(
        **kafka,
        assign=json.dumps({asked.topic: [given.partition for given in ranges]}),
        startingOffsets=json.dumps({asked.topic: {str(given.partition): given.start for given in ranges}}),
        endingOffsets=json.dumps({asked.topic: {str(given.partition): given.end for given in ranges}}),
        # Retention may delete records after their offsets were read; the others are enough.
        failOnDataLoss=False,
        minPartitions=max(len(ranges), spark.sparkContext.defaultParallelism),
        **{"kafkaConsumer.pollTimeoutMs": POLL_MILLISECONDS},
    )
    return source.load().select("key", "partition", sql.unix_millis("timestamp").alias("timestamp_ms"))


def count_keys(records: DataFrame, asked: SampleRequest) -> KeySample:
    """The figures of [key, partition, timestamp_ms]. It reads each record once and hashes each key once a partition."""
    spark = records.sparkSession
    # A sample is small. Each of Spark's 200 tasks would start Python, which takes longer than its work.
    spark.conf.set("spark.sql.shuffle.partitions", spark.sparkContext.defaultParallelism)
    grouped = (
        records.where(sql.col("timestamp_ms") >= asked.not_before_ms)
        .groupBy("key", "partition")
        .agg(
            sql.count("*").alias("rows"),
            sql.min("timestamp_ms").alias("oldest_ms"),
            sql.max("timestamp_ms").alias("newest_ms"),
        )
        .persist(StorageLevel.MEMORY_AND_DISK)
    )
    try:
        placed = place(grouped, asked.partitions, asked.counts)
        times = grouped.agg(sql.min("oldest_ms").alias("oldest"), sql.max("newest_ms").alias("newest")).first()
        keys = grouped.where("key IS NOT NULL").groupBy("key").agg(sql.sum("rows").alias("rows"))
        distinct_keys = keys.count()
        heaviest = keys.orderBy(sql.desc("rows"), "key").limit(HEAVIEST).collect()
    finally:
        grouped.unpersist()
    return KeySample(
        topic=asked.topic,
        partitions=asked.partitions,
        ranges=asked.ranges,
        not_before_ms=asked.not_before_ms,
        rows=int(placed.found.sum()),
        rows_without_key=placed.without_key,
        foreign_rows=placed.foreign,
        distinct_keys=distinct_keys,
        heaviest=tuple(HeavyKey(key_in_words(bytes(row["key"])), row["rows"]) for row in heaviest),
        oldest_ms=times["oldest"],
        newest_ms=times["newest"],
        found_rows=tuple(placed.found.tolist()),
        murmur2_rows={count: tuple(rows.tolist()) for count, rows in zip(asked.counts, placed.murmur2, strict=True)},
        moved_rows=dict(zip(asked.counts, placed.moved.tolist(), strict=True)),
    )


if __name__ == "__main__":
    sys.exit(main())
