"""From a request to the change that will be written: checks in Kafka's order, then placement, then our own rules."""

from __future__ import annotations

import dataclasses
import logging
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafka_rebalance.errors import ClusterNotReadyError, PolicyError, SettingsError
from kafka_rebalance.execution.topics.house_rules import MIN_INSYNC_REPLICAS, TopicChange, house_problems
from kafka_rebalance.execution.topics.topic_request import TopicRequest
from kafka_rebalance.forecast.disk_use import BrokerCost, broker_costs, disk_problems, expected_replica_bytes
from kafka_rebalance.kafka.assignment import add_partitions, assign_replicas, brokers_with_racks
from kafka_rebalance.kafka.segment_roll import effective_roll_settings
from kafka_rebalance.kafka.topic_configs import check_topic_config_names, check_topic_configs
from kafka_rebalance.kafka.topics import (
    check_added_replicas,
    check_assigned_brokers,
    check_deletable,
    check_more_partitions,
    check_new_topic,
)
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.partition import TopicPartition, topic_identities
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.new_partitions import place_partitions
from kafka_rebalance.planning.problem.arrays import Problem
from kafka_rebalance.planning.tables.read_problem import read_problem
from kafka_rebalance.planning.tables.snapshot_files import write_snapshot
from kafka_rebalance.steps.run.cluster_snapshot import broker_rows, partition_rows
from kafka_rebalance.steps.run_folder import RunFolder
from kafka_rebalance.steps.topics.read_topics import TopicCluster

log = logging.getLogger(__name__)

DELETE_ENABLED = "delete.topic.enable"


@dataclass(frozen=True, slots=True)
class PlannedTopic:
    """The change, what it costs by broker, and what the approver or the log should hear besides."""

    change: TopicChange
    replica_bytes: int | None
    costs: tuple[BrokerCost, ...]
    notes: tuple[str, ...]


def plan_change(
    request: TopicRequest,
    cluster: TopicCluster,
    connection: ClusterConnection,
    policy: Policy,
    folder: RunFolder,
) -> PlannedTopic | None:
    """What will be written; None where if_exists or if_not_exists says that there is nothing to do.

    Raises KafkaRuleError with Kafka's own text, ClusterNotReadyError, and PolicyError for what this house forbids.
    Nothing is written to the cluster; the tables that the placement works on go into the run's folder.
    """
    exists = bool(cluster.assignment(request.topic))
    if exists and request.action == "create" and request.if_not_exists:
        return None
    if not exists and request.if_exists:
        return None
    settings = Settings(brokers_out=policy.brokers_out)
    if request.action == "create":
        change = _creation(request, cluster, connection, settings, folder)
    else:
        if not exists:
            raise SettingsError(
                f"Topic {request.topic!r} does not exist. Nothing was written. Topics are named literally here: a "
                "regular expression goes with list and describe alone."
            )
        change = (
            _deletion(request, cluster)
            if request.action == "delete"
            else _alteration(request, cluster, connection, settings, folder)
        )
    costs, replica_bytes = _costs(request, change, cluster, connection)
    problems = [
        *house_problems(
            change,
            policy=policy,
            racks=cluster.view.racks,
            replicas=cluster.replicas(),
            min_insync_replicas=_min_insync_replicas(change, cluster),
        ),
        *disk_problems(costs, settings.disk_headroom),
    ]
    if problems:
        raise PolicyError(
            f"This is not done here: {'; '.join(problems)}. Nothing was written to the cluster. Ask for less, or have "
            "the policy changed."
        )
    return PlannedTopic(change, replica_bytes, costs, tuple(_notes(change, cluster)))


def _creation(
    request: TopicRequest,
    cluster: TopicCluster,
    connection: ClusterConnection,
    settings: Settings,
    folder: RunFolder,
) -> TopicChange:
    version = cluster.kafka_version
    check_topic_configs(request.configs, version=version)
    if request.topic in cluster.view.deletions:
        raise ClusterNotReadyError(
            f"Topic {request.topic} is being deleted (/admin/delete_topics). Nothing was written. Wait until it is "
            "gone."
        )
    # Kafka's algorithm in any case: the order of its checks, and their words, are the rules of a sound request.
    racks = _racks(request, cluster, settings)
    partitions, factor = request.partitions or 0, request.replication_factor or 0
    assignment = request.replica_assignment or assign_replicas(
        _open_brokers(cluster, settings), partitions, factor, racks=racks, rng=random.Random()
    )
    existing = {tp.topic for tp in cluster.view.partitions}
    check_new_topic(request.topic, assignment, request.configs, existing=existing, version=version)
    check_assigned_brokers(assignment, cluster.view.brokers)
    if request.replica_assignment is None and request.assignment == "room":
        problem = _problem(cluster, connection, settings, folder, with_racks=racks is not None)
        assignment = _with_room(request, cluster, problem, range(partitions), factor, request.configs)
    return TopicChange(
        action="create",
        topic=request.topic,
        cluster_id=cluster.view.cluster_id,
        kafka_version=version,
        new_partitions=assignment,
        replication_factor=len(assignment[0]),
        config_changes=dict(request.configs),
    )


