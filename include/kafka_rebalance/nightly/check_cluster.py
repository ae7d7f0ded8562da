"""The nightly check of one cluster: is it past its limit, and is a rebalance proposed? Never writes to the cluster."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from kafka_rebalance import clock
from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.json_files import plain
from kafka_rebalance.documents.segments import ClusterSegments
from kafka_rebalance.documents.snapshot import controller_document
from kafka_rebalance.documents.verdict import VERDICT_FILE, Measured, Verdict
from kafka_rebalance.errors import ClusterNotReadyError, NothingToDoError
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.moves.slow_brokers import often_in_words
from kafka_rebalance.nightly.proposed_job import (
    Wanted,
    disks_of_the_rest,
    measured,
    scores_of_the_rest,
    unread_words,
    which_job,
)
from kafka_rebalance.nightly.why_not_propose import CheckedCluster, proposal_of, why_not, within
from kafka_rebalance.planning.describe.shortfall import outside_pools
from kafka_rebalance.planning.problem.arrays import Problem
from kafka_rebalance.planning.rules.rack_rule import broken_now
from kafka_rebalance.planning.tables import history
from kafka_rebalance.planning.tables.history import DAYS, aggregated, in_worst_hour, read_topic_rates
from kafka_rebalance.planning.tables.read_problem import read_problem, write_snapshot
from kafka_rebalance.run import ledger, requester
from kafka_rebalance.run.inputs import Deployment, StepInputs
from kafka_rebalance.run.ledger import metric_rows
from kafka_rebalance.run.run_folder import RunFolder, create_run_folder
from kafka_rebalance.run.slow_brokers_seen import behind_now, slow_so_far
from kafka_rebalance.run.snapshot_reader import Snapshot, read_snapshot, write_topic_rates
from kafka_rebalance.segments.audit import with_first_findings
from kafka_rebalance.segments.audit_io import FINDINGS_KEPT, audit_rows, audit_snapshot

log = logging.getLogger(__name__)

FINDINGS_LOGGED = 20
_NOT_TOLD = ("controller", "segments", "observed_at", "disks")
AWAY_DAYS = 28.0  # earlier checks so old still tell since when a broker has been away


def check(inputs: StepInputs, connection_id: str) -> dict[str, Any]:
    """Snapshot, scores, audit and verdict. Leaves snapshot and verdict.json in the run's folder, and ledger rows."""
    deployment, run_id = inputs.deployment, inputs.run.run_id
    policy = deployment.read_policy(connection_id)
    # A snapshot refuses what the policy names and the cluster does not have. A check measures the rest.
    places, settings = (policy.with_rules(Settings()), policy.measured_by(Settings())) if policy else (Settings(),) * 2
    folder, _ = create_run_folder(deployment, connection_id, inputs.run)
    connection = deployment.read_connection(connection_id)
    try:
        taken = read_snapshot(connection, places, of_the_rest=True, to_execute=policy is not None)
    except ClusterNotReadyError:
        _skip_while_held(connection)
        raise
    snapshot = folder / json_files.SNAPSHOT_FOLDER
    digest = write_snapshot(snapshot, taken.brokers, taken.partitions)
    now = clock.utc_now()
    has_rates = write_topic_rates(connection, {row["topic"] for row in taken.partitions}, snapshot, now)
    problem = _with_history(deployment, read_problem(snapshot, settings), folder, connection_id, taken, now)
    broken, outside = broken_now(problem), outside_pools(problem, problem.replicas)
    figures = measured(scores_of_the_rest(problem, taken), broken, policy, outside)
    checks = _nights_in_a_row(ledger.read(deployment, "balance", connection_id, AWAY_DAYS, now=now))
    wanted = which_job(problem, figures.limit, policy, taken, checks, now)
    if (broken or outside) and wanted.params.get("job") == "elect":
        wanted = Wanted({})  # an election moves no replica
    figures = replace(
        figures,
        past_limit=figures.past_limit or wanted.called_for,
        text="; ".join(filter(None, [figures.text, wanted.text, *unread_words(taken, has_rates)])),
    )
    holder, rights = taken.configs.lock_holder, taken.missing_rights
    proposes, not_proposed = False, None
    if figures.past_limit and policy is not None:
        checked = CheckedCluster(deployment, connection_id, problem, policy, holder, now, rights)
        not_proposed, words = _why_not(checked, figures, wanted)
        figures = replace(figures, text=f"{figures.text}; {words}" if words else figures.text)
        proposes = not_proposed is None
    audit = audit_snapshot(taken)
    tonight = behind_now(taken)
    slow = slow_so_far(deployment, connection_id, now, tonight)
    figures = replace(figures, text="; ".join([figures.text, *map(often_in_words, slow)]))
    verdict = Verdict(
        **plain(figures),
        connection_id=connection_id,
        cluster_id=taken.view.cluster_id,
        brokers_away=taken.away.brokers,
        brokers_unread=taken.unread.log_dirs,
        is_whole=taken.away.is_empty and taken.unread.is_empty,
        propose=proposes,
        not_proposed=not_proposed,
        has_policy=policy is not None,
        has_rights=not rights,
        segment_errors=audit.errors,
        segment_warnings=audit.warnings,
        controller=controller_document(taken.view, taken.controller),
        segments=with_first_findings(audit, FINDINGS_KEPT),
        observed_at=now,
        disks=disks_of_the_rest(problem, taken),
        slow_brokers=slow,
    )
    if proposes:
        conf = {"kafka_conn_id": connection_id, "reason": figures.text, **within(figures.limit), **wanted.params}
        handed_on = requester.hand_on(folder, conf, inputs.run)
        verdict = replace(verdict, conf=handed_on, proposal=proposal_of(run_id, connection_id))
    VERDICT_FILE.write(folder, verdict, source_digest=digest)
    rows = {
        "metrics": metric_rows(taken),
        "balance": [
            _balance_row(verdict, run_id) | {"brokers_up": list(tonight.judged), "brokers_behind": list(tonight.slow)}
        ],
        "audits": audit_rows(audit),
    }
    for table, added in rows.items():
        # A rebalance may have the same run id, and its samples are in this table too.
        file = f"{inputs.run.dag_id}.{run_id}" if table == "metrics" else run_id
        ledger.append(deployment, table, connection_id, file, now, added)
    log.info("%s: %s", connection_id, verdict.text)
    _log_audit(connection_id, audit)
    return _told(verdict)


