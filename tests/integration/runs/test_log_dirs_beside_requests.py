"""A worker has announced copies between log dirs and stands still while others end its run, on real brokers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_rebalance.admin.log_dirs import BrokerDisks, read_log_dirs
from kafka_rebalance.cluster import announced_requests
from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.kafka.throttles import LOG_DIR_RATE
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.log_dirs import copies
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.moves import announcement_age
from kafka_rebalance.workflow.hooks import read_connection
from support.runs.janitor_run import Airflow, tend
from support.runs.log_dir_run import CONNECTION, LogDirRun

MIB = 1024**2
SIZES = {0: 20 * MIB, 1: 16 * MIB, 2: 2 * MIB, 3: MIB}


@pytest.fixture(scope="module", params=["2.8.2", "4.4.0"])
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    dirs = {"log.dirs": "{data}/a,{data}/b,{data}/c"}
    with LocalCluster(request.param, brokers=2, racks=0, broker_config=dirs) as running:
        running.create_topic("t", {number: [1, 2] for number in SIZES})
        running.produce("t", SIZES)
        yield running


@pytest.fixture
def run(tmp_path: Path, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> LogDirRun:
    """It holds its rate, and is about to ask for its copies."""
    made = LogDirRun(tmp_path, cluster, monkeypatch)
    paths = disks_of(cluster).paths
    at = next(by[1] for tp, by in paths.items() if tp.topic == "t" and tp.partition == 0)
    made.plan(job="drain", broker=1, log_dir=at, throttle_bytes_per_second=MIB, internal_topics=True)
    made.answer()
    made.hold()
    return made


def disks_of(cluster: LocalCluster) -> BrokerDisks:
    return read_log_dirs(KafkaConnection(cluster.bootstrap_servers), [1, 2])


def large_replicas(cluster: LocalCluster) -> dict[tuple[int, int], str]:
    """Where they lie. A small one is copied within the first second, under the rate."""
    paths = disks_of(cluster).paths
    return {
        (tp.partition, b): at
        for tp, by in paths.items()
        if tp.topic == "t" and SIZES[tp.partition] > 4 * MIB
        for b, at in by.items()
    }


def rates(cluster: LocalCluster) -> dict[int, str]:
    with open_cluster(read_connection(CONNECTION)) as opened:
        found = opened.read_broker_configs([1, 2])
    return {broker: values[LOG_DIR_RATE] for broker, values in found.items() if LOG_DIR_RATE in values}


def asked_beside(run: LogDirRun, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> Any:
    """What the worker says that sends its request while `act` waits for it."""
    stands, may_go, told = threading.Event(), threading.Event(), list[Any]()
    real_request, real_look = copies.alter_log_dirs, announcement_age.may_still_come

    def stand_still(*arguments: Any, **options: Any) -> Any:
        stands.set()
        assert may_go.wait(120)
        return real_request(*arguments, **options)

    def work() -> None:
        try:
            told.append(run.move())
        except BaseException as failed:
            told.append(failed)

    def look(age: float) -> bool:
        if not may_go.is_set():
            may_go.set()
            worker.join()
        return real_look(age)

    monkeypatch.setattr(copies, "alter_log_dirs", stand_still)
    monkeypatch.setattr(announced_requests, "may_still_come", look)
    worker = threading.Thread(target=work)
    worker.start()
    assert stands.wait(120)
    act()
    assert may_go.is_set(), "it waited for nobody"
    return told[0]


@pytest.mark.parametrize("who", ["release", "janitor"])
def test_nothing_is_copied_without_the_rate_when_the_request_comes_late(
    run: LogDirRun, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    Airflow.answering(monkeypatch)  # knows no such run
    before = large_replicas(cluster)
    said = asked_beside(run, monkeypatch, run.release if who == "release" else lambda: tend(of=CONNECTION))
    assert "taken back" in str(said)
    assert disks_of(cluster).future == {}
    assert large_replicas(cluster) == before
    assert rates(cluster) == {}
    with open_cluster(read_connection(CONNECTION)) as opened:
        assert opened.lock.read() is None
        assert opened.lock.read_open_intents() == []
