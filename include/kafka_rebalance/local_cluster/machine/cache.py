"""The folder that outlives runs. It holds jars, and the shim around a Java runtime from a wheel."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kafka_rebalance.local_cluster.errors import LocalClusterError

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


@contextmanager
def only_one_process(path: Path) -> Iterator[None]:
    """A lock for making `path`, which one process holds at a time. The kernel releases it when that process ends."""
    with path.with_name(path.name + ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
