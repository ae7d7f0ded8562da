"""What each task of `kafka_rebalance` does, one function a task. The rooms below know the how."""

from __future__ import annotations

import itertools
import logging
import platform
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from kazoo.client import KazooClient

import kafka_rebalance
from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.folder_owner import read_folder_owner
from kafka_rebalance.errors import (
    ArtifactError,
    FrozenError,
    LockHeldError,
    NotInSyncError,
    StoppedError,
    VerificationError,
    WriteError,
)
from kafka_rebalance.execution.approval_rules import OFFERED
from kafka_rebalance.execution.check.automatic_elections import automatic_elections
from kafka_rebalance.execution.check.cluster_ready import refuse
from kafka_rebalance.execution.check.cruise_control import cruise_control
from kafka_rebalance.execution.eta import with_controller
from kafka_rebalance.execution.throttle.auto_rate import AUTO
from kafka_rebalance.execution.time_window import read_window
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.settings import OFFER, Settings
from kafka_rebalance.planning.planner import prepare
from kafka_rebalance.planning.tables.snapshot_files import write_snapshot
from kafka_rebalance.spark import package_zip
from kafka_rebalance.steps.deployment import read_connection
from kafka_rebalance.steps.inputs import RunName, SparkArguments, StepInputs
from kafka_rebalance.verification.check_result import document, only_behind, summarise
from kafka_rebalance.verification.emptied_brokers import check_emptied
from kafka_rebalance.verification.preferred_leaders import check_leaders
from kafka_rebalance.verification.replicas_in_place import check_not_deleted, check_placement, check_same_topics
from kafka_rebalance.workflow import plans, rejection, segment_audit
from kafka_rebalance.workflow.controller import controller_document
from kafka_rebalance.workflow.ledger import estimate, ledger
from kafka_rebalance.workflow.pages import report_files
from kafka_rebalance.workflow.reassignment import batch_notes, elections
from kafka_rebalance.workflow.run import running, who_asked
from kafka_rebalance.workflow.run.approved import ApprovedPlan, decider, read_approved, read_plan_view
from kafka_rebalance.workflow.run.folder import check_submitted, create_run_folder, open_own_folder
from kafka_rebalance.workflow.run.left_out import check_left_out
from kafka_rebalance.workflow.run.lock import lock_owner
from kafka_rebalance.workflow.run.policies import read_policy
from kafka_rebalance.workflow.run.segments import check_segment_settings
from kafka_rebalance.workflow.snapshot import metric_rows, take_snapshot
from kafka_rebalance.workflow.throttle import in_force, rates, standing
from kafka_rebalance.zookeeper import cluster_lock
from kafka_rebalance.zookeeper.client import open_client, read_children
from kafka_rebalance.zookeeper.reader import read_assignments
from kafka_rebalance.zookeeper.znodes import paths

log = logging.getLogger(__name__)

PARAMS_OUTSIDE_SETTINGS = (
    "kafka_conn_id",
    "internal_topics",
    "reason",
    "plan",
    "plan_path",
    "topics_to_move",
    "not_before",
    "finish_by",
    who_asked.ASKED_IN,
)


