"""Writes topics: creation, more partitions, configs, deletion. Writes that belong together are one transaction.

Kafka's own tool writes a new topic's config and assignment one after the other (AdminZkClient). So a crash leaves a
config without a topic, and two creators can mix theirs. Here both happen or neither. The same holds for a change of
configs and its notification.

Every function may be called again after it failed, and finds out what its earlier attempt did. All raise
StaleProposalError if the topic is not the approved one, KafkaRuleError if Kafka would refuse the change, and WriteError
if it would harm the cluster or its outcome stays unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from kazoo.client import KazooClient

from kafka_rebalance.errors import KafkaRuleError, StaleProposalError, WriteError
from kafka_rebalance.kafka.topic_configs import check_topic_configs
from kafka_rebalance.kafka.topics import (
    BY_NAME,
    KafkasOwn,
    check_added_replicas,
    check_assigned_brokers,
    check_deletable,
    check_more_partitions,
    check_new_topic,
)
from kafka_rebalance.model.cluster_writes import Outcome
from kafka_rebalance.model.lock_owner import NO_FENCE, Fence
from kafka_rebalance.model.partition import TopicAssignment, TopicIdentity
from kafka_rebalance.model.topic_change import Created, Deletion
from kafka_rebalance.zookeeper import znodes as paths
from kafka_rebalance.zookeeper.client import Znode, read_children, read_znodes, sync
from kafka_rebalance.zookeeper.config_writes import add_config
from kafka_rebalance.zookeeper.reader import check_not_migrating
from kafka_rebalance.zookeeper.writer import acl_like, add_checks, commit, repeat
from kafka_rebalance.zookeeper.znodes import (
    decode_config,
    decode_controller,
    decode_reassignment,
    decode_topic,
    encode_added_partitions,
    encode_config,
    encode_topic,
)


@dataclass(frozen=True, slots=True)
class _Now:
    """The znodes of one topic, and whether the controller is to delete or to reassign it."""

    topic: str
    znode: Znode | None
    assignment: TopicAssignment | None
    config_znode: Znode | None
    is_marked: bool
    is_reassigned: bool

    @property
    def config(self) -> dict[str, str]:
        return {} if self.config_znode is None else decode_config(self.config_znode[0], f"topics/{self.topic}")


def create_topic(
    client: KazooClient,
    topic: str,
    assignment: Mapping[int, Sequence[int]],
    configs: Mapping[str, str],
    *,
    version: str,
    registered: Collection[int],
) -> Created:
    """Creates a topic with exactly this assignment and these configs, both in one step.

    `assignment`: broker ids by partition, the preferred leader first. `version`: Kafka's version, which decides which
    configs are valid and what is written. `registered`: the brokers that are registered now.

    If the topic exists with the same assignment and configs, an earlier attempt of ours created it. A config without a
    topic is replaced and returned. Success means that the topic was requested, not that its partitions are led. Raises
    KafkaRuleError also if a topic of that name exists.
    """
    others = [name for name in read_children(client, paths.TOPICS) if name != topic]
    check_new_topic(topic, assignment, configs, existing=others, version=version)
    check_assigned_brokers(assignment, registered)
    data, config_data = encode_topic(topic, assignment, version=version), encode_config(configs)
    wanted = {partition: tuple(replicas) for partition, replicas in assignment.items()}
    orphan: Mapping[str, str] | None = None  # kept for an attempt that finds the topic of the attempt before it

    def attempt() -> Created:
        nonlocal orphan
        now = _read(client, topic)
        if now.is_marked:
            raise _refused(topic, "a topic of that name is being deleted", "Wait until its deletion has ended")
        if now.assignment is not None:
            if now.assignment.partitions == wanted and now.config == configs and now.config_znode is not None:
                return Created(Outcome.ALREADY_THERE, orphan)
            raise KafkaRuleError(f"Topic '{topic}' already exists.", "This request changed nothing. Take another name.")
        transaction = client.transaction()
        path = paths.config_path(f"topics/{topic}")
        if now.config_znode is None:
            transaction.create(path, config_data, acl=acl_like(client, path.rpartition("/")[0]))
        else:
            transaction.set_data(path, config_data, version=now.config_znode[1].version)
        transaction.create(paths.topic_path(topic), data, acl=acl_like(client, paths.TOPICS))
        orphan = None if now.config_znode is None else now.config
        commit(client, paths.topic_path(topic), transaction)
        return Created(Outcome.CREATED, orphan)

    return repeat(paths.topic_path(topic), attempt)


def write_more_partitions(
    client: KazooClient,
    topic: str,
    added: Mapping[int, Sequence[int]],
    *,
    expected: TopicIdentity,
    registered: Collection[int],
    fence: Fence = NO_FENCE,
    kafkas_own: KafkasOwn = BY_NAME,
) -> None:
    """Adds exactly these partitions to the topic that `expected` identifies; every other field of it stays.

    It replaces only the version of the znode that it read, so it never undoes a change by the controller. If the same
    partitions exist, an earlier attempt of ours added them. Nothing is written if the `fence` has risen: whoever has
    taken the cluster may be about to move the topic. Success means that the partitions were requested: a controller
    that moves the topic may still drop them.
    """
    wanted = {partition: tuple(replicas) for partition, replicas in added.items()}

    def attempt() -> None:
        now = _read(client, topic)
        znode, assignment = _check_identity(now, expected)
        _check_not_deleted(now)
        if wanted and wanted.items() <= assignment.partitions.items():
            return
        _check_not_reassigned(now)
        if expected.znode_version not in (None, znode[1].version):
            raise StaleProposalError(
                f"topic {topic}: its znode has version {znode[1].version}, but had {expected.znode_version} in the "
                "snapshot: partitions were added or lists rewritten. Start a new Dag run."
            )
        check_more_partitions(topic, assignment.partitions, len(assignment.partitions) + len(wanted), kafkas_own)
        check_added_replicas(topic, assignment.partitions, wanted, registered)
        data = encode_added_partitions(topic, znode[0], wanted)
        transaction = client.transaction()
        add_checks(transaction, fence.versions)
        transaction.set_data(paths.topic_path(topic), data, znode[1].version)
        commit(client, paths.topic_path(topic), transaction)

    repeat(paths.topic_path(topic), attempt)


def set_topic_configs(
    client: KazooClient,
    topic: str,
    changes: Mapping[str, str | None],
    *,
    version: str,
    expected: TopicIdentity,
) -> None:
    """Sets configs of the topic that `expected` identifies, and tells the brokers. None removes a key; others stay.

    `version`: Kafka's version, which decides which configs are valid. Like Kafka's tool
    (AdminZkClient.changeTopicConfig) it checks all configs that the topic will have. So an invalid config that is there
    already must be removed first. It may be repeated. Brokers are told even if nothing changes, in case another tool
    did not tell them.
    """
    if not changes:
        raise WriteError(f"config of topic {topic}: no change is named.")
    entity = f"topics/{topic}"
    path = paths.config_path(entity)

    def attempt() -> None:
        now = _read(client, topic)
        znode, _ = _check_identity(now, expected)
        _check_not_deleted(now)
        merged = {key: value for key, value in {**now.config, **changes}.items() if value is not None}
        check_topic_configs(merged, version=version, existing=now.config)
        transaction = client.transaction()
        # If the topic were deleted meanwhile, Kafka would give this config to the next topic of that name.
        transaction.check(paths.topic_path(topic), znode[1].version)
        add_config(client, transaction, entity, now.config_znode, merged)
        commit(client, path, transaction)

    repeat(path, attempt)


def delete_topic(
    client: KazooClient,
    topic: str,
    *,
    expected: TopicIdentity,
    fence: Fence = NO_FENCE,
    kafkas_own: KafkasOwn = BY_NAME,
) -> Outcome:
    """Asks the controller to delete the topic that `expected` identifies. `read_deletion` tells when it is gone.

    Nothing is written if the `fence` has risen. ALREADY_THERE: an earlier attempt has marked the topic, or it is gone.
    """
    check_deletable(topic, kafkas_own)
    marker = paths.deletion_path(topic)

    def attempt() -> Outcome:
        now = _read(client, topic)
        if now.znode is None:
            return Outcome.ALREADY_THERE
        _check_identity(now, expected)
        if now.is_marked:
            return Outcome.ALREADY_THERE
        _check_not_reassigned(now)
        transaction = client.transaction()
        add_checks(transaction, {**fence.versions, paths.topic_path(topic): now.znode[1].version})
        transaction.create(marker, b"", acl=acl_like(client, paths.DELETE_TOPICS))
        commit(client, marker, transaction)
        return Outcome.CREATED

    return repeat(marker, attempt)


def read_deletion(client: KazooClient, topic: str, *, expected: TopicIdentity) -> Deletion:
    """What is left of the topic that `expected` identifies, but not of a new topic of the same name.

    A deletion waits while a replica is on a broker that is down. Raises ReadError, CorruptZnodeError.
    """
    now = _read(client, topic)
    if now.assignment is not None and _identity_problem(now, expected) is not None:
        return Deletion(marked=False, topic_left=False, config_left=False)
    return Deletion(now.is_marked, topic_left=now.znode is not None, config_left=now.config_znode is not None)


def _read(client: KazooClient, topic: str) -> _Now:
    """Raises ReadError, CorruptZnodeError; ClusterNotReadyError if a KRaft controller owns the cluster."""
    topic_path, config_path = paths.topic_path(topic), paths.config_path(f"topics/{topic}")
    marker = paths.deletion_path(topic)
    sync(client)
    # ZooKeeper answers in this order. If the reassignment is gone, the topic's znode, read after it, shows its end. The
    # marker of a deletion goes last: if it is gone, no deletion of what these znodes show is under way.
    znodes = read_znodes(client, [paths.CONTROLLER, paths.REASSIGN_PARTITIONS, topic_path, config_path, marker])
    controller, requested, znode = (znodes[path] for path in (paths.CONTROLLER, paths.REASSIGN_PARTITIONS, topic_path))
    if controller is not None:
        check_not_migrating(decode_controller(controller[0], 0), "Change topics through the Kafka API instead.")
    assignment = None if znode is None else decode_topic(znode[0], topic)
    targets = {} if requested is None else decode_reassignment(requested[0])
    in_motion = assignment is not None and bool(assignment.adding or assignment.removing)
    return _Now(
        topic=topic,
        znode=znode,
        assignment=assignment,
        config_znode=znodes[config_path],
        is_marked=znodes[marker] is not None,
        is_reassigned=in_motion or any(key.topic == topic for key in targets),
    )


def _check_identity(now: _Now, expected: TopicIdentity) -> tuple[Znode, TopicAssignment]:
    """The topic's znode and assignment. Raises StaleProposalError if it is not the topic of the snapshot."""
    problem = _identity_problem(now, expected)
    if problem is not None or now.znode is None or now.assignment is None:
        raise StaleProposalError(f"topic {now.topic}: {problem or 'it does not exist'}. Start a new Dag run.")
    return now.znode, now.assignment


def _identity_problem(now: _Now, expected: TopicIdentity) -> str | None:
    # `znode_version` takes no part: it also rises with the lists, which do not matter for every change.
    if now.znode is None or now.assignment is None:
        return "it was deleted"
    if expected.czxid is None and expected.topic_id is None:
        return "the snapshot does not identify it"
    czxid, topic_id = now.znode[1].czxid, now.assignment.topic_id
    if expected.czxid not in (None, czxid):
        return f"it was deleted and made again (creation zxid {czxid}, approved {expected.czxid})"
    if expected.topic_id not in (None, topic_id):
        return f"it was deleted and made again (topic id {topic_id}, approved {expected.topic_id})"
    return None


def _check_not_deleted(now: _Now) -> None:
    if now.is_marked:
        raise _refused(now.topic, "it is being deleted", "If you need a topic of that name, start a new Dag run")


def _check_not_reassigned(now: _Now) -> None:
    if now.is_reassigned:
        # The controller would overwrite our list of partitions with its own, or act on replicas of a deleted topic.
        raise _refused(now.topic, "it is being reassigned", "Wait until that has ended, then clear this task")


def _refused(topic: str, problem: str, remedy: str) -> WriteError:
    return WriteError(f"topic {topic}: {problem}. {remedy}.")
