"""The first task: writes what the params ask for, and the cluster as it is, into files for all later tasks."""

from __future__ import annotations

import logging
import platform
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

import kafka_rebalance
from kafka_rebalance import clock
from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.controller import controller_document
from kafka_rebalance.documents.snapshot import Cordon, KeptAway, tiered_topics
from kafka_rebalance.errors import FrozenError, ReadError, SettingsError
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.settings import LEADERS_ALONE, OFFER, Settings
from kafka_rebalance.moves.time_window import Window, read_window
from kafka_rebalance.planning.planner import prepare
from kafka_rebalance.planning.tables.snapshot_files import write_snapshot
from kafka_rebalance.rebalance import pasted_plan
from kafka_rebalance.rebalance.last_proposal import last_proposal, with_lists
from kafka_rebalance.rebalance.left_brokers import REST_DAYS, Left, left_lately, with_left
from kafka_rebalance.run import ledger_rows, running_rebalance
from kafka_rebalance.run.approved_plan import other_policies
from kafka_rebalance.run.checks.automatic_elections import automatic_elections
from kafka_rebalance.run.checks.cluster_ready import refuse
from kafka_rebalance.run.checks.cruise_control import cruise_control
from kafka_rebalance.run.cluster_snapshot import Snapshot, read_snapshot
from kafka_rebalance.run.deployment import Deployment
from kafka_rebalance.run.inputs import StepInputs
from kafka_rebalance.run.metric_rows import metric_rows
from kafka_rebalance.run.requester import (
    ASKED_IN,
    REQUESTER,
    check_somebody_may_approve,
    is_nightly_proposal,
    is_way_back,
    read_requester,
)
from kafka_rebalance.run.run_folder import create_run_folder
from kafka_rebalance.run.write_topic_rates import write_topic_rates
from kafka_rebalance.throttle import run_rates
from kafka_rebalance.throttle.auto_rate import AUTO
from kafka_rebalance.throttle.cordon_leaving import cordon_of

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
    "outside_windows",
    ASKED_IN,
)


def take_snapshot(inputs: StepInputs, params: Mapping[str, Any]) -> dict[str, Any]:
    connection_id = params["kafka_conn_id"]
    given = {key: value for key, value in params.items() if key not in PARAMS_OUTSIDE_SETTINGS and value is not None}
    auto = given.get("throttle_bytes_per_second") == AUTO
    if auto:  # chosen after the plan, which uses the policy's highest rate
        del given["throttle_bytes_per_second"]
    topics = pasted_plan.given_topics(params)
    given["plan"] = pasted_plan.given_plan(inputs.deployment, params)
    if topics is not None:
        given["topics_in"] = list(topics)
    asked, window = Settings.from_mapping(given), read_window(params)
    deployment = inputs.deployment
    requester = read_requester(deployment, inputs.run)
    policy, connection = deployment.read_policy(connection_id), deployment.read_connection(connection_id)
    if policy is not None:  # the guards of the snapshot ask for it
        asked = policy.with_rules(asked)
    running_rebalance.check_plans_nothing_meanwhile(inputs, connection)
    folder, nonce = create_run_folder(deployment, connection_id, inputs.run)
    inputs.tell("run_folder", str(folder))
    inputs.tell("nonce", nonce)
    internal = bool(params.get("internal_topics"))
    taken = read_snapshot(
        connection,
        asked,
        internal_topics=internal,
        to_execute=policy is not None,
        make_lock_ready=policy is not None and not _is_frozen(deployment, connection_id),
    )
    check_somebody_may_approve(None if taken.missing_rights else policy, requester)
    if auto:
        run_rates.check_network_known(connection, sorted(taken.view.brokers))
    if policy is not None and not policy.beside_cruise_control:
        refuse(cruise_control({tp.topic for tp in taken.view.partitions}, taken.configs["brokers"]))
    settings, others = _settings(deployment, connection, policy, asked, taken, internal_topics=internal)
    # What goes wrong must not wait for the night, so a way back takes no windows.
    if policy is not None and window == Window() and not params.get("outside_windows") and not is_way_back(inputs.run):
        window = read_window({"recurring": policy.windows})
    if is_way_back(inputs.run):  # a way back must be offered even if it ends less even, which is usual
        settings = replace(settings, less_even_plan=OFFER)
    observed_at = clock.utc_now()
    snapshot = folder / json_files.SNAPSHOT_FOLDER
    left = _left(inputs, connection_id, settings, taken, observed_at)
    last = last_proposal(deployment, connection_id, folder, settings.job, taken.brokers, taken.partitions, observed_at)
    tables_digest = write_snapshot(snapshot, taken.brokers, with_lists(with_left(taken.partitions, left), last.lists))
    configs_digest = json_files.write_json(snapshot, json_files.CONFIGS, taken.configs, source_digest=tables_digest)
    write_topic_rates(connection, {row["topic"] for row in taken.partitions}, snapshot, observed_at)
    prepare(snapshot, settings)  # fails here, before Spark, if no plan can satisfy the settings
    json_files.write_json(folder, json_files.SETTINGS, settings.to_mapping())
    tiered = tiered_topics(taken.partitions, taken.local_starts.untold)
    kept_away = KeptAway(sum(map(len, left.values())), REST_DAYS)
    cordon = _cordon(connection, policy, settings, taken)
    found = {"brokers": len(taken.brokers), "partitions": len(taken.partitions), "cluster_bytes": taken.cluster_bytes}
    json_files.write_json(
        folder,
        json_files.SNAPSHOT,
        {
            **found,
            "connection_id": connection_id,
            "cluster_id": taken.view.cluster_id,
            "controller": controller_document(taken.view, taken.controller),
            "automatic_elections": automatic_elections(taken.configs["brokers"]),
            "observed_at": observed_at.isoformat(timespec="seconds"),
            "dag_id": inputs.run.dag_id,
            "run_id": inputs.run.run_id,
            "requested_by": inputs.run.started_by,
            REQUESTER: {"automatic": requester.automatic, "plan_by": requester.plan_by},
            "reason": params.get("reason") or "",
            "window": window.to_mapping(),
            "settings": settings.to_mapping(),
            "throttle": AUTO if auto else None,
            "policy": policy.to_mapping() if policy else None,
            "policy_digest": policy.digest if policy else None,
            **({"missing_rights": list(map(asdict, taken.missing_rights))} if taken.missing_rights else {}),
            **({"other_policies": sorted(others)} if others else {}),
            **({"kept_away": asdict(kept_away)} if left else {}),
            **({"tiered": asdict(tiered)} if tiered is not None else {}),
            **({"cordon": asdict(cordon)} if cordon is not None else {}),
            **({"last_proposal": last.proposal} if last.proposal is not None else {}),
            "snapshot_digest": tables_digest,
            "configs_digest": configs_digest,
            "versions": {"kafka_rebalance": kafka_rebalance.__version__, "python": platform.python_version()},
            "nonce": nonce,
        },
        source_digest=tables_digest,
    )
    ledger_rows.append(deployment, "metrics", connection_id, inputs.run.run_id, observed_at, metric_rows(taken))
    inputs.tell("metrics", str(ledger_rows.folder_of(deployment, "metrics", connection_id)))
    return found


