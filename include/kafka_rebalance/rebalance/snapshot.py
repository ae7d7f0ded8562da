"""The first task: writes what the params ask for, and the cluster as it is, into files for all later tasks."""

from __future__ import annotations

import logging
import platform
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import kafka_rebalance
from kafka_rebalance import clock
from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.progress import OftenSlow
from kafka_rebalance.documents.snapshot import (
    CONFIGS_FILE,
    SNAPSHOT_FILE,
    AskedFor,
    Cordon,
    GivesBack,
    KeptAway,
    LastProposal,
    SnapshotTaken,
    controller_document,
    tiered_topics,
    write_settings,
)
from kafka_rebalance.errors import FrozenError, ReadError, RebalanceError, SettingsError
from kafka_rebalance.kafka.given_json import decode_given
from kafka_rebalance.kafka.reassignment_json import canonical_plan, check_listed_once
from kafka_rebalance.kafka.reassignment_json import given_topics as topics_of
from kafka_rebalance.kafka.topics import check_topic_name
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.policy import RECEIVE_NOTHING, Policy
from kafka_rebalance.model.settings import GIVE_BACK, LEADERS_ALONE, OFFER, Settings
from kafka_rebalance.moves.windows import Window, read_window, recurring_windows
from kafka_rebalance.planning.planner import prepare
from kafka_rebalance.planning.tables.read_problem import write_snapshot
from kafka_rebalance.planning.tables.result_tables import read_candidate
from kafka_rebalance.rebalance.earlier_proposals import last_proposal, with_lists
from kafka_rebalance.rebalance.give_back import DEMOTE_RUN_ID, approved_demote, read_give_back
from kafka_rebalance.run import ledger, running_rebalance
from kafka_rebalance.run.approval_rules import REJECT, Requester
from kafka_rebalance.run.checks.cluster_ready import automatic_elections, cruise_control, refuse
from kafka_rebalance.run.clusters import REBALANCE_DAG
from kafka_rebalance.run.inputs import Deployment, StepInputs
from kafka_rebalance.run.ledger import metric_rows
from kafka_rebalance.run.policies_of_one_cluster import bound_by, other_policies
from kafka_rebalance.run.requester import (
    ASKED_IN,
    check_somebody_may_approve,
    is_nightly_proposal,
    is_way_back,
    read_requester,
)
from kafka_rebalance.run.run_folder import RunFolder, begin_run_folder, folder_of_run, newest_attempt
from kafka_rebalance.run.slow_brokers_seen import behind_now, slow_so_far
from kafka_rebalance.run.snapshot_reader import Snapshot, read_snapshot, write_topic_rates
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
    DEMOTE_RUN_ID,
    ASKED_IN,
)


