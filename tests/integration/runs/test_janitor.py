"""Throttles whose run is gone, on real brokers of every version: kept while something copies, taken off by the janitor.

Simulated is what Airflow says of the run; that no worker and no triggerer follows the copies is real.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from kafka_rebalance.admin.configs import read_effective_configs
from kafka_rebalance.cancel.set_throttle import change_rate
from kafka_rebalance.errors import ReadError, ThrottleError, UnwatchedError
from kafka_rebalance.kafka.throttles import RATE_KEYS
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.lock_owner import AirflowState
from kafka_rebalance.throttle.janitor import look_after_cluster, look_after_lease
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.run_step import run_step
from kafka_rebalance.zookeeper.reader import read_cluster_view
from support import waiting
from support.kafka.on_versions import BOTH_KINDS
from support.runs.janitor_run import janitors_run
from support.runs.rebalance_run import CONNECTION, InProcessRun

MEGABYTE = 1_000_000
FAST, SLOW = 50 * MEGABYTE, 1 * MEGABYTE  # bytes per second
REASSIGN, LOCK = "/admin/reassign_partitions", "/kafka_rebalance/run"
wait = partial(waiting.wait, seconds=120)


def throttles(client: KazooClient) -> dict[str, bytes]:
    """Every config that throttles something."""
    entities = [f"{kind}/{name}" for kind in ("brokers", "topics") for name in client.get_children(f"/config/{kind}")]
    found = {entity: client.get(f"/config/{entity}")[0] for entity in entities}
    return {entity: content for entity, content in found.items() if b"throttled" in content}


@pytest.fixture
def zookeeper(cluster: LocalCluster) -> Iterator[KazooClient]:
    client = KazooClient(cluster.zookeeper)
    client.start()
    yield client
    assert client.exists(REASSIGN) is None
    assert client.exists(LOCK) is None
    assert throttles(client) == {}
    client.stop()
    client.close()


@pytest.fixture
def topic(cluster: LocalCluster, fresh_topic_name: Callable[[], str], zookeeper: KazooClient) -> str:
    """8 MB on brokers 3 and 2."""
    name = fresh_topic_name()
    cluster.create_topic(name, {0: (3, 2)})
    cluster.produce(name, {0: 8 * MEGABYTE})
    return name


@pytest.fixture
def run(tmp_path: Path, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, topic: str) -> InProcessRun:
    """A run that is to move the topic from broker 2 to 4, approved at a rate at which that takes 8 s."""
    made = InProcessRun(tmp_path, cluster, monkeypatch)
    monkeypatch.setattr(look_after_cluster, "WATCH_SECONDS", 0)
    monkeypatch.setattr(look_after_lease, "read_standing", lambda *_: AirflowState.GONE)
    made.plan(topics_in=[topic], job="drain", drain=[2], brokers_out=[1])
    made.approve("light", SLOW)
    return made


def tend() -> dict[str, Any]:
    params = {"kafka_conn_id": None, "clean": [], "break_lock": None}
    return run_step(look_after_cluster.look_after_cluster, janitors_run(), CONNECTION, params)


def replicas(client: KazooClient, topic: str) -> tuple[set[int], set[int]]:
    """(assigned, in sync) of the topic's partition."""
    (partition,) = read_cluster_view(client, [topic]).partitions.values()
    return set(partition.replicas), set(partition.isr)


def is_taken_up(client: KazooClient, topic: str) -> bool:
    return replicas(client, topic)[0] == {2, 3, 4}


def is_in_sync(client: KazooClient, topic: str) -> bool:
    return replicas(client, topic) == ({3, 4}, {3, 4})


def dynamic_rates(cluster: LocalCluster, broker: int) -> dict[str, str | None]:
    """The throttle's rates that the broker itself says it uses; 2.0 does not tell them."""
    values = read_effective_configs(KafkaConnection(cluster.bootstrap_servers), [broker])[broker]
    return {key: values[key].value for key in RATE_KEYS if key in values and values[key].source.startswith("DYNAMIC")}


def test_the_throttle_of_a_run_that_is_gone_is_kept_while_it_copies_and_taken_off_after_the_last_copy(
    run: InProcessRun, cluster: LocalCluster, zookeeper: KazooClient, topic: str
) -> None:
    run.hold()
    assert run.request() is not None
    wait("the move is taken up", lambda: is_taken_up(zookeeper, topic))  # the worker dies here
    held = throttles(zookeeper)
    with pytest.raises(UnwatchedError, match=r"Nobody follows the copies of run kafka_rebalance/one"):
        tend()
    assert throttles(zookeeper) == held
    assert not is_in_sync(zookeeper, topic)
    change_rate(airflow_deployment(), run.folder, FAST, by="olive")
    if cluster.version != "2.0.1":
        wait("broker 4 has the new rate", lambda: set(dynamic_rates(cluster, 4).values()) == {str(FAST)})

    def is_over() -> bool:
        tend()
        if throttles(zookeeper):
            return False
        assert is_in_sync(zookeeper, topic), "lifted from a copy that was not in sync"
        return True

    wait("the throttle is taken off", is_over)
    tend()


@BOTH_KINDS
def test_brokers_that_were_down_return_without_a_throttle(
    run: InProcessRun, cluster: LocalCluster, zookeeper: KazooClient, topic: str
) -> None:
    run.hold()
    assert run.request() is not None
    wait("the move is taken up", lambda: is_taken_up(zookeeper, topic))
    cluster.stop_broker(4)
    try:
        with pytest.raises(ThrottleError, match="Copies are still in flight"):
            run.release()
        with pytest.raises(UnwatchedError):
            tend()
        assert b"throttled" in zookeeper.get("/config/brokers/4")[0]
        change_rate(airflow_deployment(), run.folder, FAST, by="olive")
    finally:
        cluster.start_broker(4)
    wait("the move has ended", lambda: is_in_sync(zookeeper, topic) and zookeeper.exists(REASSIGN) is None)
    cluster.stop_broker(2)  # it sent, so it has a rate, and nothing of it is copied any more
    try:
        assert b"throttled" in zookeeper.get("/config/brokers/2")[0]
        tend()
        assert throttles(zookeeper) == {}
        assert zookeeper.exists(LOCK) is None
    finally:
        cluster.start_broker(2)
    for broker in (2, 4):
        wait(f"broker {broker} has no rate", lambda broker=broker: tells_no_rate(cluster, broker))


def tells_no_rate(cluster: LocalCluster, broker: int) -> bool:
    """Not yet, where a broker that has just come back does not answer."""
    try:
        return dynamic_rates(cluster, broker) == {}
    except ReadError:
        return False