def snapshot(inputs: StepInputs, params: Mapping[str, Any]) -> dict[str, Any]:
    """Reads params, policy and cluster once; everything later works from the files this writes."""
    connection_id = params["kafka_conn_id"]
    given = {key: value for key, value in params.items() if key not in PARAMS_OUTSIDE_SETTINGS and value is not None}
    auto = given.get("throttle_bytes_per_second") == AUTO
    if auto:  # told once there is a plan; planned with the policy's highest, so that no copy is expected to last longer
        del given["throttle_bytes_per_second"]
    topics = plans.given_topics(params)
    given |= {"plan": plans.given_plan(params)} | ({} if topics is None else {"topics_in": list(topics)})
    asked = Settings.from_mapping(given)
    window = read_window(params)
    requester = who_asked.read_requester(inputs.run)
    policy = read_policy(connection_id)
    connection = read_connection(connection_id)
    running.check_plans_nothing_meanwhile(connection, inputs.run)
    folder, nonce = create_run_folder(connection_id, inputs.run)
    inputs.tell("run_folder", str(folder))
    inputs.tell("nonce", nonce)
    internal = bool(params.get("internal_topics"))
    taken = take_snapshot(connection, asked, internal_topics=internal)
    if auto:
        rates.check_network_known(connection, sorted(taken.view.brokers))
    if policy is not None and not policy.beside_cruise_control:
        refuse(cruise_control({tp.topic for tp in taken.view.partitions}, taken.configs["brokers"]))
    if policy is None:
        log.warning(
            "There is no policy file for %s: the cluster is read-only, a plan is made and nothing is written",
            connection_id,
        )
        settings = asked
    else:
        settings = policy.tighten(asked, cluster_bytes=taken.cluster_bytes, internal_topics=internal)
    if who_asked.is_way_back(inputs.run):  # it mostly ends less even, and must be there when it is needed
        settings = replace(settings, less_even_plan=OFFER)
    observed_at = datetime.now(UTC)
    tables_digest = write_snapshot(folder / json_files.SNAPSHOT_FOLDER, taken.brokers, taken.partitions)
    json_files.write_json(
        folder / json_files.SNAPSHOT_FOLDER, "configs.json", taken.configs, source_digest=tables_digest
    )
    prepare(folder / json_files.SNAPSHOT_FOLDER, settings)  # what no plan can satisfy fails here, not in Spark
    json_files.write_json(folder, json_files.SETTINGS, settings.to_mapping())
    json_files.write_json(
        folder,
        json_files.SNAPSHOT,
        {
            "connection_id": connection_id,
            "cluster_id": taken.view.cluster_id,
            "controller": controller_document(taken.view, taken.controller),
            "automatic_elections": automatic_elections(taken.configs["brokers"]).to_mapping(),
            "observed_at": observed_at.isoformat(timespec="seconds"),
            "dag_id": inputs.run.dag_id,
            "run_id": inputs.run.run_id,
            "requested_by": inputs.run.started_by,
            who_asked.REQUESTER: {"automatic": requester.automatic, "plan_by": requester.plan_by},
            "reason": params.get("reason") or "",
            "window": window.to_mapping(),
            "settings": settings.to_mapping(),
            "throttle": AUTO if auto else None,
            "policy": policy.to_mapping() if policy else None,
            "policy_digest": policy.digest if policy else None,
            "snapshot_digest": tables_digest,
            "brokers": len(taken.brokers),
            "partitions": len(taken.partitions),
            "cluster_bytes": taken.cluster_bytes,
            "versions": {"kafka_rebalance": kafka_rebalance.__version__, "python": platform.python_version()},
            "nonce": nonce,
        },
        source_digest=tables_digest,
    )
    package_zip.build(folder / json_files.PACKAGE_ZIP)
    ledger.append("metrics", connection_id, inputs.run.run_id, observed_at, metric_rows(taken))
    inputs.tell("metrics", str(ledger.folder_of("metrics", connection_id)))
    return {"brokers": len(taken.brokers), "partitions": len(taken.partitions), "cluster_bytes": taken.cluster_bytes}


def check_not_begun(inputs: StepInputs, submit: SparkArguments) -> None:
    """Before `plan`: what is being executed is not planned again, and nothing of another run is submitted.

    Checked is what Spark gets, whatever XCom says by now: the zip is code that it runs.
    """
    given = dict(itertools.pairwise(submit.application_args))
    folder = open_own_folder(given["--out"], inputs.run, given["--expect-nonce"])
    wanted = {
        "--snapshot": f"{folder}/{json_files.SNAPSHOT_FOLDER}",
        "--settings": f"{folder}/{json_files.SETTINGS}",
        "--metrics": str(ledger.folder_of("metrics", read_folder_owner(folder).connection_id)),
        "--expect-run": f"{inputs.run.dag_id}/{inputs.run.run_id}",
    }
    same = all(given[name] == value for name, value in wanted.items())
    check_submitted(same and submit.py_files == f"{folder}/{json_files.PACKAGE_ZIP}")
    running.check_not_begun(folder)