def _settings(
    deployment: Deployment,
    connection: ClusterConnection,
    policy: Policy | None,
    asked: Settings,
    taken: Snapshot,
    *,
    internal_topics: bool,
) -> tuple[Settings, Mapping[str, Policy]]:
    """(the settings of the run, other policies of the same cluster, by connection). Raises PolicyError."""
    if policy is None:
        log.warning(
            "There is no policy file for %s, so the cluster is read-only: the run makes a plan and writes nothing",
            connection.connection_id,
        )
        return asked.for_brokers(len(taken.brokers)), {}
    for missing in taken.missing_rights:
        log.warning("%s. The run makes a plan, and nobody is asked to approve it", missing)
    others = other_policies(deployment, connection.connection_id, taken.view.cluster_id)
    cluster_bytes, brokers = taken.cluster_bytes, len(taken.brokers)
    for name in others:
        log.warning("%s is the same cluster, and has another policy. The stricter limit of each counts", name)
    limits = policy.bound_by(tuple(others.values()), brokers)
    bound = limits.tighten(asked, cluster_bytes=cluster_bytes, brokers=brokers, internal_topics=internal_topics)
    return replace(bound, policy_digest=policy.digest), others


def _cordon(connection: ClusterConnection, policy: Policy | None, settings: Settings, taken: Snapshot) -> Cordon | None:
    if policy is None or not policy.cordon_leaving or settings.job in LEADERS_ALONE:
        return None
    return cordon_of(connection, taken.view, settings.leaving)


def _is_frozen(deployment: Deployment, connection_id: str) -> bool:
    """Then the lock's topics are not made before `hold_throttle`, which leaves out brokers that leave as well.

    True too if the switch cannot be read.
    """
    try:
        deployment.check_not_frozen(connection_id)
    except (FrozenError, SettingsError, ReadError) as frozen:
        log.warning("%s", frozen)
        return True
    return False


def _left(inputs: StepInputs, connection_id: str, settings: Settings, taken: Snapshot, now: datetime) -> Left:
    """The brokers that a proposal of the nightly check gives no replica back to. A person's run may do so."""
    if settings.job != "balance" or not is_nightly_proposal(inputs.run):
        return {}
    return left_lately(inputs.deployment, connection_id, inputs.run.run_id, taken.brokers, taken.partitions, now)
