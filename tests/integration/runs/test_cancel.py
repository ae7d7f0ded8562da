"""Cancelling a throttled move in mid-copy on real brokers, and going back from one that has ended."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException

from kafka_rebalance.admin import reassignments
from kafka_rebalance.cancel.set_throttle import change_rate
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.run.stop_and_cancel_requests import read_control
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.hooks import read_connection
from support.kafka.on_versions import BOTH_KINDS, EACH_KIND_AND_NEWEST
from support.runs.cancel_run import CancelRun
from support.runs.rebalance_run import CONNECTION, InProcessRun
from support.runs.watched_cluster import WatchedCluster

MEGABYTE = 1_000_000
FAST, SLOW = 50 * MEGABYTE, 1 * MEGABYTE  # bytes per second
# A quota is an average over ten seconds, so a copy begins with as much at once: no partition may be whole with that.
SIZE = 16 * MEGABYTE
WAIT_SECONDS = 60
RECORDED = {0: (2, 1), 1: (1, 2)}  # the API would leave the first as [1, 2]


def is_as_recorded(kafka: WatchedCluster, topic: str) -> bool:
    return kafka.lists(topic) == RECORDED and kafka.is_in_sync(topic, 2)


def approve_in_mid_copy(canceller: CancelRun) -> None:
    """When each new replica holds something, and none of them all."""
    give_up = time.monotonic() + WAIT_SECONDS
    while True:
        canceller.request("cancel_now")
        steps = canceller.document["steps"]
        if all(0 < step["bytes_thrown_away"] < SIZE for step in steps):
            break
        assert time.monotonic() < give_up
        time.sleep(0.05)
    assert {step["fate"] for step in steps} == {"back"}
    canceller.answer(consent=canceller.document["consent"])


@EACH_KIND_AND_NEWEST
def test_a_move_that_is_cancelled_in_mid_copy_leaves_the_cluster_as_it_was_and_able_to_move_again(
    cluster: LocalCluster,
    kafka: WatchedCluster,
    fresh_topic_name: Callable[[], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = fresh_topic_name()
    cluster.create_topic(topic, RECORDED)
    cluster.produce(topic, dict.fromkeys(RECORDED, SIZE))
    run = InProcessRun(tmp_path, cluster, monkeypatch)
    run.plan(topics_in=[topic], job="drain", drain=[2])
    run.approve("light", SLOW)
    run.hold()
    batch = run.request()
    assert batch is not None
    before = kafka.controller_epoch()

    canceller = CancelRun(monkeypatch)
    approve_in_mid_copy(canceller)
    assert canceller.cancel()["cancelled"] == len(RECORDED)

    event, _ = run.follow(batch)
    assert event is not None
    assert event.state == "cancelled"
    assert read_control(run.folder).cancelled is not None
    run.release()
    assert canceller.verify()["passed"] is True
    assert is_as_recorded(kafka, topic)
    assert kafka.leftovers() == []
    below_2_4 = cluster.version.startswith("2.0")
    assert kafka.controller_epoch() == before + (1 if below_2_4 else 0)

    # The controller hears: what was cancelled is moved after all, and from there back.
    again = InProcessRun(tmp_path, cluster, monkeypatch, "again")
    again.plan(topics_in=[topic], job="drain", drain=[2])
    assert again.carry_out("light")["passed"] is True
    assert all(2 not in replicas for replicas in kafka.lists(topic).values())
    way_back = CancelRun(monkeypatch, "way back")
    assert way_back.request("roll_back")["run"] == "kafka_rebalance/again"
    asked = {name: way_back.xcom["conf"][name] for name in ("plan", "candidates", "internal_topics")}
    back = InProcessRun(tmp_path, cluster, monkeypatch, "back")
    back.plan(**asked)
    assert back.carry_out("given")["passed"] is True
    assert is_as_recorded(kafka, topic)


@BOTH_KINDS
def test_what_the_controller_reassigns_is_listed_and_a_cancel_by_somebody_else_is_told_as_such(
    cluster: LocalCluster,
    kafka: WatchedCluster,
    fresh_topic_name: Callable[[], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = fresh_topic_name()
    cluster.create_topic(topic, RECORDED)
    cluster.produce(topic, dict.fromkeys(RECORDED, SIZE))
    run = InProcessRun(tmp_path, cluster, monkeypatch)
    run.plan(topics_in=[topic], job="drain", drain=[2])
    run.approve("light", SLOW)
    run.hold()
    batch = run.request()
    assert batch is not None
    run.follow(batch, until=lambda: all(after != RECORDED[n] for n, after in kafka.lists(topic).items()))
    servers = read_connection(CONNECTION).kafka
    going = {TopicPartition(topic, n): partition.target for n, partition in kafka.partitions(topic).items()}
    if not reassignments.can_cancel(servers):
        assert reassignments.read_reassignments(servers) == {}, "below 2.4 only the request znode reassigns"
        change_rate(airflow_deployment(), run.folder, FAST, by="olive")
        event, _ = run.follow(batch)
        assert event is not None
        assert event.state == "done"
    else:
        assert reassignments.read_reassignments(servers) == going
        assert reassignments.cancel_reassignments(servers, going) == set(going)
        event, _ = run.follow(batch)
        assert event is not None
        assert event.state == "taken_back"
        assert f"Somebody else cancelled batch {batch}" in event.message
        with pytest.raises(AirflowFailException, match="not requested again"):
            run.resume(event)
        assert reassignments.read_reassignments(servers) == {}
    run.release()
    assert kafka.leftovers() == []
