"""The folder that outlives runs. It holds jars, and the shim around a Java runtime from a wheel."""

import os
from pathlib import Path

from local_cluster.errors import LocalClusterError

CACHE_VARIABLE = "KAFKA_REBALANCE_CACHE"


def cache_folder() -> Path:
    """`$KAFKA_REBALANCE_CACHE`, else `kafka-rebalance` below the user's cache folder. Makes it if it is missing."""
    override = os.environ.get(CACHE_VARIABLE)
    if override:
        folder = Path(override).expanduser().absolute()
    else:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafka-rebalance"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LocalClusterError(
            f"The cache folder {folder} cannot be made: {error}. Nothing was fetched. "
            f"Set {CACHE_VARIABLE} to a folder that you can write."
        ) from error
    return folder
