"""Formats the folders of KRaft nodes, as kafka-storage.sh does."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from local_cluster.errors import LocalClusterError


def format_storage(gateway: Any, cluster_id: str, configs: Collection[Path]) -> None:
    """Make the folders that each of these server.properties names part of the cluster."""
    jvm = gateway.jvm
    for config in configs:
        words = ("format", "-t", cluster_id, "-c", str(config))
        array = gateway.new_array(jvm.java.lang.String, len(words))
        for index, word in enumerate(words):
            array[index] = word
        code = jvm.kafka.tools.StorageTool.execute(array, jvm.java.lang.System.err)
        if code:
            raise LocalClusterError(f"{config} could not be formatted: kafka-storage ended with {code}.")
