"""Room on disks before a write: by the bytes of today, of all that lies there, not by those of the snapshot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kafka_rebalance.admin.log_dirs import BrokerDisks, LogDir
from kafka_rebalance.errors import ClusterNotReadyError
from support.runs.rebalance_run import CONNECTION, POLICY
from support.runs.simulated_cluster import RATE, SIZE_BYTES, SimulatedCluster, SimulatedRun
from support.zookeeper.fake_zookeeper import put_topic

CAPACITY = 4_600_000  # four replicas fill 87 % of it
PARTITIONS = range(4)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    topics = {"first": dict.fromkeys(PARTITIONS, (1, 2)), "second": dict.fromkeys(PARTITIONS, (1, 2))}
    return SimulatedCluster(monkeypatch, topics)


def state_capacities(monkeypatch: pytest.MonkeyPatch, capacities: dict[int, int]) -> None:
    name = f"AIRFLOW_CONN_{CONNECTION.upper()}"
    monkeypatch.setenv(name, json.dumps(connection_with(capacities)))


def connection_with(capacities: dict[int, int]) -> dict[str, Any]:
    stated = {str(broker): {"disk_bytes": size} for broker, size in capacities.items()}
    extra = {"bootstrap_servers": SimulatedCluster.bootstrap_servers, "broker_capacities": json.dumps(stated)}
    return {"conn_type": "kafka_zookeeper", "host": SimulatedCluster.zookeeper, "extra": extra}


def planned(
    folder: Path,
    cluster: SimulatedCluster,
    monkeypatch: pytest.MonkeyPatch,
    topic: str,
    per_batch: int = 250,
    capacities: dict[int, int] | None = None,
) -> SimulatedRun:
    """A run that gives broker 4 a replica of every partition of the topic, approved."""
    run = SimulatedRun(folder, cluster, monkeypatch, topic)
    run.policy_file.write_text(f"{POLICY}partitions_per_batch: {per_batch}\n")
    state_capacities(monkeypatch, capacities or {1: 100 * SIZE_BYTES, 2: 100 * SIZE_BYTES, 4: CAPACITY})
    entries = [{"topic": topic, "partition": n, "replicas": [1, 4]} for n in PARTITIONS]
    run.plan(plan=json.dumps({"version": 1, "partitions": entries}), candidates=["leaders_only"])
    run.approve("given", RATE)
    return run


def test_the_second_of_two_plans_of_one_snapshot_is_refused_where_both_do_not_fit(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (planned(tmp_path, cluster, monkeypatch, topic) for topic in ("first", "second"))
    first.hold()
    assert first.reassign() == 1
    first.finish()
    with cluster.unchanged(), pytest.raises(ClusterNotReadyError, match=r"broker 4: .*174 %"):
        second.hold()


def test_a_plan_that_an_earlier_attempt_has_half_copied_goes_on_with_what_is_left(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = planned(tmp_path, cluster, monkeypatch, "first", per_batch=2)
    run.hold()
    assert run.request() == 1
    cluster.controller.run()
    run.hold()  # cleared: one replica of four lies on the disk already
    assert run.request() == 2


def test_room_that_others_take_while_the_run_goes_on_stops_the_batch_that_does_not_fit(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = planned(tmp_path, cluster, monkeypatch, "first", per_batch=2)
    run.hold()
    assert run.request() == 1
    cluster.controller.run()
    put_topic(cluster.fake, "others", {0: (4,), 1: (4,), 2: (4,)}, version="2.8")
    with pytest.raises(ClusterNotReadyError, match=r"broker 4: 3.81 MiB of 4.39 MiB .* Batch 2 brings 977 KiB"):
        run.request()


def test_a_capacity_that_the_connection_states_no_more_is_that_of_the_snapshot(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = planned(tmp_path, cluster, monkeypatch, "first")
    state_capacities(monkeypatch, {1: 100 * SIZE_BYTES})
    put_topic(cluster.fake, "others", {0: (4,)}, version="2.8")
    with pytest.raises(ClusterNotReadyError, match="broker 4: "):
        run.hold()


def test_replicas_that_this_run_has_removed_do_not_count_until_kafka_deletes_them(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers from 3.3 on tell what is in use by whatever, and so by what they are about to delete."""
    used = {1: 8, 2: 8, 3: 0, 4: 4}
    read = cluster._log_dirs

    def told(_: object, brokers: list[int], **__: object) -> BrokerDisks:
        dirs = {b: (LogDir("/data", 20 * SIZE_BYTES, (20 - used[b]) * SIZE_BYTES),) for b in brokers}
        return BrokerDisks(read(_, brokers).replicas, dirs)

    monkeypatch.setattr("kafka_rebalance.admin.log_dirs.read_log_dirs", told)
    run = planned(tmp_path, cluster, monkeypatch, "first", per_batch=2, capacities={4: 9 * SIZE_BYTES})
    run.hold()
    assert run.request() == 1
    cluster.controller.run()
    used[4] = 8  # one replica came; the other bytes are of what was removed, and wait for their deletion
    assert run.request() == 2
