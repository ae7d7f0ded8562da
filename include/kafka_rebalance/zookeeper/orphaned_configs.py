"""Configs of topics that do not exist. A creation that broke off leaves them behind (AdminUtils writes them first)."""

from __future__ import annotations

from kazoo.client import KazooClient

from kafka_rebalance.errors import WriteError
from kafka_rebalance.zookeeper.client import read_children, read_znodes, sync
from kafka_rebalance.zookeeper.znode_writes import delete_znode, repeat
from kafka_rebalance.zookeeper.znodes import paths

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
        found = read_znodes(client, [paths.topic_path(topic), paths.deletion_path(topic), path])
        config = found[path]
        if config is None:
            return False
        if found[paths.topic_path(topic)] is not None or config[1].mzxid != changed:
            raise WriteError(f"{path}: its topic was created meanwhile. It was not deleted. Nothing has to be done.")
        if found[paths.deletion_path(topic)] is not None:
            raise WriteError(f"{path}: its topic is being deleted. It was not deleted. Wait until that has ended.")
        delete_znode(client, path, config[1].version)
        return True

    return repeat(path, attempt)
