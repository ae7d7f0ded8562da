"""Whether the nightly check proposes a rebalance of a cluster past its limit. If not, it says why."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.snapshot import SNAPSHOT_FILE
from kafka_rebalance.documents.verdict import Measured
from kafka_rebalance.errors import PlanningError, RebalanceError
from kafka_rebalance.model.amounts_in_words import share_in_words
from kafka_rebalance.model.candidate import Metric, noun_of
from kafka_rebalance.model.finding import Finding, some
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.settings import REFUSE, Settings
from kafka_rebalance.nightly import after_rejection
from kafka_rebalance.nightly.after_rejection import AGAIN_AFTER, ClusterState, RejectedState
from kafka_rebalance.nightly.proposed_job import skew
from kafka_rebalance.planning.describe.shortfall import may_be_repaired
from kafka_rebalance.planning.evenness import HotSpot, hot_spots, scores
from kafka_rebalance.planning.planner import Reachable, can_be_more_even, tolerance_for
from kafka_rebalance.planning.problem.arrays import LEADER_METRICS, Problem, loads_now, shares
from kafka_rebalance.planning.rules.rack_rule import broken_lists, broken_now, rack_rules, rackless
from kafka_rebalance.planning.tables.read_problem import read_problem
from kafka_rebalance.run import ledger
from kafka_rebalance.run.approval_rules import DECISION_FILE, REJECT
from kafka_rebalance.run.clusters import REBALANCE_DAG
from kafka_rebalance.run.inputs import Deployment
from kafka_rebalance.run.run_folder import folder_of_run, newest_attempt

log = logging.getLogger(__name__)

_DAY_SECONDS = 86_400
_QUEUED_DAYS = 31  # so long a Dag may be paused while a run that a check has started waits


@dataclass(frozen=True, slots=True)
class CheckedCluster:
    """What a nightly check knows about its cluster. `holder` is the run that holds the cluster's lock.

    `missing_rights`: what a rebalance has to write, and this connection may not.
    """

    deployment: Deployment
    connection_id: str
    problem: Problem
    policy: Policy
    holder: str | None
    now: datetime
    missing_rights: tuple[Finding, ...] = ()

    def rows(self, table: str, days: float) -> list[dict[str, Any]]:
        """Raises StorageError if the ledger cannot be read."""
        return ledger.read(self.deployment, table, self.connection_id, days, now=self.now).rows


def why_not(checked: CheckedCluster, measured: Measured, params: Mapping[str, Any]) -> tuple[str | None, str]:
    """Why the check proposes nothing for a cluster past its limit, or None; and what else the approver should know.

    `params` are those of the rebalance; there are none if it balances the whole cluster. Raises StorageError if the
    ledger cannot be read.
    """
    reason = _obstacle(checked, measured, params)
    rejection = _rejection(checked, params) if reason is None else None
    if rejection is None:
        return reason, ""
    state = _state(checked.problem, checked.policy.digest)
    changes = after_rejection.changed_since(rejection, state, checked.now, checked.policy.imbalance_limit)
    if changes:
        return None, after_rejection.again(rejection, changes)
    return after_rejection.not_again(rejection), ""


def _obstacle(checked: CheckedCluster, measured: Measured, params: Mapping[str, Any]) -> str | None:
    if checked.holder is not None:
        return f"the run {checked.holder} holds the cluster"
    if checked.missing_rights:
        return f"this connection may not write what a rebalance needs: {some(checked.missing_rights)}"
    without_rack = checked.problem.brokers[rackless(checked.problem)].tolist()
    if without_rack and checked.policy.rackless_brokers == REFUSE:
        ids = ", ".join(map(str, without_rack))
        return f"broker {ids} has no rack though others have one: set broker.rack, or rackless_brokers in the policy"
    helpless = None if params else cannot_help(checked.problem, measured)
    if helpless is not None:
        return helpless
    open_run = _open_run(checked)
    return open_run and f"the run {open_run} of {REBALANCE_DAG} is open; answer or end it first"


def cannot_help(problem: Problem, measured: Measured) -> str | None:
    """Why no rebalance is proposed, and what would help; None if one would help.

    Either none can help, or no broker is off by more than the limit of what racks and disks allow it.
    """
    if not problem.movable.any():
        return (
            "no topic may be moved: Kafka's own topics stay where they are, and so does what topics_out of the policy "
            "names"
        )
    limit = measured.limit
    past = [resource for resource, off in measured.skew.items() if off > limit]
    if measured.outside_pools or may_be_repaired(problem, broken_lists(rack_rules(problem), problem.replicas)).any():
        return None
    if not past:
        return "a rebalance cannot help: no plan may move the partitions that break the rack rule"
    try:
        even = can_be_more_even(problem, past, limit)
    except PlanningError as refused:
        return f"no plan is possible: {refused}"
    if any(reachable.can_help for reachable in even.values()):
        return None
    spots = hot_spots(problem, past, limit)
    forced = [resource for resource in past if not spots[resource] and even[resource].furthest <= limit]
    stays = bool(problem.closed.any()) or not problem.relocatable.all()
    keeps = "cordons and the policy keep" if problem.shut else "the policy keeps"
    kept = f" with what {keeps} in place" if stays else ""
    helpless = [_helpless(resource, spots[resource], kept) for resource in past if resource not in forced]
    words = ["a rebalance cannot help: " + "; ".join(helpless)] if helpless else []
    return "; ".join([*words, *(_forced(resource, even[resource], limit, kept) for resource in forced)])


def within(limit: float) -> dict[str, float]:
    """The tolerance of a rebalance for this limit, as a param; none if it is the default."""
    tolerance = tolerance_for(limit)
    return {} if tolerance == Settings().tolerance else {"tolerance": tolerance}


def _forced(resource: str, reachable: Reachable, limit: float, kept: str) -> str:
    forced, furthest, allowed = (share_in_words(share) for share in (reachable.forced, reachable.furthest, limit))
    is_of_leaders = resource in LEADER_METRICS
    who = "the replicas that brokers hold" if is_of_leaders else "racks and disks"
    remedy = "More partitions" if is_of_leaders else "More brokers in the racks that have fewer"
    return (
        f"{who}{kept} alone keep {noun_of(resource)} {forced} off. Of the share that they allow, the worst broker is "
        f"{furthest} off, and the limit is {allowed}. {remedy} would help"
    )


def _helpless(resource: str, spots: Sequence[HotSpot], kept: str) -> str:
    if not spots:
        words = f"{noun_of(resource)} are as even as the sizes of single partitions{kept} allow"
        return f"{words}. More partitions would help"
    spot = spots[0]
    more = f" (and {len(spots) - 1} more like it)" if len(spots) > 1 else ""
    more_partitions = "More partitions (kafka_topics, alter)"
    keys = f"{more_partitions}, or keys that spread better, would help"
    remedy = {
        Metric.DISK: f"{more_partitions} spread new records. A shorter retention shrinks the partition",
        Metric.BYTES_IN: keys,
        Metric.LEADER_BYTES_OUT: keys,
    }.get(Metric(resource), "More partitions would help, or fewer brokers")
    return (
        f"{spot.topic}-{spot.partition} alone{more} has {spot.share:.2f} times a broker's share of "
        f"{noun_of(resource)}, on any broker. {remedy}"
    )


_LONGEST_RUN_ID = 250  # of Airflow's


def proposal_of(check_run_id: str, connection_id: str) -> str:
    """The run id of the rebalance that this check starts. A retry uses the same name, so it starts no second run."""
    name = f"proposed__{check_run_id}__{connection_id}"
    if len(name) <= _LONGEST_RUN_ID:
        return name
    return f"{name[: _LONGEST_RUN_ID - 33]}_{hashlib.sha256(name.encode()).hexdigest()[:32]}"


def _open_run(checked: CheckedCluster) -> str | None:
    """A rebalance of this cluster that Airflow says is not over. It has a plan, or a check has started it and it still
    waits in the queue or is being planned.
    """
    days = checked.policy.approval_expires_after_seconds / _DAY_SECONDS + AGAIN_AFTER.days
    planned = [row["run_id"] for row in checked.rows("plans", days)]
    started = [
        proposal_of(row["run_id"], checked.connection_id)
        for row in checked.rows("balance", max(days, _QUEUED_DAYS))
        if row["past_limit"] and row["run_id"]
    ]
    is_active = checked.deployment.other_runs.is_active
    return next((run for run in dict.fromkeys(planned + started) if run and is_active(REBALANCE_DAG, run)), None)


def _rejection(checked: CheckedCluster, params: Mapping[str, Any]) -> RejectedState | None:
    """The last answer to a rebalance of the whole cluster with these params, if it was a rejection. Answers about other
    jobs do not count.
    """
    for row in checked.rows("decisions", AGAIN_AFTER.days + 1):
        if row["dag_id"] != REBALANCE_DAG or row["choice"] is None or row["run_id"] is None:
            continue
        try:
            run = folder_of_run(checked.deployment, checked.connection_id, row["run_id"])
            folder = newest_attempt(run, REBALANCE_DAG)
            if folder is None:
                continue
            taken = SNAPSHOT_FILE.read(folder)
            if not _is_of_everything(taken.asked, params):
                continue
            if row["choice"] != REJECT:
                return None
            decision = DECISION_FILE.read_if_there(folder)
            by = (decision and decision.by) or row["by"] or "somebody"
            problem = read_problem(folder / json_files.SNAPSHOT_FOLDER, checked.problem.settings)
        except (RebalanceError, OSError, KeyError) as unreadable:
            log.warning("Run %s has an answer, but its folder cannot be read: %s", row["run_id"], unreadable)
            continue
        state = _state(problem, taken.policy_digest)
        return RejectedState(row["run_id"], by, row["at"] or row["observed_at"], row["note"] or "", state)
    return None


def _is_of_everything(settings: Settings, params: Mapping[str, Any]) -> bool:
    """Whether the run was for the same job on the whole cluster, like the runs of the nightly check."""
    default = Settings()
    left_out = {key: value for key, value in settings.to_mapping().items() if key in ("drain", "replace")}
    return (
        settings.job == params.get("job", default.job)
        and (not params or all((value or None) == params.get(key) for key, value in left_out.items()))
        and settings.topics_in == default.topics_in
        and settings.plan is None
    )


def _state(problem: Problem, policy_digest: str | None) -> ClusterState:
    return ClusterState(
        frozenset(problem.brokers[problem.registered].tolist()),
        skew(scores(problem, loads_now(problem), shares(problem))),
        broken_now(problem),
        policy_digest,
    )
