"""Log dirs that fail on brokers which receive copies of a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafka_rebalance.execution.follow.batch_finding import BatchFinding, FindingKind
from kafka_rebalance.execution.follow.move_progress import PartitionProgress, Phase
from kafka_rebalance.model.finding import some
from kafka_rebalance.model.partition import ReplicaBytes


def failed_log_dirs(
    offline: Mapping[int, Sequence[str]], each: Sequence[PartitionProgress], sizes: ReplicaBytes
) -> BatchFinding | None:
    """Log dirs that have failed on brokers which live and still receive copies of the batch; None: there are
    none. `sizes`: what the brokers tell. A copy that its broker no longer tells lay in the log dir that failed.
    """
    said = []
    for broker, paths in sorted(offline.items()):
        copies = [one.move.topic_partition for one in each if broker in one.missing and one.phase is Phase.COPYING]
        lost = [tp for tp in copies if broker not in sizes.get(tp, {})]
        if not copies:
            continue
        what = (
            f"{len(lost)} copies of the batch do not go on there ({some(sorted(lost))})"
            if lost
            else (f"the {len(copies)} copies of the batch to this broker lie in its other log dirs and go on")
        )
        said.append(f"Broker {broker} has lost the log dir {', '.join(paths)}: {what}.")
        if lost:
            said.append(
                f"Repair or replace that disk, then restart broker {broker}: these copies begin again by themselves. "
                "The throttle stays meanwhile. To give them up instead, use cancel_now of kafka_rebalance_cancel."
            )
    return BatchFinding(FindingKind.LOG_DIR_FAILED, " ".join(said)) if said else None
