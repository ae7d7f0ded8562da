"""The command and its clusters: what cannot be is refused, and what a scenario makes. No server is started."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kafka_rebalance.local_cluster import LocalCluster, LocalClusterError
from kafka_rebalance.local_cluster import __main__ as local_main
from kafka_rebalance.local_cluster.__main__ import main
from kafka_rebalance.local_cluster.cluster import STATE_FILE
from kafka_rebalance.local_cluster.jvms import class_archive
from kafka_rebalance.local_cluster.jvms.class_archive import find_runtime
from kafka_rebalance.local_cluster.jvms.runtime import Runtime
from kafka_rebalance.local_cluster.jvms.server_settings import Peer, zookeeper_properties
from kafka_rebalance.local_cluster.scenarios import SCENARIOS


@pytest.mark.parametrize("command", [["status"], ["down"], ["kill", "1"], ["start", "1"], ["up", "--add", "1"]])
def test_where_no_cluster_is_there_is_nothing_to_do(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--folder", str(tmp_path)]) == 1
    assert "There is no cluster in" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "reason"), [("{", "cannot be read"), ('{"format_version": 99}', "does not have format version 1")]
)
def test_a_state_file_that_cannot_be_used_is_left_alone(
    content: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / STATE_FILE).write_text(content)
    assert main(["down", "--folder", str(tmp_path)]) == 1
    assert reason in capsys.readouterr().err
    assert (tmp_path / STATE_FILE).read_text() == content


def test_the_command_that_ends_a_cluster_can_be_pasted_whatever_its_folder_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Started:
        version, folder, kraft, brokers, bootstrap_servers = "3.9.2", tmp_path, True, dict[int, str](), "b1:9092"

        def __init__(self, *_: object, **__: object) -> None: ...

        def start(self) -> Started:
            return self

    monkeypatch.setattr(local_main, "LocalCluster", Started)
    folder = tmp_path / "it's a $(folder)"
    assert main(["up", "--folder", str(folder)]) == 0
    end = capsys.readouterr().out.splitlines()[-1].partition("End it with: ")[2]
    assert shlex.split(end)[-2:] == ["--folder", str(folder)]


def test_processes_that_are_gone_are_not_running_and_down_removes_the_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "cluster"
    folder.mkdir()
    state = {
        "format_version": 1,
        "version": "3.9.2",
        "racks": 3,
        "zookeeper_port": 1,
        "brokers": [{"id": 1, "rack": "rack-0", "port": 2}],
        "broker_config": {},
        # As after a restart of the machine: pid 1 is somebody else now.
        "processes": {"zookeeper": [1, "another start"], "broker-1": [1, "another start"]},
    }
    (folder / STATE_FILE).write_text(json.dumps(state))
    assert main(["status", "--folder", str(folder)]) == 0
    said = capsys.readouterr().out
    assert "broker 1  rack-0  does not run" in said
    assert "127.0.0.1:1  does not run" in said
    assert main(["down", "--folder", str(folder)]) == 0
    assert not folder.exists()


def test_without_a_class_archive_a_cluster_still_starts_and_says_why_it_is_slower(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho version >&2\n")
    java.chmod(0o755)

    def refuse(_runtime: Runtime, _folder: Path, _archive: Path, *, with_zookeeper: bool) -> None:
        raise LocalClusterError("Java wrote no archive.")

    monkeypatch.setenv("KAFKA_REBALANCE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(class_archive, "find_java", lambda: java)
    monkeypatch.setattr(class_archive, "kafka_jars", lambda _version, _progress: (tmp_path / "kafka.jar",))
    monkeypatch.setattr(class_archive, "_train", refuse)
    said: list[str] = []
    runtime = find_runtime("3.9.2", said.append)
    assert runtime.options == ()
    assert "Starting will take longer" in said[-1]


# --- several ZooKeepers as one ---


def test_every_server_is_told_of_all_and_a_single_one_of_none() -> None:
    ensemble = {1: Peer(21_001, 21_002), 2: Peer(21_003, 21_004), 3: Peer(21_005, 21_006)}
    lines = zookeeper_properties(Path("data"), 20_001, ensemble).splitlines()
    assert "clientPort=20001" in lines
    assert [line for line in lines if line.startswith("server.")] == [
        "server.1=127.0.0.1:21001:21002",
        "server.2=127.0.0.1:21003:21004",
        "server.3=127.0.0.1:21005:21006",
    ]
    assert "server." not in zookeeper_properties(Path("data"), 20_001)


@pytest.mark.parametrize("options", [{}, {"one_jvm": False, "detached": True}])
def test_an_ensemble_that_would_share_a_jvm_or_outlive_its_process_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(
        LocalClusterError, match=r"Nothing was started\. Ask for 1 ZooKeeper, or for more with one_jvm=False"
    ):
        LocalCluster(zookeepers=3, **options)


# --- scenarios, on a cluster that only notes what it is asked to do ---


class NotedCluster:
    def __init__(self, brokers: int = 4, racks: int = 3) -> None:
        self.brokers: dict[int, str | None] = {
            broker: f"rack-{(broker - 1) % racks}" for broker in range(1, brokers + 1)
        }
        self.replicas: dict[tuple[str, int], tuple[int, ...]] = {}
        self.size_bytes: dict[tuple[str, int], int] = {}

    def create_topic(self, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
        self.replicas.update({(topic, partition): tuple(ids) for partition, ids in replicas.items()})

    def produce(self, topic: str, size_bytes: Mapping[int, int]) -> None:
        self.size_bytes.update({(topic, partition): size for partition, size in size_bytes.items()})

    def add_broker(self) -> int:
        broker = len(self.brokers) + 1
        self.brokers[broker] = f"rack-{(broker - 1) % 3}"
        return broker

    def bytes_on(self) -> Counter[int]:
        held: Counter[int] = Counter()
        for partition, replicas in self.replicas.items():
            for broker in replicas:
                held[broker] += self.size_bytes[partition]
        return held


def run(name: str, seed: int = 7, total_bytes: int = 10_000_000) -> NotedCluster:
    cluster = NotedCluster()
    SCENARIOS[name](cluster, total_bytes=total_bytes, seed=seed)
    return cluster


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_seed_gives_the_same_cluster_and_another_seed_another(name: str) -> None:
    first, second, third = run(name), run(name), run(name, seed=8)
    assert (first.replicas, first.size_bytes) == (second.replicas, second.size_bytes)
    assert (first.replicas, first.size_bytes) != (third.replicas, third.size_bytes)


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("seed", range(5))
def test_no_partition_has_two_replicas_in_a_rack(name: str, seed: int) -> None:
    cluster = run(name, seed)
    for replicas in cluster.replicas.values():
        assert len({cluster.brokers[broker] for broker in replicas}) == len(replicas) >= 2


@pytest.mark.parametrize("seed", range(5))
def test_new_brokers_are_empty_and_the_old_ones_skewed(seed: int) -> None:
    cluster = run("new_empty_brokers", seed)
    held = cluster.bytes_on()
    assert set(cluster.brokers) == {1, 2, 3, 4, 5, 6}
    assert held[5] == held[6] == 0
    assert max(held.values()) > 1.3 * min(held[broker] for broker in (1, 2, 3, 4))


@pytest.mark.parametrize("seed", range(5))
def test_a_few_partitions_hold_most_of_a_heavy_tailed_cluster(seed: int) -> None:
    sizes = sorted(run("sizes_heavy_tailed", seed).size_bytes.values(), reverse=True)
    assert sum(sizes[: len(sizes) // 5]) > 0.5 * sum(sizes)


def test_too_few_bytes_are_refused_before_anything_is_created() -> None:
    cluster = NotedCluster()
    with pytest.raises(LocalClusterError, match="too few for topic orders"):
        SCENARIOS["sizes_heavy_tailed"](cluster, total_bytes=10)
    assert cluster.replicas == {}
