"""`request` of `kafka_topics`: reads, plans and checks a change, and writes topic.json. The cluster stays as it is."""

from __future__ import annotations

import dataclasses
import logging
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from kafka_rebalance import clock
from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.documents.key_sample import REQUEST_FILE
from kafka_rebalance.errors import ClusterNotReadyError, KafkaRuleError, PolicyError, SettingsError
from kafka_rebalance.kafka import topics as kafka_rules
from kafka_rebalance.kafka.assignment import add_partitions, assign_replicas, brokers_with_racks
from kafka_rebalance.kafka.segment_roll import effective_roll_settings
from kafka_rebalance.kafka.topic_configs import check_topic_config_names, check_topic_configs
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.partition import topic_identities
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.settings import Settings, brokers_for
from kafka_rebalance.model.topic_change import TopicChange
from kafka_rebalance.planning.problem.arrays import Problem
from kafka_rebalance.planning.tables.read_problem import read_problem, write_snapshot
from kafka_rebalance.run.inputs import StepInputs
from kafka_rebalance.run.policies_of_one_cluster import bound_policy
from kafka_rebalance.run.requester import check_somebody_may_approve, read_requester
from kafka_rebalance.run.run_folder import RunFolder, begin_run_folder
from kafka_rebalance.run.snapshot_reader import broker_rows, partition_rows
from kafka_rebalance.topics import keys
from kafka_rebalance.topics.forecast import (
    BrokerCost,
    broker_costs,
    disk_problems,
    expected_replica_bytes,
)
from kafka_rebalance.topics.new_partitions import place_partitions
from kafka_rebalance.topics.read import TOPICS_FILE, TopicCluster, TopicsFound, describe, read_topic_cluster
from kafka_rebalance.topics.request import change_lines, describe_lines, list_lines
from kafka_rebalance.topics.rules import (
    MIN_INSYNC_REPLICAS,
    TOPIC_FILE,
    RequestedChange,
    TopicRequest,
    house_problems,
    needs_approval,
    too_many_partitions,
)

log = logging.getLogger(__name__)

# The next task.
END, SAMPLE, FORECAST = "end", "sample_keys", "forecast"


@contextmanager
def failing_as_kafka_topics() -> Iterator[None]:
    """Logs a broken rule of Kafka in the words of kafka-topics."""
    try:
        yield
    except KafkaRuleError as broken:
        log.error("Error while executing topic command : %s", broken.kafka_message)
        raise