def take_snapshot(inputs: StepInputs, params: Mapping[str, Any]) -> dict[str, Any]:
    deployment, run = inputs.deployment, inputs.run
    asked = _read_asked(inputs, params)
    running_rebalance.check_plans_nothing_meanwhile(inputs, asked.connection)
    folder, nonce = begin_run_folder(inputs, asked.connection_id)
    cluster = _read_cluster(deployment, asked)
    settings, others = _settings(deployment, asked, cluster)
    settings, slow = _without_slow(deployment, asked, settings, cluster)
    if is_way_back(run) or asked.back is not None:  # these must be offered even if they end less even, as is usual
        settings = replace(settings, less_even_plan=OFFER)
    tables = _write_tables(inputs, folder, asked, settings, cluster)
    taken = SnapshotTaken(
        connection_id=asked.connection_id,
        cluster_id=cluster.view.cluster_id,
        dag_id=run.dag_id,
        run_id=run.run_id,
        observed_at=tables.observed_at.replace(microsecond=0),
        brokers=len(cluster.brokers),
        partitions=len(cluster.partitions),
        cluster_bytes=cluster.cluster_bytes,
        settings=settings.to_mapping(),
        throttle=AUTO if asked.auto else None,
        policy=asked.policy.to_mapping() if asked.policy else None,
        policy_digest=asked.policy.digest if asked.policy else None,
        missing_rights=cluster.missing_rights,
        requested_by=run.started_by,
        requester=AskedFor(asked.requester.automatic, asked.requester.plan_by),
        reason=asked.reason,
        controller=controller_document(cluster.view, cluster.controller),
        window=asked.window.written,
        automatic_elections=automatic_elections(cluster.configs.brokers),
        slow_brokers=slow,
        kept_away=tables.kept_away,
        last_proposal=tables.last_proposal,
        other_policies=tuple(sorted(others)),
        tiered=tiered_topics(cluster.partitions, cluster.local_starts.untold),
        cordon=_cordon(asked, settings, cluster),
        gives_back=asked.back,
        approves_give_back=settings.is_demote and bool(asked.policy and asked.policy.demote_approves_give_back),
        snapshot_digest=tables.digest,
        configs_digest=tables.configs_digest,
        versions={"kafka_rebalance": kafka_rebalance.__version__, "python": platform.python_version()},
        nonce=nonce,
    )
    SNAPSHOT_FILE.write(folder, taken, source_digest=tables.digest)
    rows = metric_rows(cluster)
    ledger.append(deployment, "metrics", asked.connection_id, run.run_id, tables.observed_at, rows)
    inputs.tell("metrics", str(ledger.folder_of(deployment, "metrics", asked.connection_id)))
    return {"brokers": taken.brokers, "partitions": taken.partitions, "cluster_bytes": taken.cluster_bytes}


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the params ask for, of which cluster, and by whom."""

    connection: ClusterConnection
    policy: Policy | None  # None: the cluster is read-only
    requester: Requester
    settings: Settings  # with the rules of the policy, without its limits
    auto: bool  # the throttle is chosen after the plan, which uses the policy's highest rate
    internal_topics: bool
    window: Window
    reason: str
    back: GivesBack | None  # what the run is to give back; None: it has another job
    is_approved: bool  # with the demote

    @property
    def connection_id(self) -> str:
        return self.connection.connection_id


def _read_asked(inputs: StepInputs, params: Mapping[str, Any]) -> _Asked:
    """Raises SettingsError, KafkaRuleError, PolicyError, and what `read_give_back` raises."""
    deployment, connection_id = inputs.deployment, params["kafka_conn_id"]
    given = {key: value for key, value in params.items() if key not in PARAMS_OUTSIDE_SETTINGS and value is not None}
    gives_back = given.get("job") == GIVE_BACK
    if gives_back:
        given["job"] = "leaders"
    auto = given.get("throttle_bytes_per_second") == AUTO
    if auto:
        del given["throttle_bytes_per_second"]
    topics = _given_topics(params)
    given["plan"] = given_plan(deployment, params)
    if topics is not None:
        given["topics_in"] = list(topics)
    settings, window = Settings.from_mapping(given), read_window(params)
    requester = read_requester(deployment, inputs.run)
    policy, connection = deployment.read_policy(connection_id), deployment.read_connection(connection_id)
    if policy is not None:  # the guards of the snapshot ask for it
        settings = policy.with_rules(settings)
        # What goes wrong must not wait for the night, so a way back takes no windows.
        if window == Window() and not params.get("outside_windows") and not is_way_back(inputs.run):
            window = Window(recurring=recurring_windows(policy.windows or ()))
    internal, reason = bool(params.get("internal_topics")), params.get("reason") or ""
    asked = _Asked(connection, policy, requester, settings, auto, internal, window, reason, None, is_approved=False)
    return _giving_back(inputs, asked, params.get(DEMOTE_RUN_ID) or None) if gives_back else asked


def _giving_back(inputs: StepInputs, asked: _Asked, demote: str | None) -> _Asked:
    back = read_give_back(inputs.deployment, asked.connection, asked.settings, demote)
    approved = None if asked.policy is None else approved_demote(inputs, back.document, asked.policy)
    return replace(
        asked,
        settings=back.settings_of(asked.settings),
        internal_topics=asked.internal_topics or back.internal_topics,
        back=back.document,
        is_approved=approved is not None,
    )


def _read_cluster(deployment: Deployment, asked: _Asked) -> Snapshot:
    """Raises ClusterNotReadyError, ApprovalError if nobody may approve what would be planned, SettingsError."""
    policy, connection = asked.policy, asked.connection
    cluster = read_snapshot(
        connection,
        asked.settings,
        internal_topics=asked.internal_topics,
        to_execute=policy is not None,
        make_lock_ready=policy is not None and not _is_frozen(deployment, asked.connection_id),
    )
    asks_nobody = cluster.missing_rights or asked.is_approved
    check_somebody_may_approve(None if asks_nobody else policy, asked.requester)
    if asked.auto:
        run_rates.check_network_known(connection, sorted(cluster.view.brokers))
    if policy is not None and not policy.beside_cruise_control:
        refuse(cruise_control({tp.topic for tp in cluster.view.partitions}, cluster.configs.brokers))
    return cluster


def _settings(deployment: Deployment, asked: _Asked, cluster: Snapshot) -> tuple[Settings, Mapping[str, Policy]]:
    """(the settings of the run, other policies of the same cluster, by connection). Raises PolicyError."""
    policy, brokers = asked.policy, len(cluster.brokers)
    if policy is None:
        log.warning(
            "There is no policy file for %s, so the cluster is read-only: the run makes a plan and writes nothing",
            asked.connection_id,
        )
        return asked.settings.for_brokers(brokers), {}
    for missing in cluster.missing_rights:
        log.warning("%s. The run makes a plan, and nobody is asked to approve it", missing)
    others = other_policies(deployment, asked.connection_id, cluster.view.cluster_id)
    for name in others:
        log.warning("%s is the same cluster, and has another policy. The stricter limit of each counts", name)
    bound = bound_by(policy, others.values(), brokers).tighten(
        asked.settings,
        cluster_bytes=cluster.cluster_bytes,
        brokers=brokers,
        internal_topics=asked.internal_topics,
    )
    return replace(bound, policy_digest=policy.digest), others


def _without_slow(
    deployment: Deployment, asked: _Asked, settings: Settings, cluster: Snapshot
) -> tuple[Settings, tuple[OftenSlow, ...]]:
    """(the settings, in which brokers that are slow again and again receive nothing, these brokers)

    Only if the policy says so, and nobody has named who receives. A slow broker that replaces another one, or without
    which a rack would have none that receives, goes on receiving.
    """
    if asked.policy is None or asked.policy.slow_brokers != RECEIVE_NOTHING:
        return settings, ()
    if settings.brokers_in or settings.job in LEADERS_ALONE:
        return settings, ()
    racks = {row["broker"]: row["rack"] for row in cluster.brokers}
    open_ones = set(racks) - settings.leaving - set(settings.brokers_out)
    known = slow_so_far(deployment, asked.connection_id, clock.utc_now(), behind_now(cluster))
    shut = {slow.broker for slow in known} & open_ones - set(settings.replace.values())
    shut -= {broker for broker in shut if not any(racks[one] == racks[broker] for one in open_ones - shut)}
    if not shut:
        return settings, ()
    receivers = tuple(sorted(open_ones - shut))
    return replace(settings, brokers_in=receivers), tuple(slow for slow in known if slow.broker in shut)


@dataclass(frozen=True, slots=True)
class _Tables:
    """What is in the snapshot's folder, and what earlier runs added to its rows."""

    observed_at: datetime
    digest: str  # of the two tables
    configs_digest: str
    kept_away: KeptAway | None
    last_proposal: LastProposal | None


