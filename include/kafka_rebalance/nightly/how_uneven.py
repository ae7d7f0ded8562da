"""How far the measured part of a cluster is from balance, and whether this is past its policy's limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from kafka_rebalance.documents.candidate_figures import Score
from kafka_rebalance.documents.disks import Disks
from kafka_rebalance.model.amounts_in_words import share_in_words
from kafka_rebalance.model.finding import some
from kafka_rebalance.model.metrics import Metric, noun_of
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.pages.units import format_count
from kafka_rebalance.planning.evenness.diagnosis import first_full, fullest_disk, fullest_log_dir
from kafka_rebalance.planning.evenness.scores import scores
from kafka_rebalance.planning.problem.arrays import Bools, Problem
from kafka_rebalance.planning.problem.loads import loads_now, shares
from kafka_rebalance.run.cluster_snapshot import Snapshot, Unread


def skew(found: Mapping[str, Score]) -> dict[str, float]:
    """How far the worst broker is off its share, as a part of it, for each load that a plan evens and that is known."""
    return {metric: round(max(s.max_over_mean - 1, 1 - s.min_over_mean), 4) for metric, s in found.items()}


def verdict(
    found: dict[str, Score], rack_violations: int, policy: Policy | None, outside_pools: int = 0
) -> dict[str, Any]:
    """What the scores mean under this policy. `past_limit` says whether a rebalance is needed, and `text` says why.

    `imbalance` is the skew of the worst resource. Without a policy nobody could approve a rebalance, so the check
    proposes none.
    """
    off = skew(found)
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
    return {
        "imbalance": off[worst],
        "resource": worst,
        "skew": off,
        "rack_violations": rack_violations,
        "outside_pools": outside_pools,
        "limit": limit,
        "past_limit": unbalanced and policy is not None,
        "text": text,
    }


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
    is_known = rest.growth_bytes_per_day is not None
    return Disks(fullest_disk(rest), first_full(rest), is_known, fullest_log_dir(rest))


def _silent(problem: Problem, taken: Snapshot) -> Bools:
    """[broker] Registered brokers that do not tell their log dirs."""
    return np.isin(problem.brokers, taken.unread.log_dirs)


def _without_silent(problem: Problem, taken: Snapshot) -> Problem:
    return replace(problem, leaving=problem.leaving | _silent(problem, taken))


def unread_words(taken: Snapshot, has_rates: bool = True) -> tuple[str, ...]:
    """Names what could not be read, and the figures that are missing because of it."""
    unread: Unread = taken.unread
    said = []
    if not has_rates:
        said.append("the metrics server cannot be read: bytes in are those of the ledger alone")
    if unread.log_dirs:
        said.append(f"broker {some(unread.log_dirs)} does not tell its log dirs: only the others are measured")
    if unread.configs:
        said.append(f"broker {some(unread.configs)} does not tell its configs")
    if unread.sizes:
        of = format_count(len(unread.sizes), "partition", "partitions")
        what = "bytes on disk, bytes in and bytes out are" if _disk_unknown(taken) else "bytes in and bytes out are"
        said.append(f"no replica in sync tells the size of {of} ({some(unread.sizes)}): {what} unknown")
    if unread.offsets:
        of = format_count(len(unread.offsets), "partition", "partitions")
        said.append(f"the offsets of {of} cannot be read ({some(unread.offsets)})")
    return tuple(said)


def _disk_unknown(taken: Snapshot) -> bool:
    silent = set(taken.unread.log_dirs)
    return any(set(taken.view.partitions[tp].replicas) - silent for tp in taken.unread.sizes)
