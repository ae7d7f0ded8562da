"""Which job the nightly check proposes: replace or drain a broker that is away, elect leaders, or balance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np

from kafka_rebalance.documents.proposals import Score
from kafka_rebalance.documents.snapshot import Disks
from kafka_rebalance.documents.verdict import Measured
from kafka_rebalance.model.amounts_in_words import share_in_words
from kafka_rebalance.model.candidate import Metric, noun_of
from kafka_rebalance.model.finding import some
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.pages.units import format_count
from kafka_rebalance.planning.evenness import first_full, fullest_disk, fullest_log_dir, scores
from kafka_rebalance.planning.problem.arrays import Bools, Problem, all_loads, loads_now, shares
from kafka_rebalance.run.checks.cluster_ready import Away, away_since
from kafka_rebalance.run.snapshot_reader import Snapshot, Unread

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
        f"broker {broker} is not registered, at least since {gone_since:%Y-%m-%d %H:%M} UTC"
        for broker, gone_since in since.items()
    )
    text += ": the rest is measured" if text else "the rest is measured"
    if away.deletions:
        text += f", without topics that are being deleted ({some(away.deletions)})"
    patience = policy.broker_away_after_seconds if policy else math.inf
    gone = [broker for broker, gone_since in since.items() if (now - gone_since).total_seconds() >= patience]
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


# How far the measured part of a cluster is from balance, and whether this is past its policy's limit.


def skew(by_metric: Mapping[str, Score]) -> dict[str, float]:
    """How far the worst broker is off its share, as a part of it, for each load that a plan evens and that is known."""
    return {metric: round(max(s.max_over_mean - 1, 1 - s.min_over_mean), 4) for metric, s in by_metric.items()}


def measured(
    by_metric: Mapping[str, Score], rack_violations: int, policy: Policy | None, outside_pools: int = 0
) -> Measured:
    """What the scores mean under this policy. `past_limit` says whether a rebalance is needed, and `text` says why.

    Without a policy nobody could approve a rebalance, so the check proposes none.
    """
    off = skew(by_metric)
    worst = max(off, key=lambda metric: off[metric])
    limit = policy.imbalance_limit if policy else Policy(approvers=()).imbalance_limit
    unbalanced = off[worst] > limit or rack_violations > 0 or outside_pools > 0
    text = (
        f"{noun_of(worst)} are {share_in_words(off[worst])} off their share on the worst broker, the limit is "
        f"{share_in_words(limit)}; {format_count(rack_violations, 'rack violation', 'rack violations')}"
    )
    if outside_pools:
        text += f"; {format_count(outside_pools, 'replica is', 'replicas are')} outside the pools of their topics"
    if unbalanced and policy is None:
        text += "; read-only, since there is no policy file, so no rebalance is proposed"
    return Measured(
        imbalance=off[worst],
        resource=worst,
        skew=off,
        rack_violations=rack_violations,
        outside_pools=outside_pools,
        limit=limit,
        past_limit=unbalanced and policy is not None,
        text=text,
    )


def scores_of_the_rest(problem: Problem, taken: Snapshot) -> dict[str, Score]:
    """Compares the brokers that report their log dirs with each other: the capacity of the others is unknown.

    If the size of a partition is unknown, bytes in are left out, because they are estimated from all sizes, and with
    them bytes out of leaders. Disk is left out too if one of these brokers has a replica of the partition.
    """
    rest = _without_silent(problem, taken)
    loads = np.where(_silent(problem, taken)[:, None], 0.0, loads_now(problem))
    unknown = {Metric.BYTES_IN, Metric.LEADER_BYTES_OUT} if taken.unread.sizes else set()
    unknown |= {Metric.DISK} if _disk_unknown(taken) else set()
    return {metric: score for metric, score in scores(rest, loads, shares(rest)).items() if metric not in unknown}


def disks_of_the_rest(problem: Problem, taken: Snapshot) -> Disks:
    """How full the disks of these brokers are. If the size of one of their partitions is unknown, so is this."""
    if _disk_unknown(taken):
        return Disks()
    rest = _without_silent(problem, taken)
    return Disks(fullest_disk(rest), first_full(rest), rest.rates.knows_growth, fullest_log_dir(rest))


def _silent(problem: Problem, taken: Snapshot) -> Bools:
    """[broker] Registered brokers that do not tell their log dirs."""
    return np.isin(problem.brokers, taken.unread.log_dirs)


def _without_silent(problem: Problem, taken: Snapshot) -> Problem:
    return replace(problem, leaving=problem.leaving | _silent(problem, taken))


def unread_words(taken: Snapshot, has_rates: bool = True) -> tuple[str, ...]:
    """Names what could not be read, and the figures that are missing because of it."""
    unread: Unread = taken.unread
    words = []
    if not has_rates:
        words.append("the metrics server cannot be read: bytes in are those of the ledger alone")
    if unread.log_dirs:
        words.append(f"broker {some(unread.log_dirs)} does not tell its log dirs: only the others are measured")
    if unread.configs:
        words.append(f"broker {some(unread.configs)} does not tell its configs")
    if unread.sizes:
        of = format_count(len(unread.sizes), "partition", "partitions")
        what = "bytes on disk, bytes in and bytes out are" if _disk_unknown(taken) else "bytes in and bytes out are"
        words.append(f"no replica in sync tells the size of {of} ({some(unread.sizes)}): {what} unknown")
    if unread.offsets:
        of = format_count(len(unread.offsets), "partition", "partitions")
        words.append(f"the offsets of {of} cannot be read ({some(unread.offsets)})")
    return tuple(words)


def _disk_unknown(taken: Snapshot) -> bool:
    silent = set(taken.unread.log_dirs)
    return any(set(taken.view.partitions[tp].replicas) - silent for tp in taken.unread.sizes)