def _write_tables(
    inputs: StepInputs, folder: RunFolder, asked: _Asked, settings: Settings, cluster: Snapshot
) -> _Tables:
    """The planner's input: tables, configs, rates of topics, and settings. Raises SettingsError here, before Spark, if
    no plan can satisfy the settings.
    """
    deployment, snapshot = inputs.deployment, folder / json_files.SNAPSHOT_FOLDER
    connection, brokers, partitions = asked.connection, cluster.brokers, cluster.partitions
    now = clock.utc_now()
    left = _left(inputs, asked.connection_id, settings, cluster, now)
    last = last_proposal(deployment, asked.connection_id, folder, settings.job, brokers, partitions, now)
    digest = write_snapshot(snapshot, brokers, with_lists(_with_left(partitions, left), last.lists))
    configs_digest = CONFIGS_FILE.write(snapshot, cluster.configs, source_digest=digest)
    write_topic_rates(connection, {row["topic"] for row in partitions}, snapshot, now)
    prepare(snapshot, settings)
    write_settings(folder, settings)
    kept_away = KeptAway(sum(map(len, left.values())), REST_DAYS) if left else None
    return _Tables(now, digest, configs_digest, kept_away, last.proposal)


def _cordon(asked: _Asked, settings: Settings, cluster: Snapshot) -> Cordon | None:
    if asked.policy is None or not asked.policy.cordon_leaving or settings.job in LEADERS_ALONE:
        return None
    return cordon_of(asked.connection, cluster.view, settings.leaving)


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
    emptied = SNAPSHOT_FILE.read(folder).asked.leaving
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