def _with_history(
    deployment: Deployment, problem: Problem, folder: RunFolder, connection_id: str, taken: Snapshot, now: datetime
) -> Problem:
    """Adds bytes in from metrics server, ledger and this night's samples. If these are too few, they stay unknown."""
    snapshot = folder / json_files.SNAPSHOT_FOLDER
    known = ledger.read_columns(deployment, "metrics", connection_id, DAYS, now=now)
    tonight = [{"observed_at": now, **row} for row in metric_rows(taken)]
    samples = pa.concat_tables([known.table, pa.Table.from_pylist(tonight, schema=history.SAMPLES_SCHEMA)])
    existing = history.existing_partitions(problem, snapshot).drop_columns("lifetime_ms")
    existing = existing.append_column("lifetime_ms", pa.nulls(len(existing), pa.int64()))  # it looks at rates alone
    rows = in_worst_hour(aggregated(samples, existing), read_topic_rates(snapshot))
    content = history.write_history(folder, rows, known.files + 1, known.unreadable)
    return history.planned_with(problem, snapshot, content, history.HISTORY)


def _nights_in_a_row(read: ledger.Found) -> list[dict[str, Any]]:
    """The earlier checks, newest first. They end at the first day with an unreadable file, whose result is unknown."""
    unreadable = max((name.partition("/")[0] for name in read.unreadable), default="")
    return [row for row in read.rows if f"day={row['observed_at']:%Y-%m-%d}" > unreadable]


def _skip_while_held(connection: ClusterConnection) -> None:
    """Skips the check if a run holds the cluster: a cluster that moves is no failure of the check."""
    with open_cluster(connection) as reader:
        holder = reader.lock.read()
    if holder is not None:
        raise NothingToDoError(
            f"{connection.connection_id} is not checked: {holder.name} holds it, and its moves would spoil the figures."
        )


def _why_not(checked: CheckedCluster, figures: Measured, wanted: Wanted) -> tuple[str | None, str]:
    """Why the check starts no rebalance of a cluster past its limit, or None; and what its text adds."""
    reason, words = (wanted.refused, "") if wanted.refused else why_not(checked, figures, wanted.params)
    return reason, f"no rebalance is proposed: {reason}" if reason else words


def _balance_row(verdict: Verdict, run_id: str) -> dict[str, Any]:
    """The verdict's figures. The skew of an unknown resource is null."""
    fullest, first = (verdict.disks.fullest, verdict.disks.first_full) if verdict.disks else (None, None)
    return {
        "run_id": run_id,
        "imbalance": verdict.imbalance,
        "resource": verdict.resource,
        "rack_violations": verdict.rack_violations,
        "limit": verdict.limit,
        "past_limit": verdict.past_limit,
        "brokers_away": list(verdict.brokers_away),
        "brokers_unread": list(verdict.brokers_unread),
        **{f"skew_{resource}": skew for resource, skew in verdict.skew.items()},
        "fullest_disk_broker": fullest and fullest.broker,
        "fullest_disk_share": fullest and fullest.used_share,
        "first_full_broker": first and first.broker,
        "first_full_days": first and first.days,
    }


def _told(verdict: Verdict) -> dict[str, Any]:
    """What the task pushes to XCom: the verdict without its longest parts, as JSON has it."""
    document = plain(verdict)
    names = ["connection_id", "cluster_id", *(name for name in document if name not in _NOT_TOLD)]
    return {name: list(it) if isinstance(it := document[name], tuple) else it for name in dict.fromkeys(names)}


def _log_audit(connection_id: str, audit: ClusterSegments) -> None:
    log.info("%s: segment settings: %d errors, %d warnings", connection_id, audit.errors, audit.warnings)
    for finding in audit.findings[:FINDINGS_LOGGED]:
        level = logging.ERROR if finding.severity == "error" else logging.WARNING
        log.log(level, "%s: %s: %s", connection_id, finding.rule, finding)
