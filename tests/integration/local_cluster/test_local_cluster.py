"""LocalCluster and its command, on real ZooKeepers and brokers."""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_rebalance.admin.log_dirs import read_log_dirs
from kafka_rebalance.kafka.log_dir_choice import arrivals
from kafka_rebalance.local_cluster import LocalCluster, LocalClusterError, zookeeper_topics
from kafka_rebalance.local_cluster.detached import STATE_FILE
from kafka_rebalance.local_cluster.jars.locked_jars import VERSIONS
from kafka_rebalance.local_cluster.machine.processes import ProcessId, read_start
from kafka_rebalance.local_cluster.scenarios import SCENARIOS
from kafka_rebalance.model.connection import KafkaConnection
from support.kafka.on_versions import in_make_test
from support.waiting import wait

# What Kafka itself adds to values: headers of records and batches.
OVERHEAD = 0.03


def bytes_on_disk(cluster: LocalCluster, broker: int) -> dict[tuple[str, int], int]:
    """Bytes of the segments of each partition that this broker holds; Kafka's own topics and deleted ones left out."""
    found: Counter[tuple[str, int]] = Counter()
    for segment in (cluster.folder / f"data-{broker}").glob("**/*.log"):
        topic, _, partition = segment.parent.name.rpartition("-")
        if not topic.startswith("__") and partition.isdecimal():  # else `T-0.<uuid>-delete`, kept for a minute
            found[topic, int(partition)] += segment.stat().st_size
    return dict(found)


def leaders(cluster: LocalCluster, topic: str, partitions: int) -> dict[int, int]:
    with zookeeper_topics.open_client(cluster.zookeeper) as client:
        paths = {p: f"/brokers/topics/{topic}/partitions/{p}/state" for p in range(partitions)}
        return {p: json.loads(client.get(path)[0])["leader"] for p, path in paths.items()}


def registered(cluster: LocalCluster) -> frozenset[int]:
    with zookeeper_topics.open_client(cluster.zookeeper) as client:
        return zookeeper_topics.read_registered(client)


def test_a_new_topic_has_its_leaders_and_holds_what_was_produced_on_every_replica(
    cluster: LocalCluster, fresh_topic_name: Callable[[], str]
) -> None:
    topic = fresh_topic_name()
    cluster.create_topic(topic, {0: (1, 2), 1: (3, 4)}, config={"segment.bytes": 1_048_576})
    assert leaders(cluster, topic, 2) == {0: 1, 1: 3}
    cluster.produce(topic, {0: 3_000_000, 1: 5})
    for broker in (1, 2):
        assert bytes_on_disk(cluster, broker)[topic, 0] == pytest.approx(3_000_000, rel=OVERHEAD)
        segments = list((cluster.folder / f"data-{broker}" / f"{topic}-0").glob("*.log"))
        assert len(segments) >= 3, "the topic's own configuration was not taken"
    assert 5 < bytes_on_disk(cluster, 4)[topic, 1] < 200


def test_a_topic_is_there_once_every_broker_has_its_replicas_and_shows_it(
    cluster: LocalCluster, fresh_topic_name: Callable[[], str]
) -> None:
    replicas = {0: (1, 2), 1: (3, 4), 2: (4, 1)}
    for _ in range(5):  # one alone may be there in time by chance
        topic = fresh_topic_name()
        cluster.create_topic(topic, replicas)
        held = {broker: bytes_on_disk(cluster, broker) for broker in cluster.brokers}
        assert {p: {b for b in held if (topic, p) in held[b]} for p in replicas} == {
            p: set(brokers) for p, brokers in replicas.items()
        }
        assert zookeeper_topics.read_unaware(cluster.bootstrap_servers, topic, cluster.brokers) == frozenset()
    assert zookeeper_topics.read_unaware(cluster.bootstrap_servers, "no-such-topic", [1, 3]) == {1, 3}


