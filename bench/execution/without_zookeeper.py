"""What execution costs without ZooKeeper: `make bench-execution-kraft` writes it into docs/evidence/execution.md.

It moves thousands of empty partitions in one plan with the product, then back bare: requests of 500 partitions, one
after the other, and a look at the list until it is empty. Then it measures a steady load beside a throttled move.
Every cluster is four real brokers, the controllers among them.
"""

from __future__ import annotations

import argparse
import logging
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from kafka import KafkaAdminClient, TopicPartition

from bench.execution.ours import Ours, set_up_airflow
from bench.execution.with_zookeeper import NO_THROTTLE, TRIPS, say, seconds_of
from bench.pages import write_section
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.local_cluster.jars.locked_jars import KRAFT_VERSIONS

SECTION = "bench-execution-kraft"
BROKERS, AT_ONCE, POLL_SECONDS = 4, 500, 0.1

Lists = dict[tuple[str, int], tuple[int, ...]]


def started(version: str) -> LocalCluster:
    return LocalCluster(version, brokers=BROKERS, racks=0, kraft=True, one_jvm=False)


def make_topics(cluster: LocalCluster, partitions: int, topics: int) -> Lists:
    lists: Lists = {}
    for number in range(topics):
        name = f"empty-{number:03}"
        of_topic = {p: ((number + p) % BROKERS + 1,) for p in range(len(range(number, partitions, topics)))}
        cluster.create_topic(name, of_topic)
        lists |= {(name, p): replicas for p, replicas in of_topic.items()}
    return lists


def elsewhere(lists: Lists) -> Lists:
    return {entry: tuple(broker % BROKERS + 1 for broker in replicas) for entry, replicas in lists.items()}


def bare(cluster: LocalCluster, targets: Lists) -> float:
    """Seconds until nothing is listed any more."""
    entries = sorted(targets)
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers.split(","))) as client:
        began = time.monotonic()
        for start in range(0, len(entries), AT_ONCE):
            asked = {TopicPartition(*entry): list(targets[entry]) for entry in entries[start : start + AT_ONCE]}
            client.alter_partition_reassignments(asked)
        while client.list_partition_reassignments():
            time.sleep(POLL_SECONDS)
        return time.monotonic() - began


def batch_lines(version: str, partitions: int, topics: int, per_batch: int) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as name, started(version) as cluster:
        set_up_airflow(Path(name), cluster, per_batch)
        before = make_topics(cluster, partitions, topics)
        run = Ours("there", elsewhere(before), NO_THROTTLE, per_batch)
        run.approve()
        batches = len(run.batches)
        say(f"{partitions:,} partitions in {batches} batches")
        hold = seconds_of(run.hold)
        ours = run.reassign()
        run.finish()
        say(f"{ours:.1f} s through the product")
        alone = bare(cluster, before)
        say(f"{alone:.1f} s bare")
        again = Ours("again", elsewhere(before), NO_THROTTLE, per_batch)
        again.approve()
        again.hold()
        again.reassign_by_triggers(TRIPS)
        mb = {key: value / 1e6 for key, value in again.memory.items()}
    yield f"Kafka {version}, {partitions:,} empty partitions of one replica, each moved to another broker:"
    yield ""
    yield "| | batches | seconds | partitions a second |"
    yield "|---|---:|---:|---:|"
    yield f"| bare, in requests of {AT_ONCE} | – | {alone:.1f} | {partitions / alone:.0f} |"
    yield f"| through the product | {batches} | {ours:.1f} | {partitions / ours:.0f} |"
    yield ""
    yield (
        f"- A partition takes **{ours / alone:.2f} times** as long through the product as bare. The throttle was in "
        f"force {hold:.1f} s after the approval."
    )
    yield (
        f"- The triggerer's process holds {mb['before']:.0f} MB before its first trigger of ours, "
        f"{mb['loaded']:.0f} MB with its modules, and {mb['most']:.0f} MB at most while it follows {TRIPS} batches of "
        f"this plan: **{mb['most'] - mb['before']:.0f} MB** more."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--version", default=KRAFT_VERSIONS[0], choices=KRAFT_VERSIONS)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--topics", type=int, default=50)
    parser.add_argument("--per-batch", type=int, default=1_000, help="most partitions in a batch, for the policy")
    parser.add_argument("--print-only", action="store_true", help="leave docs/ as it is")
    asked = parser.parse_args()
    logging.disable(logging.WARNING)
    lines = ["", *batch_lines(asked.version, asked.partitions, asked.topics, asked.per_batch)]
    say("\n".join(lines))
    if not asked.print_only:
        write_section(SECTION, lines)


if __name__ == "__main__":
    # Like Ctrl-C: ends all that was started, and removes its folder.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    main()
