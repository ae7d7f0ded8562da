"""The first task: writes what the params ask for, and the cluster as it is, into files for all later tasks."""

from __future__ import annotations

import logging
import platform
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

import kafka_rebalance
from kafka_rebalance import clock
from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.snapshot import Cordon, KeptAway, controller_document, tiered_topics
from kafka_rebalance.errors import FrozenError, ReadError, RebalanceError, SettingsError
from kafka_rebalance.kafka.given_json import decode_given
from kafka_rebalance.kafka.reassign_tool_files import canonical_plan, check_listed_once
from kafka_rebalance.kafka.reassign_tool_files import given_topics as topics_of
from kafka_rebalance.kafka.topics import check_topic_name
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.settings import LEADERS_ALONE, OFFER, Settings
from kafka_rebalance.moves.windows import Window, read_window
from kafka_rebalance.planning.planner import prepare
from kafka_rebalance.planning.tables.read_problem import write_snapshot
from kafka_rebalance.planning.tables.result_tables import read_candidate
from kafka_rebalance.rebalance.earlier_proposals import last_proposal, with_lists
from kafka_rebalance.run import ledger, running_rebalance
from kafka_rebalance.run.approval_rules import REJECT
from kafka_rebalance.run.approved_plan import other_policies
from kafka_rebalance.run.checks.cluster_ready import automatic_elections, cruise_control, refuse
from kafka_rebalance.run.clusters import REBALANCE_DAG
from kafka_rebalance.run.inputs import Deployment, StepInputs
from kafka_rebalance.run.ledger import metric_rows
from kafka_rebalance.run.requester import (
    ASKED_IN,
    REQUESTER,
    check_somebody_may_approve,
    is_nightly_proposal,
    is_way_back,
    read_requester,
)
from kafka_rebalance.run.run_folder import create_run_folder, folder_of_run, newest_attempt
from kafka_rebalance.run.snapshot import Snapshot, read_snapshot, write_topic_rates
from kafka_rebalance.throttle import run_rates
from kafka_rebalance.throttle.cordon_leaving import cordon_of
from kafka_rebalance.throttle.rates import AUTO

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
    topics = _given_topics(params)
    given["plan"] = given_plan(inputs.deployment, params)
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
    tables_digest = write_snapshot(snapshot, taken.brokers, with_lists(_with_left(taken.partitions, left), last.lists))
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
    ledger.append(deployment, "metrics", connection_id, inputs.run.run_id, observed_at, metric_rows(taken))
    inputs.tell("metrics", str(ledger.folder_of(deployment, "metrics", connection_id)))
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
    return _left_lately(inputs.deployment, connection_id, inputs.run.run_id, taken.brokers, taken.partitions, now)


# Which brokers each partition left lately: a run that the nightly check has asked for gives it back to none of them.
#
# Only a preference, so that plans do not swing: what cannot be read is logged and counts for nothing.


REST_DAYS = 7

Rows = Sequence[Mapping[str, Any]]
Left = dict[TopicPartition, tuple[int, ...]]


def _left_lately(
    deployment: Deployment, connection_id: str, run_id: str, brokers: Rows, partitions: Rows, now: datetime
) -> Left:
    """The brokers from which runs of the last REST_DAYS took each partition, and which do not hold it now.

    `brokers` and `partitions` are rows of the snapshot. A run counts from its approval or its end, whichever is later.
    The run `run_id` itself does not count.
    """
    removed: defaultdict[TopicPartition, set[int]] = defaultdict(set)
    try:
        runs = dict(_approved(deployment, connection_id, now))
    except (RebalanceError, OSError) as unreadable:
        log.warning("%s: which plans were carried out lately cannot be read: %s", connection_id, unreadable)
        return {}
    for earlier, (name, digest) in runs.items():
        if earlier == run_id:
            continue
        try:
            for partition, taken_from in _removals(deployment, connection_id, earlier, name, digest):
                removed[partition] |= taken_from
        except (RebalanceError, OSError, KeyError) as gone:
            log.warning("Run %s was approved, but its moves cannot be read, and do not count: %s", earlier, gone)
    existing = {row["broker"] for row in brokers}
    found = {}
    for row in partitions:
        partition = TopicPartition(row["topic"], row["partition"])
        if left := removed.get(partition, set()) & existing - set(row["replicas"]):
            found[partition] = tuple(sorted(left))
    return found


def _with_left(partitions: Rows, left: Left) -> list[Mapping[str, Any]]:
    """The rows with the column `left_brokers` where there is something to say."""
    keys = ((row, left.get(TopicPartition(row["topic"], row["partition"]))) for row in partitions)
    return [row if brokers is None else {**row, "left_brokers": list(brokers)} for row, brokers in keys]


