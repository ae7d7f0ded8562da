"""What one snapshot measures of each partition, for the ledger: sizes, offsets, and what groups have committed."""

from __future__ import annotations

from typing import Any

from kafka_rebalance.model.digests import digest_of
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.run.cluster_snapshot import Snapshot
from kafka_rebalance.run.snapshot_tables import partition_of


def metric_rows(taken: Snapshot) -> list[dict[str, Any]]:
    """Rows of the ledger's table `metrics`, for partitions of known size. Rates need two samples, so no row has one."""
    local = taken.local_starts
    return [
        {
            "topic": row["topic"],
            "partition": row["partition"],
            "size_bytes": row["size_bytes"],
            "end_offset": taken.end_offsets.get(partition_of(row)),
            # Without the local one, nobody may take the whole log's for it, not even if the topic has one tier by then.
            "start_offset": None if partition_of(row) in local.untold else taken.start_offsets.get(partition_of(row)),
            "local_start_offset": local.offsets.get(partition_of(row)),
            "topic_czxid": row["topic_czxid"],
            **_commits(taken, partition_of(row)),
        }
        for row in taken.partitions
        if row["size_bytes"] is not None
    ]


def _commits(taken: Snapshot, topic_partition: TopicPartition) -> dict[str, int]:
    """The sum over the groups, how many they are, and which: two samples of the same groups can be compared."""
    if taken.committed is None:
        return {}
    groups = taken.committed.get(topic_partition, {})
    return {
        "committed_offsets": sum(groups.values()),
        "committed_groups": len(groups),
        "committed_digest": int(digest_of(sorted(groups))[:12], 16),
    }
