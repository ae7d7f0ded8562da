"""How fast keys are hashed: `make bench-murmur2` prints the table of docs/evidence/planning_time.md.

It measures a plain loop, the vectorised function, and the keys job's use of it in Spark. There keys are in Spark's
memory, go to Python through Arrow, and are hashed and counted by partition for several numbers of partitions. Spark's
JVM and Python processes together may use only as many cores as the master's name says.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

from kafka_rebalance.kafka.partitioner import murmur2
from kafka_rebalance.local_cluster.machine.java import java_home
from kafka_rebalance.spark.keys_job import hash_keys
from kafka_rebalance.topics.forecast import counts_to_try

PARTITIONS, AFTER = 12, 24
ARROW_BATCH = 10_000  # rows, Spark's default
TARGET = 1_000_000


def keys_of(count: int) -> list[bytes]:
    """Keys of 12 to 22 bytes, the same as in Spark."""
    return [b"customer-%d-%d" % (number % 9, number * 7919) for number in range(count)]


def seconds(work: Callable[[], object], times: int) -> float:
    """The time of the fastest of several runs, after one warm-up."""
    work()
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return min(taken)


def plain(count: int, times: int) -> float:
    keys = keys_of(count)
    return count / seconds(lambda: [murmur2(key) for key in keys], times)


def vectorised(count: int, times: int) -> float:
    keys = pa.array(keys_of(count), pa.binary())

    def work() -> None:
        for start in range(0, count, ARROW_BATCH):
            hash_keys(keys[start : start + ARROW_BATCH])

    return count / seconds(work, times)


def in_spark(cores: int, count: int, times: int) -> dict[str, float]:
    """Keys per second and core in a session of this process: only hashed, and hashed and counted as the job does."""
    from pyspark.sql import functions as sql

    from kafka_rebalance.spark.job_driver import open_session
    from kafka_rebalance.spark.keys_job import place

    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    os.environ |= {"JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": "127.0.0.1"}
    os.environ["PYSPARK_SUBMIT_ARGS"] = (
        f"--master local[{cores}] --conf spark.ui.enabled=false --driver-memory 4g pyspark-shell"
    )

    def hashed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        total = sum(int(hash_keys(batch.column(0)).sum()) for batch in batches)
        yield pa.RecordBatch.from_pydict({"total": [total]})

    with tempfile.TemporaryDirectory() as scratch:
        spark = open_session(Path(scratch))
        number = sql.col("id")
        key = sql.concat(sql.lit("customer-"), number % 9, sql.lit("-"), number * 7919).cast("binary")
        made = spark.range(0, count, 1, 2 * cores).select(
            key.alias("key"),
            (number % PARTITIONS).cast("int").alias("partition"),
            sql.lit(1).cast("long").alias("rows"),
        )
        kept = made.persist()
        kept.count()
        counts = counts_to_try(PARTITIONS, AFTER)
        hashing = seconds(lambda: kept.select("key").mapInArrow(hashed, "total long").collect(), times)
        counting = seconds(lambda: place(kept, PARTITIONS, counts), times)
        spark.stop()
    return {"hashed": count / cores / hashing, "counted": count / cores / counting}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=4_000_000, help="for the vectorised function and for Spark")
    parser.add_argument("--plain-keys", type=int, default=200_000, help="for the plain loop")
    parser.add_argument("--times", type=int, default=5, help="runs of each; the fastest counts")
    parser.add_argument("--spark", type=int, metavar="CORES", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.spark:
        print(json.dumps(in_spark(asked.spark, asked.keys, asked.times)))
        return
    loop = plain(asked.plain_keys, asked.times)
    counts = len(counts_to_try(PARTITIONS, AFTER))
    rows = [("plain Python loop", loop), ("vectorised, batches of 10,000", vectorised(asked.keys, asked.times))]
    for cores in (1, 2):
        options = [f"--spark={cores}", f"--keys={asked.keys}", f"--times={asked.times}"]
        done = subprocess.run([sys.executable, __file__, *options], stdout=subprocess.PIPE, text=True, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        rows += [
            (f"Spark local[{cores}], mapInArrow, hashed", found["hashed"]),
            (
                f"Spark local[{cores}], the job's own: hashed and counted for {counts} numbers of partitions",
                found["counted"],
            ),
        ]
    print(
        f"{asked.keys:,} keys of 12 to 22 bytes ({asked.plain_keys:,} for the loop), fastest of {asked.times}, "
        f"{os.cpu_count()} cores"
    )
    print()
    print("| what | keys a second and core | times the loop |")
    print("|---|---:|---:|")
    for name, rate in rows:
        print(f"| {name} | {rate:,.0f} | {rate / loop:,.1f} |")
    slowest = min(rate for name, rate in rows if name.endswith("hashed"))
    print()
    print(f"In Spark murmur2 hashes at least {slowest:,.0f} keys a second and core. The target is {TARGET:,}.")


if __name__ == "__main__":
    main()