def render_report(inputs: StepInputs, run_folder: str) -> dict[str, Any]:
    """report.html, every candidate in Kafka's JSON and as CSV, and the plan's rows of the ledger."""
    folder = open_own_folder(run_folder, inputs.run)
    report_files.write_reassignments(folder)
    found_by_plan = rates.measured(folder)
    segment_audit.write_audit(folder, found_by_plan.written)
    proposals = json_files.read_json(folder, json_files.PROPOSALS)
    written = json_files.read_json(folder, json_files.SNAPSHOT)
    connection_id = written["connection_id"]
    estimate.write_estimate(folder, connection_id, inputs.run.run_id, datetime.now(UTC))
    rejection.write_rejection(folder, connection_id, inputs.run.run_id, datetime.now(UTC))
    offered = [c["name"] for c in proposals["candidates"] if c["status"] in OFFERED]
    rates.write_rates(folder, offered, read_connection(connection_id), read_policy(connection_id), found_by_plan)
    report_files.write_report(folder)
    report_files.write_tables(folder)
    ledger.append(
        "plans",
        connection_id,
        inputs.run.run_id,
        datetime.fromisoformat(written["observed_at"]),
        [_plan_row(candidate, proposals, inputs.run.run_id) for candidate in proposals["candidates"]],
    )
    return {
        "recommended": proposals["recommended"],
        "candidates": {
            c["name"]: {"moved_bytes": c["moved_bytes"], "digest": c["digest"][:8], "status": c["status"]}
            for c in proposals["candidates"]
        },
    }


def _plan_row(candidate: Mapping[str, Any], proposals: Mapping[str, Any], run_id: str) -> dict[str, Any]:
    row = {
        key: candidate.get(key)
        for key in (
            "digest",
            "status",
            "moved_bytes",
            "moved_bytes_bound",
            "moved_replicas",
            "leader_changes",
            "makespan_seconds",
        )
    }
    disk = {phase: candidate["scores"][phase].get("disk", {}).get("max_over_mean") for phase in ("before", "after")}
    return {
        **row,
        "run_id": run_id,
        "candidate": candidate["name"],
        "recommended": candidate["name"] == proposals["recommended"],
        "disk_max_over_mean_before": disk["before"],
        "disk_max_over_mean_after": disk["after"],
    }


def elect_leaders(inputs: StepInputs, decision: Mapping[str, Any]) -> list[str]:
    """Preferred election for approved partitions whose leader is not the first replica; returns what is left."""
    plan = read_approved(decision, inputs.run)
    with open_client(read_connection(plan.connection_id).zookeeper) as client:
        left = _elect(client, plan, inputs.run)
    return [str(tp) for tp in left]


def check_verified(inputs: StepInputs) -> None:
    """Raises VerificationError where Airflow has skipped `verify`: somebody has marked the run, or a task before it."""
    if standing.is_skipped(inputs.run, "verify"):
        raise VerificationError(
            "The run was ended by hand, so whether the approved end was reached was not verified. Its throttle is put "
            "back by release_throttle or the janitor. To go on, clear hold_throttle with what follows it."
        )


def verify(inputs: StepInputs, decision: Mapping[str, Any]) -> dict[str, int]:
    """Holds the cluster against what was approved; verification.json has every check. Raises where one failed:
    NotInSyncError, which is worth a retry, where that is only since a broker is away or catching up at this moment.
    """
    plan = read_approved(decision, inputs.run)
    connection = read_connection(plan.connection_id)
    with open_client(connection.zookeeper) as client:
        if _document(plan, json_files.VERIFICATION).get("again"):
            _elect_who_is_back(client, plan, inputs.run)
        view = read_plan_view(client, plan)
        checks = [
            *check_placement(plan.candidate.moves, view),
            *check_same_topics(plan.candidate.moves, view, plan.tables.baseline.topics),
            *check_not_deleted(plan.candidate.moves, view),
            *check_leaders(plan.candidate.moves, view),
            *check_emptied(
                plan.to_be_empty,
                read_assignments(client, read_children(client, paths.TOPICS)),
                plan.snapshot["settings"]["topics_in"],
            ),
            *check_left_out(plan.left_out),
            *in_force.check_put_back(client, plan),
            *check_segment_settings(client, connection, plan),
        ]
    summary = summarise(checks)
    held_back = batch_notes.not_moved(plan, view)
    again = not held_back and only_behind(summary)
    json_files.write_json(
        plan.folder,
        json_files.VERIFICATION,
        {
            **document(checks),
            "not_moved": held_back,
            "again": again,
            "verified_at": datetime.now(UTC).isoformat(timespec="seconds"),
        },
        source_digest=plan.candidate.digest,
    )
    for line in summary.lines():
        log.info("%s", line)
    if not summary.passed:
        first = summary.failed[0]
        stopped = ""
        if held_back:
            stopped = f"{len(held_back['partitions'])} approved partitions were not moved: {held_back['why']} "
        text = (
            f"{stopped}{len(summary.failed)} of {len(checks)} checks failed; first {first.name} of {first.subject}: "
            f"{first.words}, must be {first.expectation}. No more was moved. See the run's report."
        )
        raise NotInSyncError(text) if again else VerificationError(text)
    return {"checks": len(checks), "warnings": len(summary.warnings)}


