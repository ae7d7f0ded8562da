"""Log dirs that have failed on brokers that receive copies of a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafka_rebalance.model.finding import some
from kafka_rebalance.model.partition import ReplicaBytes
from kafka_rebalance.moves.move_progress import PartitionProgress, Phase
from kafka_rebalance.rebalance.batch_finding import BatchFinding, FindingKind


def failed_log_dirs(
    offline: Mapping[int, Sequence[str]], each: Sequence[PartitionProgress], sizes: ReplicaBytes
) -> BatchFinding | None:
    """The finding about live brokers with a failed log dir that still receive copies of the batch; None: no broker.

    `sizes`: as brokers report them. A copy that its broker no longer reports lay in the failed log dir.
    """
    said = []
    for broker, paths in sorted(offline.items()):
        copies = [one.move.topic_partition for one in each if broker in one.missing and one.phase is Phase.COPYING]
        lost = [tp for tp in copies if broker not in sizes.get(tp, {})]
        if not copies:
            continue
        begins = f"Broker {broker} has lost the log dir {', '.join(paths)}:"
        if not lost:
            said.append(f"{begins} the {len(copies)} copies of the batch to it lie in other log dirs and go on.")
            continue
        said.append(
            f"{begins} {len(lost)} copies of the batch do not go on there ({some(sorted(lost))}). Repair or replace "
            f"that disk, then restart broker {broker}: these copies begin again by themselves. The throttle stays "
            "meanwhile. To give them up instead, use cancel_now of kafka_rebalance_cancel."
        )
    return BatchFinding(FindingKind.LOG_DIR_FAILED, " ".join(said)) if said else None
