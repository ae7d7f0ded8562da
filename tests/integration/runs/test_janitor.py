"""Throttles whose run is gone, on real brokers of every version: kept while something copies, taken off by the janitor.

Simulated is what Airflow says of the run; that no worker and no triggerer follows the copies is real.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

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
from support import waiting
from support.kafka.on_versions import BOTH_KINDS, EACH_KIND_AND_NEWEST
from support.runs.janitor_run import janitors_run
from support.runs.rebalance_run import CONNECTION, InProcessRun
from support.runs.watched_cluster import WatchedCluster

MEGABYTE = 1_000_000
FAST, SLOW = 50 * MEGABYTE, 1 * MEGABYTE  # bytes per second
wait = partial(waiting.wait, seconds=120)


@pytest.fixture
def topic(cluster: LocalCluster, fresh_topic_name: Callable[[], str], kafka: WatchedCluster) -> str:
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


def is_taken_up(kafka: WatchedCluster, topic: str) -> bool:
    return set(kafka.lists(topic)[0]) == {2, 3, 4}


def is_in_sync(kafka: WatchedCluster, topic: str) -> bool:
    return set(kafka.lists(topic)[0]) == {3, 4} and kafka.is_in_sync(topic, 2)


def dynamic_rates(cluster: LocalCluster, broker: int) -> dict[str, str | None]:
    """The throttle's rates that the broker itself says it uses; 2.0 does not tell them."""
    values = read_effective_configs(KafkaConnection(cluster.bootstrap_servers), [broker])[broker]
    return {key: values[key].value for key in RATE_KEYS if key in values and values[key].source.startswith("DYNAMIC")}


@EACH_KIND_AND_NEWEST
def test_the_throttle_of_a_run_that_is_gone_is_kept_while_it_copies_and_taken_off_after_the_last_copy(
    run: InProcessRun, cluster: LocalCluster, kafka: WatchedCluster, topic: str
) -> None:
    run.hold()
    assert run.request() is not None
    wait("the move is taken up", lambda: is_taken_up(kafka, topic))  # the worker dies here
    held = kafka.throttles()
    with pytest.raises(UnwatchedError, match=r"Nobody follows the copies of run kafka_rebalance/one"):
        tend()
    assert kafka.throttles() == held
    assert not is_in_sync(kafka, topic)
    change_rate(airflow_deployment(), run.folder, FAST, by="olive")
    if cluster.version != "2.0.1":
        wait("broker 4 has the new rate", lambda: set(dynamic_rates(cluster, 4).values()) == {str(FAST)})

    def is_over() -> bool:
        tend()
        if kafka.throttles():
            return False
        assert is_in_sync(kafka, topic), "lifted from a copy that was not in sync"
        return True

    wait("the throttle is taken off", is_over)
    tend()


@BOTH_KINDS
def test_brokers_that_were_down_return_without_a_throttle(
    run: InProcessRun, cluster: LocalCluster, kafka: WatchedCluster, topic: str
) -> None:
    run.hold()
    assert run.request() is not None
    wait("the move is taken up", lambda: is_taken_up(kafka, topic))
    cluster.stop_broker(4)
    try:
        with pytest.raises(ThrottleError, match="Copies are still in flight"):
            run.release()
        with pytest.raises(UnwatchedError):
            tend()
        assert "brokers/4" in kafka.throttles()
        change_rate(airflow_deployment(), run.folder, FAST, by="olive")
    finally:
        cluster.start_broker(4)
    wait("the move has ended", lambda: is_in_sync(kafka, topic) and not kafka.moving())
    cluster.stop_broker(2)  # it sent, so it has a rate, and nothing of it is copied any more
    try:
        assert "brokers/2" in kafka.throttles()
        tend()
        assert kafka.throttles() == {}
        assert kafka.holder() is None
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
