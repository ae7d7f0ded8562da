"""Whether the nightly check proposes a rebalance again after a person has rejected one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from kafka_rebalance.model.amounts_in_words import share_in_words
from kafka_rebalance.model.candidate import noun_of
from kafka_rebalance.model.finding import listed

GROWN = 0.10  # of a broker's share: the least growth of the imbalance that counts
AGAIN_AFTER = timedelta(days=14)


@dataclass(frozen=True, slots=True)
class ClusterState:
    brokers: frozenset[int]
    skew: Mapping[str, float]  # how far the worst broker is off its share, by resource
    rack_violations: int
    policy_digest: str | None


@dataclass(frozen=True, slots=True)
class RejectedState:
    run_id: str
    by: str
    at: datetime
    note: str
    state: ClusterState  # the cluster in that run's snapshot


def changed_since(rejection: RejectedState, now: ClusterState, at: datetime, limit: float) -> list[str]:
    """What is materially different from what was rejected, in words; empty: the check does not propose it again.

    A growth counts only past the limit.
    """
    before = rejection.state
    changes = [
        f"{noun_of(resource)} were {share_in_words(was)} off then and are {share_in_words(skew)} now"
        for resource, skew in now.skew.items()
        if skew > limit and skew - (was := before.skew.get(resource, 0.0)) >= GROWN
    ]
    if came := sorted(now.brokers - before.brokers):
        changes.append(f"broker {listed(came)} came")
    if went := sorted(before.brokers - now.brokers):
        changes.append(f"broker {listed(went)} went")
    if now.rack_violations > before.rack_violations:
        many = "" if now.rack_violations == 1 else "s"
        changes.append(f"{now.rack_violations} rack violation{many} instead of {before.rack_violations}")
    if now.policy_digest != before.policy_digest:
        changes.append("the policy has changed")
    if at - rejection.at >= AGAIN_AFTER:
        changes.append(f"{AGAIN_AFTER.days} days have passed")
    return changes


def not_again(rejection: RejectedState) -> str:
    """Why the check does not propose it again, and when it will."""
    note = f' ("{rejection.note}")' if rejection.note else ""
    return (
        f"{rejection.by} rejected this on {rejection.at:%Y-%m-%d}{note}, and nothing material has changed. The nightly "
        f"check proposes it again when the imbalance has grown by {share_in_words(GROWN)} of a share, a broker comes "
        "or goes, there are more rack violations, the policy changes, or from "
        f"{rejection.at + AGAIN_AFTER:%Y-%m-%d} on"
    )


def again(rejection: RejectedState, changes: list[str]) -> str:
    """What the approver reads about a proposal that was rejected before."""
    return f"proposed again although {rejection.by} rejected it on {rejection.at:%Y-%m-%d}: {'; '.join(changes)}"
