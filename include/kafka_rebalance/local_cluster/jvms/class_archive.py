"""The runtime of a Kafka version, with a class archive: the classes that its servers load, already parsed by Java."""

import hashlib
import shutil
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

from kafka_rebalance.local_cluster.errors import LocalClusterError
from kafka_rebalance.local_cluster.jars.class_path import Progress, kafka_jars, py4j_jar
from kafka_rebalance.local_cluster.jars.locked_jars import VERSIONS
from kafka_rebalance.local_cluster.jvms.one_jvm import OneJvm
from kafka_rebalance.local_cluster.jvms.runtime import Runtime
from kafka_rebalance.local_cluster.jvms.server_settings import broker_properties, kraft_settings, zookeeper_settings
from kafka_rebalance.local_cluster.machine.cache import cache_folder, only_one_process
from kafka_rebalance.local_cluster.machine.java import find_java
from kafka_rebalance.local_cluster.machine.ports import free_ports
from kafka_rebalance.local_cluster.machine.processes import Guard


def find_runtime(version: str, progress: Progress) -> Runtime:
    """The runtime of a version, with its class archive. The first call makes both, later calls find them."""
    runtime = Runtime(find_java(), (*kafka_jars(version, progress), py4j_jar()))
    try:
        archive = _class_archive(version, runtime, progress)
    except (LocalClusterError, OSError) as error:
        progress(f"Starting will take longer: Java's class archive could not be made. {error}")
        return runtime
    return replace(runtime, options=(f"-XX:SharedArchiveFile={archive}",))


def _class_archive(version: str, runtime: Runtime, progress: Progress) -> Path:
    """Java's archive (AppCDS) of the classes that ZooKeeper and a broker load. It saves a third of each start's work.

    Java ignores an archive of another build or class path, so both are in its name.
    """
    said = subprocess.run(
        [str(runtime.java), "-version"], capture_output=True, text=True, timeout=60, check=False
    ).stderr
    key = hashlib.sha256("\n".join([said, *map(str, runtime.class_path)]).encode()).hexdigest()[:16]
    folder = cache_folder() / "classes"
    archive = folder / f"kafka-{version}-{key}.jsa"
    if archive.exists():
        return archive
    folder.mkdir(exist_ok=True)
    with only_one_process(archive):
        if not archive.exists():
            progress(f"Preparing the classes of Kafka {version} for quick starts (once) …")
            with tempfile.TemporaryDirectory(prefix=".draft-", dir=folder) as scratch:
                _train(runtime, Path(scratch), archive, with_zookeeper=version in VERSIONS)
    return archive


def _train(runtime: Runtime, folder: Path, archive: Path, *, with_zookeeper: bool) -> None:
    """Start a broker once, with ZooKeeper or as its own controller.

    Java writes the archive when it ends in the ordinary way.
    """
    draft = folder / "draft.jsa"
    guard = Guard([folder])
    try:
        recorder = replace(runtime, options=(f"-XX:ArchiveClassesAtExit={draft}", "-XX:+BytecodeVerificationRemote"))
        jvm = OneJvm(folder, recorder, guard)
        first, broker = free_ports(2)
        if with_zookeeper:
            registry = zookeeper_settings(1, f"127.0.0.1:{first}")
        else:
            registry = kraft_settings(1, broker, {1: first}, folder / "metadata")
        properties = broker_properties(
            1, rack=None, port=broker, registry=registry, data=folder / "data", brokers=1, overrides={}
        )
        if with_zookeeper:
            jvm.start_zookeepers({1: first}, {})
        else:
            jvm.format_storage("local-cluster-classes0", {1: properties})
        jvm.start_brokers({1: properties})
        jvm.stop_broker(1)
        jvm.exit()
    finally:
        guard.close()
    if not draft.exists():
        raise LocalClusterError("Java ended without writing an archive.")
    shutil.move(draft, archive)
