"""Which job the nightly check proposes: replace or drain a broker that is away, elect leaders, or balance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np

from kafka_rebalance.model.finding import some
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.nightly.how_uneven import skew
from kafka_rebalance.pages.units import format_count
from kafka_rebalance.planning.evenness.scores import scores
from kafka_rebalance.planning.problem.arrays import Problem
from kafka_rebalance.planning.problem.loads import all_loads, shares
from kafka_rebalance.run.checks.brokers_away import Away, away_since
from kafka_rebalance.run.cluster_snapshot import Snapshot

_NO_PLAN_UNREAD = "a plan needs what could not be read; the log of the check says why"
_NO_PLAN_AWAY = "no plan is made while a broker is away that holds replicas, unless it goes on without that broker"
_NO_PLAN_DELETIONS = "no plan is made while topics are being deleted, which waits for brokers that are down"
_NO_PLAN_LEADERLESS = "no plan is made while partitions have no leader"


@dataclass(frozen=True, slots=True)
class Wanted:
    """`params` of the rebalance beside the cluster; `balance` has none. `called_for`: needed at any balance."""

    params: Mapping[str, Any]
    text: str = ""
    called_for: bool = False
    refused: str = ""  # why nothing can be proposed


def which_job(
    problem: Problem,
    limit: float,
    policy: Policy | None,
    taken: Snapshot,
    checks: Sequence[Mapping[str, Any]],
    now: datetime,
) -> Wanted:
    """`checks` are the ledger's rows of earlier nights, the newest first."""
    wanted = Wanted({}) if taken.away.is_empty else _for_away(problem, policy, taken.away, checks, now)
    if not taken.unread.is_empty:
        return replace(wanted, refused=wanted.refused or _NO_PLAN_UNREAD)
    if not taken.away.is_empty:
        return wanted
    preferred = np.where(problem.movable, problem.replicas[:, 0], problem.leader)
    uneven = skew(scores(problem, all_loads(problem, problem.replicas, preferred), shares(problem)))
    led_elsewhere = int((problem.leader != preferred).sum())
    if led_elsewhere and max(uneven.values()) <= limit:
        return Wanted({"job": "elect"}, f"{led_elsewhere} partitions are not led by their preferred leader")
    return Wanted({})


def _for_away(
    problem: Problem, policy: Policy | None, away: Away, checks: Sequence[Mapping[str, Any]], now: datetime
) -> Wanted:
    since = {broker: away_since(broker, checks, now) for broker in away.brokers}
    text = "; ".join(
        f"broker {broker} is not registered, at least since {at:%Y-%m-%d %H:%M} UTC" for broker, at in since.items()
    )
    text += ": the rest is measured" if text else "the rest is measured"
    if away.deletions:
        text += f", without topics that are being deleted ({some(away.deletions)})"
    patience = policy.broker_away_after_seconds if policy else math.inf
    gone = [broker for broker, at in since.items() if (now - at).total_seconds() >= patience]
    goes_on = bool(gone) and away.only_wait_for(gone)
    if away.leaderless:
        many = format_count(len(away.leaderless), "partition", "partitions")
        text += f", without {many} that nobody leads ({some(away.leaderless)}). Start the brokers that hold them"
        text += ", or repair their log dirs" if not away.brokers else ""
        text += ": else they are lost" if goes_on else ""
    if away.leaderless and not goes_on:
        return Wanted({}, text, refused=_NO_PLAN_AWAY if away.brokers else _NO_PLAN_LEADERLESS)
    if away.deletions and not goes_on:
        return Wanted({}, text, refused=_NO_PLAN_DELETIONS)
    if policy is None or not gone:
        return Wanted({}, text, refused=_NO_PLAN_AWAY)
    holds = set(problem.replicas[problem.replicas >= 0].tolist())
    empty = [
        int(broker)
        for number, broker in enumerate(problem.brokers.tolist())
        if problem.receivers[number] and number not in holds and broker not in policy.brokers_out
    ]
    if len(empty) >= len(gone):
        pairs = {str(old): new for old, new in zip(gone, empty, strict=False)}
        return Wanted({"job": "replace", "replace": pairs}, text, called_for=True)
    return Wanted({"job": "drain", "drain": gone}, text, called_for=True)