def _with_room(
    request: TopicRequest,
    cluster: TopicCluster,
    problem: Problem,
    partitions: Sequence[int],
    replication_factor: int,
    configs: Mapping[str, str],
) -> dict[int, tuple[int, ...]]:
    """The new partitions where the cluster has room, by what one of them is expected to hold and to take in."""
    total = partitions[-1] + 1
    return place_partitions(
        problem,
        request.topic,
        partitions,
        replication_factor,
        size_bytes=_replica_bytes(request, cluster, configs, total) or 0,
        bytes_in_per_second=(request.bytes_in_per_second or 0) / total,
    )


def _alteration(
    request: TopicRequest,
    cluster: TopicCluster,
    connection: ClusterConnection,
    settings: Settings,
    folder: RunFolder,
) -> TopicChange:
    topic, version = request.topic, cluster.kafka_version
    check_topic_configs(request.configs, version=version)
    existing = cluster.assignment(topic)
    configs = cluster.topic_configs.get(topic, {})
    # What is set may be removed, known to this Kafka or not; what is neither is a slip of the pen.
    check_topic_config_names([key for key in request.delete_configs if key not in configs], version=version)
    changes: dict[str, str | None] = {
        **{key: None for key in request.delete_configs if key in configs},
        **{key: value for key, value in request.configs.items() if configs.get(key) != value},
    }
    change = TopicChange(
        action="alter",
        topic=topic,
        cluster_id=cluster.view.cluster_id,
        kafka_version=version,
        partitions_before=len(existing),
        replication_factor=min(map(len, existing.values()), default=0),  # its shortest list has to do for every config
        configs_before=configs,
        config_changes=dict(sorted(changes.items())),
        identity=topic_identities(cluster.view.partitions)[topic],
    )
    if not request.adds_partitions:
        return change
    _check_at_rest(topic, cluster)
    added = _added(request, cluster, connection, settings, folder, existing)
    return dataclasses.replace(change, new_partitions=added)


def _added(
    request: TopicRequest,
    cluster: TopicCluster,
    connection: ClusterConnection,
    settings: Settings,
    folder: RunFolder,
    existing: Mapping[int, tuple[int, ...]],
) -> dict[int, tuple[int, ...]]:
    """The new partitions of an existing topic."""
    manual = request.replica_assignment
    total = request.partitions if request.partitions is not None else len(manual or {})
    check_more_partitions(request.topic, existing, total)
    if manual is not None:
        if len(manual) != total:
            raise SettingsError(
                f"'replica_assignment' lists {len(manual)} partitions, 'partitions' says {total}. Nothing was written. "
                "The list covers every partition of the topic, those that exist too."
            )
        added = {partition: held for partition, held in manual.items() if partition >= len(existing)}
        check_added_replicas(request.topic, existing, added, sorted(cluster.view.brokers))
        return added
    racks = _racks(request, cluster, settings)
    assigned = add_partitions(request.topic, existing, total, _open_brokers(cluster, settings), racks=racks)
    if request.assignment == "kafka":
        return assigned
    problem = _problem(cluster, connection, settings, folder, with_racks=racks is not None)
    configs = cluster.topic_configs.get(request.topic, {})
    return _with_room(request, cluster, problem, sorted(assigned), len(existing[0]), configs)


def _deletion(request: TopicRequest, cluster: TopicCluster) -> TopicChange:
    topic = request.topic
    check_deletable(topic)
    _check_at_rest(topic, cluster)
    if cluster.effective_value(DELETE_ENABLED) != "true":
        raise ClusterNotReadyError(
            f"{DELETE_ENABLED} is not true on every broker: the controller would remove the request and keep topic "
            f"{topic}. Nothing was written. Set it on the brokers first."
        )
    existing = cluster.assignment(topic)
    return TopicChange(
        action="delete",
        topic=topic,
        cluster_id=cluster.view.cluster_id,
        kafka_version=cluster.kafka_version,
        partitions_before=len(existing),
        replication_factor=len(existing.get(0, ())),
        configs_before=cluster.topic_configs.get(topic, {}),
        identity=topic_identities(cluster.view.partitions)[topic],
    )


