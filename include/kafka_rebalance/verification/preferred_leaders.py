"""Whether every moved partition is led by its preferred leader."""

from __future__ import annotations

from collections.abc import Sequence

from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.verification.check_result import Check, CheckName


def check_leaders(moves: Sequence[Move], view: ClusterView) -> tuple[Check, ...]:
    """`leader` for each partition: the first of the approved replicas, and registered.

    The finding of a failed one says whether another preferred election would help: Kafka elects the preferred replica
    only if it is live and in sync, and skips the partition otherwise.
    """
    checks = []
    for move in moves:
        partition, preferred = view.partitions.get(move.topic_partition), move.after[0]
        leader = partition.leader if partition else -1
        live = preferred in view.brokers
        finding = f"broker {leader} leads" if leader >= 0 else "nobody leads"
        if not live:
            finding += f"; broker {preferred} is not registered"
        elif leader != preferred:
            in_sync = partition is not None and preferred in partition.isr
            finding += (
                "; elect again" if in_sync else f"; broker {preferred} is not in sync, so it cannot be elected yet"
            )
        checks.append(
            Check(
                CheckName.LEADER,
                str(move.topic_partition),
                f"broker {preferred} leads and is registered",
                finding,
                leader == preferred and live,
            )
        )
    return tuple(checks)
