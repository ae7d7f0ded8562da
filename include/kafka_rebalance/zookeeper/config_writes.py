"""Writes throttles into the configs of brokers and topics, with the znode that tells the brokers.

Each write is checked once more here, whoever asks for it. It may be repeated after it failed.
"""

from __future__ import annotations

from collections.abc import Mapping

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import BadVersionError, NoNodeError

from kafka_rebalance.errors import ConfigChangedError, LockLostError, WriteError
from kafka_rebalance.kafka.throttles import throttle_problem
from kafka_rebalance.model.lock_owner import NO_FENCE, Fence
from kafka_rebalance.zookeeper import znodes as paths
from kafka_rebalance.zookeeper.client import Znode, read_children, read_znodes, sync
from kafka_rebalance.zookeeper.reader import check_not_migrating, read_assignments
from kafka_rebalance.zookeeper.writer import acl_like, add_checks, commit, delete_znode, repeat
from kafka_rebalance.zookeeper.znodes import decode_config, decode_controller, encode_config, encode_config_change


def merge_config(
    client: KazooClient,
    entity: str,
    changes: Mapping[str, str | None],
    *,
    decided_on: Mapping[str, str] | None = None,
    fence: Fence = NO_FENCE,
) -> None:
    """Sets throttle keys of `brokers/N` or `topics/T`, keeps all others, and tells the brokers. None removes a key.

    The brokers are told in the same transaction, even if nothing changes. So they heed every config that was written,
    whoever dies next. `decided_on` is the config on which the caller decided these changes. If somebody has changed one
    of the keys since, nothing is written. Nothing is written either if the `fence` has risen.

    Raises ConfigChangedError and LockLostError for these two. Raises WriteError for any other key, a wrong value or a
    topic that does not exist, and ClusterNotReadyError while the cluster is being migrated to KRaft.
    """
    problem = throttle_problem(entity, changes)
    if problem:
        raise WriteError(f"config of {entity}: {problem}.")

    path = paths.config_path(entity)
    told = f"{path} and its notification in {paths.CONFIG_CHANGES}"

    def merge() -> None:
        sync(client)
        znodes = read_znodes(client, [paths.CONTROLLER, path])
        controller, znode = znodes[paths.CONTROLLER], znodes[path]
        if controller is not None:
            remedy = f"Change the config of {entity} with kafka-configs and --bootstrap-server."
            check_not_migrating(decode_controller(controller[0], 0), remedy)
        config = {} if znode is None else decode_config(znode[0], entity)
        if decided_on is not None:
            _check_decided_on(entity, changes, decided_on, config)
        merged = {key: value for key, value in {**config, **changes}.items() if value is not None}
        if znode is None:
            if not merged:
                return
            kind, _, topic = entity.partition("/")
            if kind == "topics" and not read_assignments(client, {topic}):
                # Kafka would give an orphaned config to the next topic of that name.
                raise WriteError(f"topic {topic} does not exist. Its config was not written. Start a new Dag run.")
        transaction = client.transaction()
        add_checks(transaction, fence.versions)
        add_config(client, transaction, entity, znode, merged)
        commit(client, told, transaction)

    def attempt() -> None:
        try:
            merge()
        except (BadVersionError, NoNodeError, ConfigChangedError):
            _check_fence(client, entity, fence.versions)
            raise

    repeat(told, attempt)


def add_config(
    client: KazooClient,
    transaction: TransactionRequest,
    entity: str,
    znode: Znode | None,
    config: Mapping[str, str],
) -> None:
    """Adds to a transaction this config of the entity and its notification. `znode` is the config before.

    Brokers are notified even if the config stays the same.
    """
    path = paths.config_path(entity)
    if znode is None:
        transaction.create(path, encode_config(config), acl=acl_like(client, path.rpartition("/")[0]))
    elif config != decode_config(znode[0], entity):
        transaction.set_data(path, encode_config(config), znode[1].version)
    told = acl_like(client, paths.CONFIG_CHANGES)
    transaction.create(paths.CONFIG_CHANGE_PREFIX, encode_config_change(entity), acl=told, sequence=True)


def _check_decided_on(
    entity: str, changes: Mapping[str, str | None], decided_on: Mapping[str, str], now: Mapping[str, str]
) -> None:
    # A key that has the new value already may be our own write, whose answer was lost.
    others = sorted(key for key, new in changes.items() if now.get(key) not in (decided_on.get(key), new))
    if others:
        raise ConfigChangedError(
            f"config of {entity}: somebody else has changed {', '.join(others)} since it was read. Their value stays. "
            "Clear this task: it reads again and goes on."
        )


def _check_fence(client: KazooClient, entity: str, fence: Mapping[str, int]) -> None:
    """Raises LockLostError if the fence is the reason why it was not written."""
    sync(client)
    now = read_znodes(client, fence)
    if any(znode is None or znode[1].version != fence[path] for path, znode in now.items()):
        raise LockLostError(
            f"config of {entity}: another worker has taken the cluster, requested moves or put throttles back since "
            "this one began, so it was not written. The other worker looks after what this one set before. Clear this "
            "task if the run is to go on."
        )


# Configs of topics that do not exist. A creation that broke off leaves them behind (AdminUtils writes them first).


TOPIC_CONFIGS = "/config/topics"


def read_orphaned_configs(client: KazooClient) -> dict[str, int]:
    """{topic: zxid of the config's last change} of every config without its topic. Raises ReadError."""
    sync(client)
    configured = read_children(client, TOPIC_CONFIGS)
    # The topics are read last: Kafka creates a topic after its config, and deletes it after its config.
    lone = sorted(set(configured) - set(read_children(client, paths.TOPICS)))
    znodes = read_znodes(client, [f"{TOPIC_CONFIGS}/{topic}" for topic in lone])
    return {topic: znode[1].mzxid for topic in lone if (znode := znodes[f"{TOPIC_CONFIGS}/{topic}"]) is not None}


def delete_orphaned_config(client: KazooClient, topic: str, changed: int) -> bool:
    """Deletes the config that was last changed at this zxid; False if it is gone already.

    Raises WriteError if the topic exists or its config has changed since: somebody is creating it.
    """
    path = f"{TOPIC_CONFIGS}/{topic}"

    def attempt() -> bool:
        sync(client)
        znodes = read_znodes(client, [paths.topic_path(topic), paths.deletion_path(topic), path])
        config = znodes[path]
        if config is None:
            return False
        if znodes[paths.topic_path(topic)] is not None or config[1].mzxid != changed:
            raise WriteError(f"{path}: its topic was created meanwhile. It was not deleted. Nothing has to be done.")
        if znodes[paths.deletion_path(topic)] is not None:
            raise WriteError(f"{path}: its topic is being deleted. It was not deleted. Wait until that has ended.")
        delete_znode(client, path, config[1].version)
        return True

    return repeat(path, attempt)
