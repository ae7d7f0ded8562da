"""The class path comes from the lock file and from nowhere else."""

import hashlib
import threading
from collections.abc import Sequence
from importlib.metadata import version as installed_version
from pathlib import Path

import pytest

from kafka_rebalance.local_cluster import LocalClusterError
from kafka_rebalance.local_cluster.jars import class_path as jars_module
from kafka_rebalance.local_cluster.jars import fetch as fetch_module
from kafka_rebalance.local_cluster.jars.class_path import (
    cached_jars,
    tiered_storage_jar,
    tools_jars,
)
from kafka_rebalance.local_cluster.jars.locked_jars import ALONE, ROOTS, SPARK_SOURCE, Jar, lock_path, read_lock
from kafka_rebalance.local_cluster.jars.make_lock import write_lock


def jar(name: str, content: bytes) -> Jar:
    return Jar(group="org.example", artifact=name, version="1.0", sha256=hashlib.sha256(content).hexdigest())


JARS = (jar("broker", b"broker"), jar("clients", b"clients"))
CONTENT = {"broker-1.0.jar": b"broker", "clients-1.0.jar": b"clients"}


class Central:
    """Stands in for Maven Central: notes what it is asked for."""

    def __init__(self, content: dict[str, bytes]) -> None:
        self.content = content
        self.asked: list[list[str]] = []

    def fetch(self, jars: Sequence[Jar], folder: Path) -> None:
        self.asked.append([jar.artifact for jar in jars])
        for wanted in jars:
            (folder / wanted.file_name).write_bytes(self.content[wanted.file_name])


@pytest.fixture
def central(monkeypatch: pytest.MonkeyPatch) -> Central:
    stand_in = Central(dict(CONTENT))
    monkeypatch.setattr(jars_module, "fetch", stand_in.fetch)
    return stand_in


def test_jars_are_fetched_once_and_given_in_the_order_of_the_lock(central: Central, tmp_path: Path) -> None:
    said: list[str] = []
    first = cached_jars(JARS, tmp_path / "jars", said.append)
    second = cached_jars(JARS, tmp_path / "jars", said.append)
    assert [path.name for path in first] == ["broker-1.0.jar", "clients-1.0.jar"]
    assert first == second
    assert central.asked == [["broker", "clients"]]
    assert len(said) == 1
    assert "2 jars" in said[0]


def test_a_jar_in_the_cache_with_another_content_is_named_and_nothing_is_deleted(
    central: Central, tmp_path: Path
) -> None:
    (tmp_path / "broker-1.0.jar").write_bytes(b"broker")
    (tmp_path / "clients-1.0.jar").write_bytes(b"someone else's")
    with pytest.raises(LocalClusterError, match=r"org\.example:clients:1\.0 has sha256 .*Remove that file"):
        cached_jars(JARS, tmp_path)
    assert central.asked == []
    assert (tmp_path / "broker-1.0.jar").read_bytes() == b"broker"
    assert (tmp_path / "clients-1.0.jar").read_bytes() == b"someone else's"


def test_a_fetched_jar_with_another_content_never_enters_the_cache(central: Central, tmp_path: Path) -> None:
    central.content["clients-1.0.jar"] = b"someone else's"
    folder = tmp_path / "jars"
    with pytest.raises(LocalClusterError, match=r"org\.example:clients:1\.0 .*not put into the cache"):
        cached_jars(JARS, folder)
    assert list(folder.iterdir()) == []
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".fetch")] == []


def test_callers_at_the_same_time_fetch_once(central: Central, tmp_path: Path) -> None:
    results: list[tuple[Path, ...]] = []
    threads = [threading.Thread(target=lambda: results.append(cached_jars(JARS, tmp_path / "j"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8
    assert central.asked == [["broker", "clients"]]


LOCKS = ROOTS | ALONE


@pytest.mark.parametrize("version", LOCKS)
def test_each_lock_holds_what_it_was_resolved_from_and_is_in_order(version: str) -> None:
    jars = read_lock(lock_path(version))
    assert set(LOCKS[version]) <= {jar.name for jar in jars}
    assert len({jar.file_name for jar in jars}) == len(jars)
    assert write_lock(jars) == lock_path(version).read_text(encoding="utf-8")


def test_the_tools_have_a_jar_of_their_own_only_where_the_core_lacks_them(
    central: Central, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KAFKA_REBALANCE_CACHE", str(tmp_path))
    tools = jar("kafka-tools", b"tools")
    central.content[tools.file_name] = b"tools"
    monkeypatch.setattr(jars_module, "read_lock", lambda _path: (tools,))
    assert tools_jars("2.8.2") == ()
    assert [path.name for path in tools_jars("3.9.2")] == [tools.file_name]


def test_there_is_a_kafka_source_for_the_spark_that_is_pinned() -> None:
    assert installed_version("pyspark") in SPARK_SOURCE


def test_a_lock_line_that_is_not_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kafka.lock"
    path.write_text(write_lock(JARS) + "deadbeef  org.example:broken:1\n", encoding="utf-8")
    with pytest.raises(LocalClusterError, match="line 3 is not"):
        read_lock(path)


def tool(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def broken_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tool(tmp_path / "java" / "bin" / "java", 'echo "no route to host" >&2; exit 1')
    monkeypatch.setattr(fetch_module, "find_java", lambda: java)
    monkeypatch.setattr(fetch_module, "java_home", lambda: java.parent.parent)


@pytest.mark.usefixtures("broken_java")
def test_when_nothing_can_fetch_both_reasons_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mvn = tool(tmp_path / "bin" / "mvn", 'echo "mirror says 403"; exit 1')
    monkeypatch.setenv("PATH", f"{mvn.parent}:/usr/bin:/bin")
    with pytest.raises(LocalClusterError) as refused:
        cached_jars(JARS, tmp_path / "jars")
    assert "Ivy ended with 1: no route to host" in str(refused.value)
    assert "Maven ended with 1: mirror says 403" in str(refused.value)
    assert "The cache was not changed" in str(refused.value)
    assert list((tmp_path / "jars").iterdir()) == []


def test_one_of_several_jars_of_an_artifact_is_named_by_its_classifier(tmp_path: Path) -> None:
    lock = tmp_path / "kafka.lock"
    test_jar = Jar("org.example", "storage", "1.0", "a" * 64, classifier="test")
    lock.write_text(write_lock([test_jar, Jar("org.example", "storage", "1.0", "b" * 64)]))
    plain, given = read_lock(lock)
    assert given == test_jar
    assert (given.name, given.file_name) == ("org.example:storage:1.0:test", "storage-1.0-test.jar")
    assert (plain.name, plain.file_name) == ("org.example:storage:1.0", "storage-1.0.jar")


def test_remote_storage_in_a_folder_is_one_jar_of_the_same_version() -> None:
    (locked,) = read_lock(lock_path("tiered-3.9.2"))
    assert (locked.artifact, locked.version, locked.classifier) == ("kafka-storage", "3.9.2", "test")
    with pytest.raises(LocalClusterError, match=r"Kafka 2\.0\.1 has no lock file for remote storage"):
        tiered_storage_jar("2.0.1")
