"""Whether the nightly check proposes a rebalance again after a person has rejected one. Plain values, no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from kafka_rebalance.model.amounts_in_words import share_in_words
from kafka_rebalance.model.finding import listed

GROWN = 0.10  # of a broker's share: by how much the imbalance has to have grown
AGAIN_AFTER = timedelta(days=14)


@dataclass(frozen=True, slots=True)
class ClusterState:
    """A cluster at one moment. `skew` is how far the worst broker is off its share, by resource."""

    brokers: frozenset[int]
    skew: Mapping[str, float]
    rack_violations: int
    policy_digest: str | None


@dataclass(frozen=True, slots=True)
class RejectedState:
    """Who rejected which run and why, and what the cluster was like in that run's snapshot."""

    run_id: str
    by: str
    at: datetime
    note: str
    seen: ClusterState


def changed_since(
    rejection: RejectedState, now: ClusterState, at: datetime, limit: float, words: Mapping[str, str]
) -> list[str]:
    """What is materially different from what was rejected, in words; nothing: it is not proposed again.

    `words` names the resources. Only what is past the limit counts as grown.
    """
    before, changes = rejection.seen, []
    for resource, skew in now.skew.items():
        was = before.skew.get(resource, 0.0)
        if skew > limit and skew - was >= GROWN:
            changes.append(f"{words[resource]} were {share_in_words(was)} off then and are {share_in_words(skew)} now")
    came, went = sorted(now.brokers - before.brokers), sorted(before.brokers - now.brokers)
    changes += [f"broker {listed(came)} came"] if came else []
    changes += [f"broker {listed(went)} went"] if went else []
    if now.rack_violations > before.rack_violations:
        many = "" if now.rack_violations == 1 else "s"
        changes.append(f"{now.rack_violations} rack violation{many} instead of {before.rack_violations}")
    if now.policy_digest != before.policy_digest:
        changes.append("the policy has changed")
    if at - rejection.at >= AGAIN_AFTER:
        changes.append(f"{AGAIN_AFTER.days} days have passed")
    return changes


def not_again(rejection: RejectedState) -> str:
    """Why it is not proposed again, and when it will be."""
    note = f' ("{rejection.note}")' if rejection.note else ""
    return (
        f"{rejection.by} rejected this on {rejection.at:%Y-%m-%d}{note}, and nothing material has changed. It is "
        f"proposed again when the imbalance has grown by {share_in_words(GROWN)} of a share, a broker comes or "
        "goes, racks are "
        f"violated, the policy changes, or from {rejection.at + AGAIN_AFTER:%Y-%m-%d} on"
    )


def again(rejection: RejectedState, changes: list[str]) -> str:
    """What to tell the approver of a proposal that was rejected before."""
    return f"proposed again although {rejection.by} rejected it on {rejection.at:%Y-%m-%d}: {'; '.join(changes)}"
