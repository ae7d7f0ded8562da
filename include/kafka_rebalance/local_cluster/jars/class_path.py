"""The class path of a Kafka version. Its jars come from the cache and are fetched once."""

import importlib.util
import os
import tempfile
from collections.abc import Callable, Sequence
from importlib.metadata import version as installed_version
from pathlib import Path

from kafka_rebalance.local_cluster.errors import LocalClusterError
from kafka_rebalance.local_cluster.jars.fetch import fetch
from kafka_rebalance.local_cluster.jars.locked_jars import (
    ROOTS,
    SPARK_SOURCE,
    TIERED,
    TOOLS,
    Jar,
    lock_path,
    read_lock,
    sha256_of,
)
from kafka_rebalance.local_cluster.machine.cache import cache_folder, only_one_process

Progress = Callable[[str], None]


def quiet(_line: str) -> None:
    """A `Progress` that prints nothing."""


def kafka_jars(version: str, progress: Progress = quiet) -> tuple[Path, ...]:
    """Every jar that the servers of this version need, checked against the project's lock file."""
    if version not in ROOTS:
        raise LocalClusterError(
            f"Kafka {version!r} has no lock file. Nothing was started. Choose one of {', '.join(ROOTS)}."
        )
    return _locked_jars(version, progress)


def tools_jars(version: str, progress: Progress = quiet) -> tuple[Path, ...]:
    """The jars that Kafka's own command line tools need beside `kafka_jars`; none in versions before 3.3."""
    return _locked_jars(f"tools-{version}", progress) if version in TOOLS else ()


def tiered_storage_jar(version: str, progress: Progress = quiet) -> Path:
    """The jar with the class `org.apache.kafka.server.log.remote.storage.LocalTieredStorage`."""
    if version not in TIERED:
        raise LocalClusterError(
            f"Kafka {version} has no lock file for remote storage. Nothing was fetched. Choose one of "
            f"{', '.join(TIERED)}."
        )
    (jar,) = _locked_jars(f"tiered-{version}", progress)
    return jar


def spark_source_jars(progress: Progress = quiet) -> tuple[Path, ...]:
    """The jars with which the pyspark wheel's Spark reads Kafka, for `spark-submit --jars`."""
    spark = installed_version("pyspark")
    if spark not in SPARK_SOURCE:
        raise LocalClusterError(
            f"Spark {spark} has no lock file for its Kafka source. Only {', '.join(SPARK_SOURCE)} has one. "
            "Nothing was fetched. Add it to SPARK_SOURCE and make its lock: "
            "python -m kafka_rebalance.local_cluster.jars.make_lock"
        )
    return _locked_jars(f"spark-{spark}", progress)


def cached_jars(jars: Sequence[Jar], folder: Path, progress: Progress = quiet) -> tuple[Path, ...]:
    """The jars in `folder`, after fetching missing ones. Refuses a jar with another sha256, and leaves it there."""
    folder.mkdir(parents=True, exist_ok=True)
    if _missing(jars, folder):
        with only_one_process(folder):
            missing = _missing(jars, folder)
            if missing:
                _fetch_into(missing, folder, progress)
    paths = tuple(folder / jar.file_name for jar in jars)
    for jar, path in zip(jars, paths, strict=True):
        _check(jar, path, f"{path} was not changed. Remove that file, and the next start fetches it again.")
    return paths


def py4j_jar() -> Path:
    """Java's side of py4j: from the py4j wheel, else from the pyspark wheel."""
    from py4j.java_gateway import find_jar_path

    found = find_jar_path()
    if found:
        return Path(found)
    wheel = importlib.util.find_spec("pyspark")
    jars = sorted((Path(wheel.origin).parent / "jars").glob("py4j-*.jar")) if wheel and wheel.origin else []
    if not jars:
        raise LocalClusterError(
            "Neither the py4j wheel nor the pyspark wheel has py4j's jar. Nothing was started. "
            "Install requirements.txt, or use one_jvm=False."
        )
    return jars[-1]


def _locked_jars(lock: str, progress: Progress) -> tuple[Path, ...]:
    return cached_jars(read_lock(lock_path(lock)), cache_folder() / "jars" / lock, progress)


def _missing(jars: Sequence[Jar], folder: Path) -> list[Jar]:
    return [jar for jar in jars if not (folder / jar.file_name).exists()]


def _fetch_into(jars: Sequence[Jar], folder: Path, progress: Progress) -> None:
    progress(f"Fetching {len(jars)} jars from Maven Central into {folder} (once) …")
    # On the same file system as the final place: each rename is atomic, so nobody finds a half-fetched jar.
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder.parent) as scratch:
        staging = Path(scratch)
        fetch(jars, staging)
        for jar in jars:
            _check(jar, staging / jar.file_name, "It was not put into the cache. Nothing was changed.")
        for jar in jars:
            os.replace(staging / jar.file_name, folder / jar.file_name)


def _check(jar: Jar, path: Path, remedy: str) -> None:
    found = sha256_of(path)
    if found != jar.sha256:
        raise LocalClusterError(
            f"{jar.name} has sha256 {found}, but the lock file says {jar.sha256}. It is not the jar with which this "
            f"project was tested, and was not used. {remedy}"
        )
