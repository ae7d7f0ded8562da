"""Topics as kafka-topics lists and describes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kafka_rebalance.pages.units import format_bytes


def list_lines(entries: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """As `kafka-topics --list`."""
    return tuple(
        f"{entry['topic']} - marked for deletion" if entry["marked_for_deletion"] else entry["topic"]
        for entry in entries
    )


def describe_lines(entries: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """As `kafka-topics --describe`, with each partition's size and state; the size is that of the leader's replica."""
    lines = []
    for entry in entries:
        configs = ",".join(f"{key}={value}" for key, value in entry["configs"].items())
        deletion = "\tMarkedForDeletion:true" if entry["marked_for_deletion"] else ""
        lines.append(
            f"Topic:{entry['topic']}\tPartitionCount:{entry['partition_count']}\t"
            f"ReplicationFactor:{entry['replication_factor']}\tConfigs:{configs}{deletion}\t"
            f"Size:{format_bytes(entry['size_bytes'])}\tUnderReplicated:{entry['under_replicated']}\t"
            f"Unavailable:{entry['unavailable']}"
        )
        lines += [_partition_line(entry["topic"], partition) for partition in entry["partitions"]]
    return tuple(lines)


def _partition_line(topic: str, partition: Mapping[str, Any]) -> str:
    leader = "none" if partition["leader"] is None else partition["leader"]
    marks = [name.replace("_", " ") for name in ("unavailable", "under_replicated") if partition[name]]
    marks += [f"{name} {kafka_ids(partition[name])}" for name in ("adding", "removing") if partition[name]]
    return (
        f"\tTopic: {topic}\tPartition: {partition['partition']}\tLeader: {leader}"
        f"\tReplicas: {kafka_ids(partition['replicas'])}\tIsr: {kafka_ids(partition['isr'])}"
        f"\tSize: {format_bytes(partition['size_bytes'])}" + (f"\t{', '.join(marks)}" if marks else "")
    )


def kafka_ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))