def _elect(client: KazooClient, plan: ApprovedPlan, started: RunName) -> tuple[TopicPartition, ...]:
    """Elects leaders of the whole plan where nobody else holds the cluster; gives who is not led as approved yet."""
    owner = lock_owner(plan.candidate.digest, started)
    allowed = elections.may_elect(plan, lambda: cluster_lock.read_own_fence(client, owner))
    most = elections.most_at_once(plan)
    return elections.elect_preferred(client, plan.candidate.moves, most=most, allowed=allowed)


def _elect_who_is_back(client: KazooClient, plan: ApprovedPlan, started: RunName) -> None:
    """The leaders of a broker that was away at the last verification: no task before this one runs again."""
    try:
        _elect(client, plan, started)
    except (FrozenError, LockHeldError, StoppedError, WriteError) as held:
        log.warning("No leader was elected before verifying again: %s", held)


def record(inputs: StepInputs, decision: Mapping[str, Any]) -> dict[str, Any]:
    """Predicted against actual, as a row of the ledger; returned with the approver's name, of which that has the id.

    Raises where the run was not verified: it is the last task.
    """
    plan = read_approved(decision, inputs.run)
    row = outcome_row(plan, inputs.run.run_id)
    ledger.append("outcomes", plan.connection_id, inputs.run.run_id, datetime.now(UTC), [row])
    report_files.write_report(plan.folder)
    if not row["verified"]:
        raise VerificationError(
            "The run did not reach the approved end, see verification.json. The ledger has it as not verified."
        )
    return row | {"approver": decider(plan.decision)}


def outcome_row(plan: ApprovedPlan, run_id: str) -> dict[str, Any]:
    """What was promised, and what the run's files say became of it."""
    verified = _document(plan, json_files.VERIFICATION).get("passed", False)
    batches = _document(plan, json_files.BATCHES).get("batches", [])
    done = [batch for batch in batches if batch["state"] == "done"]
    copied = [(batch, batch.get("measured_bytes")) for batch in done]
    seconds = None
    if done:
        begun = min(datetime.fromisoformat(batch["created_at"]) for batch in batches)
        ended = max(datetime.fromisoformat(batch["finished_at"]) for batch in done)
        seconds = (ended - begun).total_seconds()
    return {
        "run_id": run_id,
        "candidate": plan.candidate.name,
        "digest": plan.candidate.digest,
        "approved_by": plan.decision["approved_by"]["id"],
        "verified": bool(verified),
        "predicted_bytes": sum(move.bytes_to_copy for move in plan.candidate.moves),
        "copied_bytes": sum(batch["bytes"] if measured is None else measured for batch, measured in copied),
        "unmeasured_bytes": sum(batch["bytes"] for batch, measured in copied if measured is None),
        "predicted_seconds": _predicted_seconds(plan),
        "actual_seconds": seconds,
        "partitions": len(plan.candidate.moves),
        "batches": len(plan.candidate.batches),
        "throttle_bytes_per_second": plan.throttle_bytes_per_second,
    }


def _predicted_seconds(plan: ApprovedPlan) -> float | None:
    """At the throttle that was approved, which the approver may have changed, with what each batch takes besides."""
    planned = plan.candidate.summary.get("makespan_seconds")
    rate = plan.snapshot["settings"]["throttle_bytes_per_second"]
    if planned is None:
        return None
    return with_controller(float(planned) * rate / plan.throttle_bytes_per_second, len(plan.candidate.batches))


def _document(plan: ApprovedPlan, name: str) -> dict[str, Any]:
    """A file that a task before may not have come to write."""
    try:
        return json_files.read_json(plan.folder, name)
    except ArtifactError:
        return {}