@failing_as_kafka_topics()
def request(inputs: StepInputs, params: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the next task and the main figures. list and describe end here."""
    wanted = TopicRequest.from_params(params)
    connection_id = params["kafka_conn_id"]
    policy = inputs.deployment.read_policy(connection_id)
    if policy is None and not wanted.is_read_only:
        raise PolicyError(
            f"There is no policy file for the connection {connection_id!r}, so the cluster is read-only: only list and "
            "describe are allowed. Add include/policies/<connection id>.yaml."
        )
    if wanted.needs_approval:
        check_somebody_may_approve(policy, read_requester(inputs.deployment, inputs.run))
    connection = inputs.deployment.read_connection(connection_id)
    folder, nonce = begin_run_folder(inputs, connection_id)
    cluster = read_topic_cluster(connection, wanted)
    if policy is None or wanted.is_read_only:
        return _show(wanted, cluster, folder)
    limits = bound_policy(inputs.deployment, policy, connection_id, cluster.view.cluster_id)
    planned = plan_change(wanted, cluster, connection, limits, folder)
    if planned is None or planned.change.changes_nothing:
        log.info("%s: there is nothing to %s. Nothing was written.", wanted.topic, wanted.action)
        return {"next": END, "changed": False}
    with open_cluster(connection) as reached:
        reached.topics.check_accepted(planned.change)
    change = planned.change
    written = RequestedChange(
        connection_id=connection_id,
        cluster_id=cluster.view.cluster_id,
        policy_digest=policy.digest,
        limits_digest=limits.digest,
        nonce=nonce,
        observed_at=clock.utc_second(),
        dag_id=inputs.run.dag_id,
        run_id=inputs.run.run_id,
        requested_by=inputs.run.started_by,
        reason=params.get("reason") or "",
        dry_run=wanted.dry_run,
        needs_approval=needs_approval(change.action),
        change=change,
        digest=change.digest,
        assignment=wanted.assignment,
        replica_bytes=planned.replica_bytes,
        costs=planned.costs,
        notes=planned.notes,
        size_bytes=_size_bytes(cluster, change.topic),
    )
    if change.action != "create":
        written = keys.with_groups(written, connection)
    sampled = change.adds_partitions and keys.prepare_sample(
        wanted, change, connection, folder, int(clock.utc_now().timestamp() * 1000)
    )
    if sampled:
        written = replace(written, sample_digest=REQUEST_FILE.read_with_digest(folder)[1])
    TOPIC_FILE.write(folder, written)
    for line in change_lines(written):
        log.info("%s", line)
    return {
        "next": SAMPLE if sampled else FORECAST,
        "digest": change.digest,
        "partitions": len(change.new_partitions),
        "configs": len(change.config_changes),
    }


def _show(wanted: TopicRequest, cluster: TopicCluster, folder: RunFolder) -> dict[str, Any]:
    entries = describe(cluster, wanted)
    TOPICS_FILE.write(folder, TopicsFound(cluster.view.cluster_id, entries))
    for line in list_lines(entries) if wanted.action == "list" else describe_lines(entries):
        log.info("%s", line)
    return {
        "next": END,
        "topics": len(entries),
        "under_replicated": sum(entry.under_replicated for entry in entries),
        "unavailable": sum(entry.unavailable for entry in entries),
    }


def _size_bytes(cluster: TopicCluster, topic: str) -> int | None:
    """One replica of each of its partitions; None if a leader does not tell its size."""
    sizes = [
        cluster.disks.replicas.get(tp, {}).get(partition.leader)
        for tp, partition in cluster.view.partitions.items()
        if tp.topic == topic
    ]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


# The change that is asked for: checks in Kafka's order, then placement, then our own rules.


DELETE_ENABLED = "delete.topic.enable"


@dataclass(frozen=True, slots=True)
class PlannedTopic:
    """The change, its cost for each broker, and notes for the approver or the log."""

    change: TopicChange
    replica_bytes: int | None
    costs: tuple[BrokerCost, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Given:
    """What a change is planned from. The placement's tables go into the run's `folder`."""

    request: TopicRequest
    cluster: TopicCluster
    connection: ClusterConnection
    settings: Settings
    folder: RunFolder

    @property
    def open_brokers(self) -> list[int]:
        of_topic = brokers_for(self.request.topic, self.settings.broker_pools, sorted(self.cluster.view.brokers))
        return [broker for broker in of_topic if broker not in self.settings.brokers_out]

    def racks(self) -> dict[int, str] | None:
        racks = {broker: self.cluster.view.racks[broker] for broker in self.open_brokers}
        return brokers_with_racks(racks, self.request.rack_mode)


def plan_change(
    request: TopicRequest,
    cluster: TopicCluster,
    connection: ClusterConnection,
    policy: Policy,
    folder: RunFolder,
) -> PlannedTopic | None:
    """The change to write; None if if_exists or if_not_exists says that there is nothing to do.

    Raises KafkaRuleError with Kafka's own text, ClusterNotReadyError, and PolicyError for what our own rules forbid.
    It writes nothing to the cluster.
    """
    exists = bool(cluster.assignment(request.topic))
    if exists and request.action == "create" and request.if_not_exists:
        return None
    if not exists and request.if_exists:
        return None
    _check_size(request, len(cluster.assignment(request.topic)), policy)
    settings = Settings(
        brokers_out=policy.brokers_out,
        broker_pools=policy.broker_pools or (),
        more_replicas_than_racks=bool(policy.more_replicas_than_racks),
    )
    given = _Given(request, cluster, connection, settings, folder)
    if request.action == "create":
        change = _creation(given)
    elif not exists:
        raise SettingsError(
            f"Topic {request.topic!r} does not exist. Nothing was written. Give the exact name of a topic: only list "
            "and describe take a regular expression."
        )
    else:
        change = _deletion(request.topic, cluster) if request.action == "delete" else _alteration(given)
    costs, replica_bytes = _costs(given, change)
    least = _min_insync_replicas(change, cluster)
    problems = [
        *house_problems(
            change,
            policy=policy,
            racks=cluster.view.racks,
            replicas=cluster.replicas(),
            min_insync_replicas=least,
            kafkas_own=cluster.kafkas_own,
        ),
        *disk_problems(costs, given.settings.disk_headroom),
    ]
    _refuse(problems)
    return PlannedTopic(change, replica_bytes, costs, tuple(_notes(change, cluster, least)))


def _check_size(request: TopicRequest, partitions_now: int, policy: Policy) -> None:
    """Raises PolicyError before a partition is placed. What is no increase gets Kafka's own text later."""
    total = max(request.partitions or 0, len(request.replica_assignment or ()))
    if total > partitions_now:
        _refuse([*too_many_partitions(total, policy)])


def _refuse(problems: Sequence[str]) -> None:
    if problems:
        raise PolicyError(
            f"The rules of this installation forbid the change: {'; '.join(problems)}. "
            "Ask for less, or have the policy changed."
        )


def _creation(given: _Given) -> TopicChange:
    request, cluster = given.request, given.cluster
    version = cluster.kafka_version
    _check_configs(request.configs, version)
    if request.topic in cluster.view.deletions:
        raise ClusterNotReadyError(
            f"Topic {request.topic} is being deleted (/admin/delete_topics). Wait until it is gone."
        )
    # Always Kafka's algorithm first: the order and the words of its checks are the rules for a valid request.
    racks = given.racks()
    partitions, factor = request.partitions or 0, request.replication_factor or 0
    assignment = request.replica_assignment or assign_replicas(
        given.open_brokers, partitions, factor, racks=racks, rng=random.Random()
    )
    existing = {tp.topic for tp in cluster.view.partitions}
    kafka_rules.check_topic_name(request.topic, existing=existing)
    kafka_rules.check_assignment(assignment)
    kafka_rules.check_assigned_brokers(assignment, cluster.view.brokers)
    if request.replica_assignment is None and request.assignment == "room":
        assignment = _with_room(given, racks is not None, range(partitions), factor, request.configs)
    return TopicChange(
        action="create",
        topic=request.topic,
        cluster_id=cluster.view.cluster_id,
        kafka_version=version,
        new_partitions=assignment,
        replication_factor=len(assignment[0]),
        config_changes=dict(request.configs),
    )


def _check_configs(configs: Mapping[str, str], version: str | None) -> None:
    """Raises KafkaRuleError. Without ZooKeeper, Kafka checks them when it is asked whether it accepts the change."""
    if version is not None:
        check_topic_configs(configs, version=version)


def _with_room(
    given: _Given, with_racks: bool, partitions: Sequence[int], replication_factor: int, configs: Mapping[str, str]
) -> dict[int, tuple[int, ...]]:
    """Places the new partitions where the cluster has room, by the size and the bytes in expected of each."""
    request, total = given.request, partitions[-1] + 1
    return place_partitions(
        _problem(given, with_racks=with_racks),
        request.topic,
        partitions,
        replication_factor,
        size_bytes=_replica_bytes(given, configs, total) or 0,
        bytes_in_per_second=(request.bytes_in_per_second or 0) / total,
    )


def _alteration(given: _Given) -> TopicChange:
    request, cluster = given.request, given.cluster
    topic, version = request.topic, cluster.kafka_version
    _check_configs(request.configs, version)
    existing = cluster.assignment(topic)
    configs = cluster.topic_configs.get(topic, {})
    # A config that is set may be removed, even if this Kafka does not know it. A key that is neither is a typing error.
    if version is not None:
        check_topic_config_names([key for key in request.delete_configs if key not in configs], version=version)
    changes: dict[str, str | None] = {
        **{key: None for key in request.delete_configs if key in configs},
        **{key: value for key, value in request.configs.items() if configs.get(key) != value},
    }
    shortest = min(map(len, existing.values()), default=0)  # every config must suit the shortest list
    change = dataclasses.replace(_present(topic, cluster, shortest), config_changes=dict(sorted(changes.items())))
    if not request.adds_partitions:
        return change
    _check_at_rest(topic, cluster)
    return dataclasses.replace(change, new_partitions=_added(given, existing, configs))


def _added(
    given: _Given, existing: Mapping[int, tuple[int, ...]], configs: Mapping[str, str]
) -> dict[int, tuple[int, ...]]:
    """The new partitions of an existing topic."""
    request, manual = given.request, given.request.replica_assignment
    total = request.partitions if request.partitions is not None else len(manual or {})
    kafka_rules.check_more_partitions(request.topic, existing, total, given.cluster.kafkas_own)
    if manual is not None:
        if len(manual) != total:
            raise SettingsError(
                f"'replica_assignment' lists {len(manual)} partitions, but 'partitions' is {total}. Nothing was "
                "written. List every partition of the topic, also the existing ones."
            )
        added = {partition: held for partition, held in manual.items() if partition >= len(existing)}
        kafka_rules.check_added_replicas(request.topic, existing, added, sorted(given.cluster.view.brokers))
        return added
    racks = given.racks()
    assigned = add_partitions(request.topic, existing, total, given.open_brokers, racks=racks)
    if request.assignment == "kafka":
        return assigned
    return _with_room(given, racks is not None, sorted(assigned), len(existing[0]), configs)


def _deletion(topic: str, cluster: TopicCluster) -> TopicChange:
    kafka_rules.check_deletable(topic, cluster.kafkas_own)
    _check_at_rest(topic, cluster)
    if {values[DELETE_ENABLED].value for values in cluster.effective.values() if DELETE_ENABLED in values} != {"true"}:
        raise ClusterNotReadyError(
            f"{DELETE_ENABLED} is not true on every broker, so the controller would remove the request and keep topic "
            f"{topic}. Set it to true on the brokers first."
        )
    return dataclasses.replace(_present(topic, cluster, len(cluster.assignment(topic).get(0, ()))), action="delete")


def _present(topic: str, cluster: TopicCluster, replication_factor: int) -> TopicChange:
    """The topic as it is: an alteration that changes nothing yet."""
    return TopicChange(
        action="alter",
        topic=topic,
        cluster_id=cluster.view.cluster_id,
        kafka_version=cluster.kafka_version,
        partitions_before=len(cluster.assignment(topic)),
        replication_factor=replication_factor,
        configs_before=cluster.topic_configs.get(topic, {}),
        identity=topic_identities(cluster.view.partitions)[topic],
    )


def _check_at_rest(topic: str, cluster: TopicCluster) -> None:
    """Refuses to expand or delete a topic that moves or is being deleted: below Kafka 2.4 that loses data."""
    view = cluster.view
    moving = sorted(
        tp
        for tp, partition in view.partitions.items()
        if tp.topic == topic and (partition.in_motion or tp in (view.reassignments or {}))
    )
    if moving:
        raise ClusterNotReadyError(
            f"Topic {topic} is being reassigned ({moving[0]} and {len(moving) - 1} more of its partitions). "
            "Wait until the reassignment has ended."
        )
    if topic in view.deletions:
        raise ClusterNotReadyError(f"Topic {topic} is already marked for deletion.")


def _problem(given: _Given, *, with_racks: bool) -> Problem:
    """The planner's view of the cluster's load."""
    cluster, snapshot = given.cluster, given.folder / "snapshot"
    rows = broker_rows(cluster.view, cluster.disks, given.connection.capacities, given.settings)
    if not with_racks:
        rows = [{**row, "rack": None} for row in rows]
    partitions = partition_rows(cluster.view, cluster.disks, {}, {}, cluster.kafkas_own, internal_topics=True)
    write_snapshot(snapshot, rows, partitions)
    return read_problem(snapshot, given.settings)


def _costs(given: _Given, change: TopicChange) -> tuple[tuple[BrokerCost, ...], int | None]:
    if not change.new_partitions:
        return (), None
    replica_bytes = _replica_bytes(given, change.configs_after, change.partitions_after)
    rows = broker_rows(given.cluster.view, given.cluster.disks, given.connection.capacities, Settings())
    disks = {row["broker"]: (row["disk_capacity_bytes"], row["disk_used_bytes"]) for row in rows}
    return broker_costs(change.new_partitions, replica_bytes, disks), replica_bytes


def _replica_bytes(given: _Given, configs: Mapping[str, str], partitions: int) -> int | None:
    controller, effective = given.cluster.view.controller, given.cluster.effective
    told = controller.broker if controller and controller.broker in effective else min(effective)
    settings = effective_roll_settings(configs, effective[told])
    return expected_replica_bytes(
        given.request.bytes_in_per_second,
        partitions,
        retention_ms=settings.on_disk_ms,
        retention_bytes=settings.on_disk_bytes,
        cleanup_policy=settings.cleanup_policy,
    )


def _min_insync_replicas(change: TopicChange, cluster: TopicCluster) -> int | None:
    """The topic's own value, else the highest of the brokers."""
    own = change.configs_after.get(MIN_INSYNC_REPLICAS)
    on_brokers = [
        values[MIN_INSYNC_REPLICAS].value
        for values in cluster.effective.values()
        if own is None and MIN_INSYNC_REPLICAS in values
    ]
    known = [int(text) for text in (own, *on_brokers) if text is not None and text.isdecimal()]
    return max(known, default=None)


def _notes(change: TopicChange, cluster: TopicCluster, min_insync_replicas: int | None) -> Iterator[str]:
    """What the rules allow, but people should know."""
    holders = {broker for held in cluster.assignment(change.topic).values() for broker in held}
    down = sorted(holders - set(cluster.view.brokers))
    if down and change.action == "delete":
        yield f"broker {', '.join(map(str, down))} is down: the deletion waits until it is back"
    if change.adds_partitions and (min_insync_replicas or 0) > change.replication_factor:
        yield (
            f"{MIN_INSYNC_REPLICAS} {min_insync_replicas} is above the replication factor {change.replication_factor}: "
            "partitions with so few replicas refuse producers with acks=all, also the new ones"
        )
    if change.action == "create" and any(mark in change.topic for mark in "._"):
        yield (
            "the name has a '.' or '_': metric names cannot tell the two apart, so use one of them in names, not both"
        )
    unknown = [
        tp for tp, p in cluster.view.partitions.items() if cluster.disks.replicas.get(tp, {}).get(p.leader) is None
    ]
    if unknown and change.new_partitions:
        yield f"the sizes of {len(unknown)} partitions are not known and count as nothing, the first is {min(unknown)}"
