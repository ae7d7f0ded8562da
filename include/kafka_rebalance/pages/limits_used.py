"""The limits of a run, beside what a candidate uses of them."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.pages.candidate_report import CandidateReport
from kafka_rebalance.pages.units import format_bytes, format_count, format_rate, format_share


@dataclass(frozen=True, slots=True)
class LimitUse:
    """One limit in words. `share` is how much of it is used; None if a share says nothing."""

    name: str
    allowed: str
    used: str
    share: float | None


def limit_uses(
    policy: Policy | None, settings: Settings, candidate: CandidateReport, throttle: float | None
) -> tuple[LimitUse, ...]:
    """Each limit that binds this run: its settings, tightened by the policy, and limits of policy and controller.

    Without a policy: the limits that the requester set, and the controller's. `throttle` is in bytes per second.
    """
    uses = []
    if settings.max_bytes is not None:
        allowed, used = format_bytes(settings.max_bytes), candidate.moved_bytes
        if policy is not None:
            share, most = format_share(policy.max_bytes_share), format_bytes(policy.max_bytes)
            allowed += f" (policy: {share} of the cluster, at most {most})"
        uses.append(LimitUse("Bytes copied", allowed, format_bytes(used), _share(used, settings.max_bytes)))
    for name, limit, used in (
        ("Replicas moved", settings.max_replicas, candidate.moved_replicas),
        ("Leader changes", settings.max_leader_changes, candidate.leader_changes),
        ("Replicas on a broker that gets some", settings.replicas_per_broker, _most_replicas(candidate)),
        ("Partitions in one batch", settings.partitions_per_batch or None, candidate.most_partitions_in_a_batch),
        ("Leader changes in one batch", settings.leader_changes_per_batch, candidate.most_leader_changes_in_a_batch),
    ):
        if limit is not None:
            uses.append(LimitUse(name, format_count(limit), format_count(used), _share(used, limit)))
    if candidate.controller_bytes is not None:
        bearable, rewritten = candidate.controller_bytes_allowed, candidate.controller_bytes
        name = "Znodes that the controller rewrites for one batch"
        allowed, part = f"{format_bytes(bearable)}, fixed", _share(rewritten, bearable)
        uses.append(LimitUse(name, allowed, format_bytes(rewritten), part))
    if candidate.copies_at_once is not None:
        limit, used = settings.copies[1], candidate.copies_at_once
        name = "Copies at once on one broker"
        uses.append(LimitUse(name, format_count(limit), format_count(used), _share(used, limit)))
    if policy is not None:
        fastest = policy.max_throttle_bytes_per_second
        allowed = f"{format_rate(policy.min_throttle_bytes_per_second)} to {format_rate(fastest)}"
        share_of_rate = None if throttle is None else _share(throttle, fastest)
        uses.append(LimitUse("Throttle of one broker", allowed, format_rate(throttle), share_of_rate))
    return tuple(uses)


def _most_replicas(candidate: CandidateReport) -> int:
    """On a broker that ends with more than it holds now: `replicas_per_broker` allows what others hold already."""
    ends = (one.after.replicas for one in candidate.brokers if one.after.replicas > one.before.replicas)
    return max(ends, default=0)


def _share(used: float, limit: float) -> float | None:
    """None if the limit is 0, and nothing is used."""
    if limit > 0:
        return used / limit
    return 1.0 if used else None