def test_a_topic_that_is_there_or_has_impossible_replicas_is_refused(
    cluster: LocalCluster, fresh_topic_name: Callable[[], str]
) -> None:
    topic = fresh_topic_name()
    for replicas, reason in (({0: (1, 9)}, r"no broker \[9\]"), ({0: (1, 1)}, "different brokers"), ({}, "at least")):
        with pytest.raises(LocalClusterError, match=reason):
            cluster.create_topic(topic, replicas)
    with zookeeper_topics.open_client(cluster.zookeeper) as client:
        assert client.exists(f"/brokers/topics/{topic}") is None
        assert client.exists(f"/config/topics/{topic}") is None
    cluster.create_topic(topic, {0: (1, 2)})
    with pytest.raises(LocalClusterError, match="already there"):
        cluster.create_topic(topic, {0: (2, 1)})


def test_a_shared_jvm_refuses_to_kill_a_broker(cluster: LocalCluster) -> None:
    with pytest.raises(LocalClusterError, match="cannot be killed; it still runs"):
        cluster.kill_broker(1)
    assert cluster.is_running(1)


@pytest.mark.parametrize("version", in_make_test(VERSIONS, VERSIONS[0]))
def test_brokers_are_added_stopped_and_started_again(version: str, tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    two_log_dirs = {"log.dirs": "{data}/a,{data}/b"}
    with LocalCluster(version, brokers=2, racks=2, folder=folder, broker_config=two_log_dirs) as cluster:
        cluster.create_topic("orders", {0: (2, 1), 1: (1, 2)})
        assert cluster.add_broker() == 3
        assert cluster.add_broker(rack="elsewhere", config={"log.dirs": "{data}/c"}) == 4
        assert cluster.brokers == {1: "rack-0", 2: "rack-1", 3: "rack-0", 4: "elsewhere"}
        assert registered(cluster) == {1, 2, 3, 4}
        assert {path.name for path in (folder / "data-3").iterdir()} == {"a", "b"}
        assert {path.name for path in (folder / "data-4").iterdir()} == {"c"}
        where_new_replicas_go(cluster)

        cluster.stop_broker(2)
        assert registered(cluster) == {1, 3, 4}
        assert leaders(cluster, "orders", 2) == {0: 1, 1: 1}
        with pytest.raises(LocalClusterError, match="Broker 2 does not run"):
            cluster.stop_broker(2)
        cluster.start_broker(2)
        assert registered(cluster) == {1, 2, 3, 4}
        cluster.produce("orders", {0: 100_000})
        processes = read_processes(folder)
        assert len(processes) == 1
    assert not processes[0].is_alive()
    assert (folder / "kafka.log").exists(), "a folder that was given stays"


def where_new_replicas_go(cluster: LocalCluster) -> None:
    """Into the log dir with the fewest, and brokers tell of each replica in which it lies."""
    cluster.create_topic("first", dict.fromkeys(range(5), (3,)))
    cluster.create_topic("then", dict.fromkeys(range(4), (3,)))
    disks = read_log_dirs(KafkaConnection(cluster.bootstrap_servers), [3])
    held = {one.path: one.replicas for one in disks.log_dirs[3]}
    assert all(count <= said.most for count, said in zip(held.values(), arrivals([0, 0], 9), strict=True))
    for topic_partition, paths in disks.paths.items():
        assert (Path(paths[3]) / f"{topic_partition.topic}-{topic_partition.partition}").is_dir()
    assert Counter(paths[3] for paths in disks.paths.values()) == held


PARENT = """
import sys
from kafka_rebalance.local_cluster import LocalCluster
with LocalCluster("2.0.1", brokers=1, one_jvm=sys.argv[1] == "True") as cluster:
    print(cluster.folder, flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("one_jvm", [True, False])
def test_nothing_is_left_when_python_is_killed(one_jvm: bool) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(one_jvm)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        folder = Path(parent.stdout.readline().strip())
        processes = read_processes(folder)
        assert len(processes) == (1 if one_jvm else 2)
        parent.kill()
    wait(
        "nothing is left of it",
        lambda: not folder.exists() and not any(process.is_alive() for process in processes),
        30,
    )


def read_processes(folder: Path) -> list[ProcessId]:
    """The JVMs that name this folder in their command line."""
    assert folder.is_dir()
    found = []
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            mine = f"-Dlocal.cluster.log={folder}/".encode() in command.read_bytes()
        except OSError:
            continue
        started = read_start(int(command.parent.name))
        if mine and started is not None:
            found.append(ProcessId(int(command.parent.name), started))
    return found


def test_a_broker_that_cannot_start_is_an_error_with_its_reason_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(LocalClusterError, match=r"Broker 1 did not start: .*log\.segment\.bytes"):
        LocalCluster("2.0.1", brokers=1, broker_config={"log.segment.bytes": 1}).start()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", in_make_test(SCENARIOS, "one_broker_leads_all"))
def test_a_scenario_writes_what_it_says(name: str) -> None:
    total_bytes = 8_000_000
    with LocalCluster("2.0.1", brokers=4, racks=3) as cluster:
        written = SCENARIOS[name](cluster, total_bytes=total_bytes, seed=3)
        held = {broker: bytes_on_disk(cluster, broker) for broker in cluster.brokers}
        assert sum(sum(sizes.values()) for sizes in held.values()) == pytest.approx(total_bytes, rel=OVERHEAD)
        for topic, sizes in written.items():
            for partition, size_bytes in sizes.items():
                holders = [broker for broker in held if (topic, partition) in held[broker]]
                assert len({cluster.brokers[broker] for broker in holders}) == len(holders) >= 2
                for broker in holders:
                    assert held[broker][topic, partition] == pytest.approx(size_bytes, rel=OVERHEAD, abs=200)
        leads = Counter(leader for topic in written for leader in leaders(cluster, topic, len(written[topic])).values())
        if name == "new_empty_brokers":
            assert registered(cluster) == {1, 2, 3, 4, 5, 6}
            assert held[5] == held[6] == {}
        elif name == "one_broker_leads_all":
            assert set(leads) == {1}
        else:
            assert set(leads) == {1, 2, 3, 4}


def run_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kafka_rebalance.local_cluster", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_cluster_goes_up_loses_a_broker_to_a_kill_regains_it_with_its_data_and_goes_down(tmp_path: Path) -> None:
    where = ("--folder", str(tmp_path / "cluster"))
    try:
        up = run_command("up", "--version", "2.0.1", "--brokers", "2", "--racks", "2", *where)
        assert up.returncode == 0, up.stderr
        assert re.search(r"runs after [\d.]+ s", up.stdout)
        processes = read_processes(tmp_path / "cluster")
        assert len(processes) == 3

        again = run_command("up", "--version", "2.0.1", *where)
        assert again.returncode == 1
        assert "is not empty" in again.stderr
        assert all(process.is_alive() for process in processes)

        cluster = LocalCluster.attach(tmp_path / "cluster")
        cluster.create_topic("orders", {0: (1, 2)})
        cluster.produce("orders", {0: 200_000})
        assert run_command("up", "--add", "1", *where).returncode == 0
        assert run_command("kill", "1", *where).returncode == 0
        status = run_command("status", *where).stdout
        assert "broker 1  rack-0  does not run" in status
        assert "broker 2  rack-1  runs" in status
        assert "broker 3  rack-0  runs" in status

        twice = run_command("kill", "1", *where)
        assert twice.returncode == 1
        assert twice.stderr == "error: Broker 1 does not run. Nothing was done.\n"
        assert run_command("start", "1", *where).returncode == 0
        assert "broker 1  rack-0  runs" in run_command("status", *where).stdout
        assert registered(cluster) == {1, 2, 3}
        assert leaders(cluster, "orders", 1) == {0: 2}
        assert bytes_on_disk(cluster, 1)["orders", 0] == pytest.approx(200_000, rel=OVERHEAD)

        processes = read_processes(tmp_path / "cluster")
        assert len(processes) == 4
        assert run_command("down", *where).returncode == 0
        assert not any(process.is_alive() for process in processes)
        assert not (tmp_path / "cluster").exists()
        assert run_command("down", *where).returncode == 1
    finally:
        # Only where the test itself went wrong.
        if (tmp_path / "cluster" / STATE_FILE).exists():
            LocalCluster.attach(tmp_path / "cluster").close()
            shutil.rmtree(tmp_path / "cluster")
