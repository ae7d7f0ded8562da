"""The policy's limits beside what a candidate uses of them."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_rebalance.kafka.znode_limits import CONTROLLER_BYTES_PER_BATCH
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.report.units import format_bytes, format_count, format_rate, format_share


@dataclass(frozen=True, slots=True)
class LimitUse:
    """One limit in words; `share` of it is used, None where a share says nothing."""

    name: str
    allowed: str
    used: str
    share: float | None


def limit_uses(
    policy: Policy | None,
    settings: Settings,
    *,
    moved_bytes: int,
    moved_replicas: int,
    leader_changes: int,
    partitions_in_a_batch: int,
    leader_changes_in_a_batch: int,
    controller_bytes: int | None,
    throttle_bytes_per_second: float | None,
) -> tuple[LimitUse, ...]:
    """Each limit that binds this run: the settings as the policy tightened them, the policy's range, the controller's.

    Without a policy only limits that the requester set are listed.
    """
    uses = []
    if settings.max_bytes is not None:
        why = ""
        if policy is not None:
            why = (
                f" (policy: {format_share(policy.max_bytes_share)} of the cluster,"
                f" at most {format_bytes(policy.max_bytes)})"
            )
        allowed = format_bytes(settings.max_bytes) + why
        uses.append(
            LimitUse("Bytes copied", allowed, format_bytes(moved_bytes), _share(moved_bytes, settings.max_bytes))
        )
    for name, limit, used in (
        ("Replicas moved", settings.max_replicas, moved_replicas),
        ("Leader changes", settings.max_leader_changes, leader_changes),
        ("Partitions in one batch", settings.partitions_per_batch, partitions_in_a_batch),
        ("Leader changes in one batch", settings.leader_changes_per_batch, leader_changes_in_a_batch),
    ):
        if limit is not None:
            uses.append(LimitUse(name, format_count(limit), format_count(used), _share(used, limit)))
    if controller_bytes is not None:
        uses.append(
            LimitUse(
                "Znodes that the controller rewrites for one batch",
                f"{format_bytes(CONTROLLER_BYTES_PER_BATCH)}, not to be changed",
                format_bytes(controller_bytes),
                _share(controller_bytes, CONTROLLER_BYTES_PER_BATCH),
            )
        )
    if policy is not None:
        uses.append(
            LimitUse(
                "Copies at once on one broker",
                format_count(policy.copies_per_broker),
                format_count(settings.copies_per_broker),
                _share(settings.copies_per_broker, policy.copies_per_broker),
            )
        )
        most, least = policy.max_throttle_bytes_per_second, policy.min_throttle_bytes_per_second
        uses.append(
            LimitUse(
                "Throttle of one broker",
                f"{format_rate(least)} to {format_rate(most)}",
                format_rate(throttle_bytes_per_second),
                None if throttle_bytes_per_second is None else _share(throttle_bytes_per_second, most),
            )
        )
    return tuple(uses)


def _share(used: float, limit: float) -> float | None:
    """None for a limit of nothing that nothing uses."""
    if limit > 0:
        return used / limit
    return 1.0 if used else None
