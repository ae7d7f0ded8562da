"""Whether every moved partition is led by its preferred leader."""

from __future__ import annotations

from collections.abc import Sequence

from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.run.check_result import Check, CheckName


def check_leaders(moves: Sequence[Move], view: ClusterView) -> tuple[Check, ...]:
    """`leader` for each partition: the first of the approved replicas leads and is registered.

    A failed check says whether another preferred election would help. Kafka elects the preferred replica only if it is
    live and in sync, and skips the partition otherwise.
    """
    checks = []
    for move in moves:
        partition, preferred = view.partitions.get(move.topic_partition), move.after[0]
        leader = partition.leader if partition else -1
        live = preferred in view.brokers
        finding = f"broker {leader} leads" if leader >= 0 else "nobody leads"
        if not live:
            finding += f"; broker {preferred} is not registered"
        elif leader != preferred and partition and preferred in partition.isr:
            finding += "; elect again"
        elif leader != preferred:
            finding += f"; broker {preferred} is not in sync, so it cannot be elected yet"
        expectation, passed = f"broker {preferred} leads and is registered", leader == preferred and live
        checks.append(Check(CheckName.LEADER, str(move.topic_partition), expectation, finding, passed))
    return tuple(checks)
