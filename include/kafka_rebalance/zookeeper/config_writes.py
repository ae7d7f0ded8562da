"""The writes of throttles into the configs of brokers and topics, with the znode that tells the brokers.

Each write is checked here once more, whoever asks for it, and may be repeated after it failed.
"""

from __future__ import annotations

from collections.abc import Mapping

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import BadVersionError, NoNodeError

from kafka_rebalance.errors import (
    ClusterNotReadyError,
    ConfigChangedError,
    LockLostError,
    WriteError,
)
from kafka_rebalance.zookeeper.client import Znode, read_znodes, sync
from kafka_rebalance.zookeeper.cluster_lock import Fence
from kafka_rebalance.zookeeper.reader import read_assignments
from kafka_rebalance.zookeeper.znode_writes import acl_like, add_checks, commit, repeat
from kafka_rebalance.zookeeper.znodes import paths
from kafka_rebalance.zookeeper.znodes.entity_configs import (
    decode_config,
    encode_config,
    encode_config_change,
    throttle_problem,
)
from kafka_rebalance.zookeeper.znodes.registrations import decode_controller


def merge_config(
    client: KazooClient,
    entity: str,
    changes: Mapping[str, str | None],
    *,
    decided_on: Mapping[str, str] | None = None,
    fence: Fence | None = None,
) -> None:
    """Sets throttle keys of `brokers/N` or `topics/T`, keeps all others, and tells the brokers. None removes a key.

    The brokers are told in the same transaction, and also where nothing changes: a config that was written is one
    that they heed, whoever dies next. `decided_on`: the config that these changes were decided on; where somebody has
    given one of their keys another value since, nothing is written, and ConfigChangedError says so. `fence`: nothing
    is written once somebody else has taken the cluster, requested moves or begun to put throttles back; LockLostError
    then. Raises WriteError for any other key, an unfit value, or a topic that does not exist, and
    ClusterNotReadyError while the cluster is being migrated to KRaft.
    """
    problem = throttle_problem(entity, changes)
    if problem:
        raise WriteError(f"config of {entity}: {problem}. Nothing was written.")
    versions = fence.versions if fence else {}

    def attempt() -> None:
        try:
            _merge_once(client, entity, changes, decided_on, versions)
        except (BadVersionError, NoNodeError, ConfigChangedError):
            _check_fence(client, entity, versions)
            raise

    repeat(f"{paths.config_path(entity)} and its notification in {paths.CONFIG_CHANGES}", attempt)


def _merge_once(
    client: KazooClient,
    entity: str,
    changes: Mapping[str, str | None],
    decided_on: Mapping[str, str] | None,
    fence: Mapping[str, int],
) -> None:
    """Changes exactly the version it read."""
    path = paths.config_path(entity)
    sync(client)
    znodes = read_znodes(client, [paths.CONTROLLER, path])
    _check_no_migration(znodes[paths.CONTROLLER], entity, changes)
    znode = znodes[path]
    config = {} if znode is None else decode_config(znode[0], entity)
    if decided_on is not None:
        _check_decided_on(entity, changes, decided_on, config)
    merged = {key: value for key, value in {**config, **changes}.items() if value is not None}
    if znode is None and not merged:
        return
    if znode is None:
        _check_topic_exists(client, entity)
    transaction = client.transaction()
    add_checks(transaction, fence)
    add_config(client, transaction, entity, znode, merged)
    commit(client, f"{path} and its notification in {paths.CONFIG_CHANGES}", transaction)


def add_config(
    client: KazooClient,
    transaction: TransactionRequest,
    entity: str,
    znode: Znode | None,
    config: Mapping[str, str],
) -> None:
    """Adds to a transaction that the entity gets this config, of which `znode` is the one before, and that brokers are
    told; they are told also where it is the same.
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
    """What has the new value already may be our own write, whose answer was lost."""
    others = sorted(key for key, new in changes.items() if now.get(key) not in (decided_on.get(key), new))
    if others:
        raise ConfigChangedError(
            f"config of {entity}: somebody else has changed {', '.join(others)} since it was read. What they set "
            "stays. Clear this task: it reads again and goes on."
        )


def _check_no_migration(controller: Znode | None, entity: str, changes: Mapping[str, str | None]) -> None:
    """Raises ClusterNotReadyError where a KRaft controller owns the cluster (3.4+): it takes no config from here."""
    if controller is not None and decode_controller(controller[0], 0).kraft_epoch >= 0:
        raise ClusterNotReadyError(
            f"config of {entity}: {', '.join(changes)} not written, since a KRaft controller owns the cluster: it is "
            "being migrated from ZooKeeper, and brokers have their configs from there. Change it with kafka-configs "
            "through --bootstrap-server."
        )


def _check_fence(client: KazooClient, entity: str, fence: Mapping[str, int]) -> None:
    """Raises LockLostError where that is why nothing was written."""
    sync(client)
    now = read_znodes(client, fence)
    if any(found is None or found[1].version != fence[path] for path, found in now.items()):
        raise LockLostError(
            f"config of {entity}: another worker has taken the cluster, requested moves or put throttles back since "
            "this one began, so it was not written. What this one set before is in the hands of the other. Clear this "
            "task if the run is to go on."
        )


def _check_topic_exists(client: KazooClient, entity: str) -> None:
    kind, _, topic = entity.partition("/")
    if kind == "topics" and not read_assignments(client, {topic}):
        # Kafka would give an orphaned config to the next topic of that name.
        raise WriteError(f"topic {topic} does not exist. Its config was not written. Start a new Dag run.")