def _check_at_rest(topic: str, cluster: TopicCluster) -> None:
    """A topic in motion, or on its way out, must be neither expanded nor deleted: below 2.4 that loses data."""
    view = cluster.view
    moving = sorted(
        tp
        for tp, partition in view.partitions.items()
        if tp.topic == topic and (partition.in_motion or tp in (view.reassignments or {}))
    )
    if moving:
        raise ClusterNotReadyError(
            f"Topic {topic} is being reassigned ({moving[0]} and {len(moving) - 1} more of its partitions). Nothing "
            "was written. Wait until the reassignment has ended."
        )
    if topic in view.deletions:
        raise ClusterNotReadyError(f"Topic {topic} is already marked for deletion. Nothing was written.")


def _open_brokers(cluster: TopicCluster, settings: Settings) -> list[int]:
    return [broker for broker in sorted(cluster.view.brokers) if broker not in settings.brokers_out]


def _racks(request: TopicRequest, cluster: TopicCluster, settings: Settings) -> dict[int, str] | None:
    racks = {broker: cluster.view.racks[broker] for broker in _open_brokers(cluster, settings)}
    return brokers_with_racks(racks, request.rack_mode)


def _problem(
    cluster: TopicCluster, connection: ClusterConnection, settings: Settings, folder: RunFolder, *, with_racks: bool
) -> Problem:
    """The planner's view of the cluster's load."""
    rows = broker_rows(cluster.view, cluster.disks, connection.capacities, settings)
    if not with_racks:
        rows = [{**row, "rack": None} for row in rows]
    partitions = partition_rows(cluster.view, cluster.disks, {}, {}, internal_topics=True)
    write_snapshot(folder / "snapshot", [row for row in rows if row["broker"] in cluster.view.brokers], partitions)
    return read_problem(folder / "snapshot", settings)


def _costs(
    request: TopicRequest, change: TopicChange, cluster: TopicCluster, connection: ClusterConnection
) -> tuple[tuple[BrokerCost, ...], int | None]:
    if not change.new_partitions:
        return (), None
    replica_bytes = _replica_bytes(request, cluster, change.configs_after, change.partitions_after)
    rows = broker_rows(cluster.view, cluster.disks, connection.capacities, Settings())
    disks = {row["broker"]: (row["disk_capacity_bytes"], row["disk_used_bytes"]) for row in rows}
    return broker_costs(change.new_partitions, replica_bytes, disks), replica_bytes


def _replica_bytes(
    request: TopicRequest, cluster: TopicCluster, configs: Mapping[str, str], partitions: int
) -> int | None:
    controller = cluster.view.controller
    effective = cluster.effective[controller.broker if controller else min(cluster.effective)]
    found = effective_roll_settings(configs, effective)
    return expected_replica_bytes(
        request.bytes_in_per_second,
        partitions,
        retention_ms=found.retention_ms,
        retention_bytes=found.retention_bytes,
        cleanup_policy=found.cleanup_policy,
    )


def _min_insync_replicas(change: TopicChange, cluster: TopicCluster) -> int | None:
    """The topic's own, else the highest that a broker has."""
    own = change.configs_after.get(MIN_INSYNC_REPLICAS)
    on_brokers = [
        values[MIN_INSYNC_REPLICAS].value
        for values in cluster.effective.values()
        if own is None and MIN_INSYNC_REPLICAS in values
    ]
    known = [int(text) for text in (own, *on_brokers) if text is not None and text.isdecimal()]
    return max(known, default=None)


def _notes(change: TopicChange, cluster: TopicCluster) -> list[str]:
    """What is not forbidden, and still should be known."""
    notes = []
    down = sorted(
        {
            broker
            for held in cluster.assignment(change.topic).values()
            for broker in held
            if broker not in cluster.view.brokers
        }
    )
    if down and change.action == "delete":
        notes.append(f"broker {', '.join(map(str, down))} is down: the deletion waits until it is back")
    least = _min_insync_replicas(change, cluster)
    if change.adds_partitions and least is not None and least > change.replication_factor:
        notes.append(
            f"{MIN_INSYNC_REPLICAS} {least} is above the replication factor {change.replication_factor}: partitions "
            "with so few replicas refuse producers with acks=all, the new ones too"
        )
    if change.action == "create" and any(mark in change.topic for mark in "._"):
        notes.append(
            "the name has a '.' or '_': metric names cannot tell the two apart, so use one of them in names, not both"
        )
    unknown = [
        tp for tp, p in cluster.view.partitions.items() if cluster.disks.replicas.get(tp, {}).get(p.leader) is None
    ]
    if unknown and change.new_partitions:
        first = min(unknown, key=lambda tp: TopicPartition(*tp))
        notes.append(f"the sizes of {len(unknown)} partitions are not known and count as nothing, the first is {first}")
    return notes