def _approved(deployment: Deployment, connection_id: str, now: datetime) -> Iterator[tuple[str, tuple[str, str]]]:
    """(run, (candidate, digest)) of the runs that were approved, or came to their end, in these days.

    A run that was approved and moved nothing does no harm: its partitions still lie where they were.
    """
    for table, choice in (("outcomes", "candidate"), ("decisions", "choice")):
        for row in ledger.read(deployment, table, connection_id, REST_DAYS, now=now).rows:
            ours = row.get("dag_id", REBALANCE_DAG) == REBALANCE_DAG
            if ours and row["run_id"] and row["digest"] and row[choice] not in (None, REJECT):
                yield row["run_id"], (row[choice], row["digest"])


def _removals(
    deployment: Deployment, connection_id: str, run_id: str, name: str, digest: str
) -> Iterable[tuple[TopicPartition, set[int]]]:
    """(partition, brokers that lose it) of the moves of a run. Brokers that the run was to empty are none of them,
    because one that comes back may be filled again.
    """
    folder = newest_attempt(folder_of_run(deployment, connection_id, run_id), REBALANCE_DAG)
    if folder is None:
        log.info("Run %s has no folder any more, so its moves do not count", run_id)
        return ()
    emptied = Settings.from_document(json_files.read_json(folder, json_files.SNAPSHOT)["settings"]).leaving
    candidate = read_candidate(folder, name)
    if candidate.digest != digest:
        log.warning("Run %s has planned again since its approval, so its moves do not count", run_id)
        return ()
    return [(move.topic_partition, set(move.removed) - emptied) for move in candidate.moves]


# Params in the JSON of kafka-reassign-partitions: a plan (pasted, or a file), and a topics-to-move file.


_UNTOUCHED = "Nothing was read from or written to the cluster."


def given_plan(deployment: Deployment, params: Mapping[str, Any]) -> str | None:
    """The plan of the params `plan` or `plan_path` in its canonical form; None if both are empty.

    Raises SettingsError if both are given or the path is not a file below the plans folder, KafkaRuleError if the text
    is not a plan.
    """
    pasted, path = _text(params, "plan"), str(params.get("plan_path") or "").strip()
    if pasted and path:
        raise SettingsError(
            f"The run has a pasted plan and plan_path {path!r}, but it takes only one. {_UNTOUCHED} Leave one empty."
        )
    text = _read(deployment, path) if path else pasted
    return canonical_plan(text) if path or pasted else None


def _given_topics(params: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The topics of the param `topics_to_move`; None if it is empty.

    Raises KafkaRuleError for a file that --generate would refuse, SettingsError if `topics_in` selects topics as well.
    """
    text = _text(params, "topics_to_move")
    if not text:
        return None
    topics = topics_of(text)
    check_listed_once(topics)
    for topic in topics:
        check_topic_name(topic)  # `topics_in` holds globs, so a wrong name could select other topics
    if not topics:
        raise SettingsError(f"topics_to_move names no topic. {_UNTOUCHED} Name one, or leave it empty.")
    selected = tuple(params.get("topics_in") or ())
    if selected not in ((), Settings().topics_in):
        raise SettingsError(
            f"The run has topics_to_move and topics_in {list(selected)}, but only one may say which topics may change. "
            f"{_UNTOUCHED} Leave one of them at its default."
        )
    return topics


def _text(params: Mapping[str, Any], name: str) -> str:
    """The param's text with its blanks, so that errors count its lines; empty if there is nothing else."""
    text = str(params.get(name) or "")
    return text if text.strip() else ""


def _read(deployment: Deployment, name: str) -> str:
    """The file's text. People who start a run must not see other files of the worker."""
    folder = deployment.plans_folder
    try:
        path = (folder / name).resolve()
        inside = path.is_relative_to(folder.resolve())
        if inside and path.is_file():
            return decode_given(path.read_bytes(), f"plan_path {name!r}")
    except (OSError, ValueError) as unreadable:  # ValueError: a null byte
        raise SettingsError(f"plan_path {name!r} cannot be read ({unreadable}). {_UNTOUCHED}") from unreadable
    why = "is not a file there" if inside else "leads out of it"
    raise SettingsError(
        f"plan_path {name!r} must name a file below the plans folder {folder}, and {why}. {_UNTOUCHED} "
        "Put the plan there ([kafka_rebalance] plans_folder), or paste it into `plan`."
    )
