"""Whole rebalances on real brokers, with ZooKeeper and without: what moves, what is left behind, what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from airflow.sdk.exceptions import AirflowFailException
from kafka.admin import ConfigResource, ConfigResourceType

from kafka_rebalance.cancel.set_throttle import change_rate
from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ClusterNotReadyError, ExecutionError, ThrottleError
from kafka_rebalance.kafka.reassignment_json import format_reassignment
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.planning.tables.read_problem import PARTITIONS
from kafka_rebalance.throttle.janitor import look_after_cluster
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from support.kafka.on_versions import EACH_KIND, EACH_KIND_AND_NEWEST, NEWEST_OF_EACH_KIND, WITHOUT_ZOOKEEPER_ALONE
from support.runs.janitor_run import Airflow, tend
from support.runs.rebalance_run import InProcessRun
from support.runs.watched_cluster import WatchedCluster
from support.waiting import wait

MEGABYTE = 1_000_000
FAST, SLOW = 50 * MEGABYTE, 1 * MEGABYTE  # bytes per second


@pytest.fixture
def topic(
    cluster: LocalCluster, kafka: WatchedCluster, fresh_topic_name: Callable[[], str]
) -> Iterator[Callable[..., str]]:
    """Makes a topic with data. Afterwards nothing of any run may be left on the cluster."""

    def make(replicas: dict[int, tuple[int, ...]], size_bytes: int = MEGABYTE) -> str:
        name = fresh_topic_name()
        cluster.create_topic(name, replicas)
        cluster.produce(name, dict.fromkeys(replicas, size_bytes))
        return name

    yield make
    assert kafka.leftovers() == []


@EACH_KIND_AND_NEWEST
def test_a_throttled_move_ends_as_approved(run: InProcessRun, topic: Callable[..., str], kafka: WatchedCluster) -> None:
    name = topic({0: (1, 2), 1: (1, 3)}, 2 * MEGABYTE)
    after = {0: (4, 2), 1: (1, 2)}
    run.plan_lists(name, after)
    rows = pq.read_table(run.folder / json_files.SNAPSHOT_FOLDER / PARTITIONS).to_pylist()
    row = next(row for row in rows if row["topic"] == name)
    assert (row["cleanup_policy"], row["retention_ms"], row["segment_bytes"]) == ("delete", 7 * 86_400_000, 1 << 30)
    run.approve("given", FAST)
    run.hold()
    held = kafka.throttles()
    assert held[f"topics/{name}"] == {
        "leader.replication.throttled.replicas": "0:1,0:2,1:1,1:3",
        "follower.replication.throttled.replicas": "0:4,1:2",
    }
    assert held["brokers/1"] == {"leader.replication.throttled.rate": str(FAST)}
    holder = kafka.holder()
    assert holder is not None
    assert holder.run == "kafka_rebalance/one"
    assert run.reassign() == 1
    assert run.finish()["passed"] is True
    assert kafka.lists(name) == after
    assert all(one.leader == one.replicas[0] for one in kafka.partitions(name).values())


@EACH_KIND
def test_lists_become_the_approved_ones(run: InProcessRun, topic: Callable[..., str], kafka: WatchedCluster) -> None:
    """Fewer replicas, more, another order, and every replica elsewhere, each of a topic of its own."""
    changes = (
        ({0: (1, 2, 3), 1: (2, 3, 4)}, {0: (1, 2), 1: (4, 3)}),
        ({0: (1, 2), 1: (2, 3)}, {0: (1, 2, 3), 1: (4, 3, 2)}),
        ({0: (1, 2), 1: (2, 3)}, {0: (2, 1), 1: (3, 2)}),
        ({0: (1, 2), 1: (2, 1)}, {0: (3, 4), 1: (4, 3)}),
    )
    approved = {topic(before): after for before, after in changes}
    lists = {TopicPartition(name, number): one for name, after in approved.items() for number, one in after.items()}
    run.plan(plan=format_reassignment(lists), candidates=[])
    assert run.carry_out("given")["passed"] is True
    for name, after in approved.items():
        assert kafka.lists(name) == after
        assert all(set(one.isr) == set(one.replicas) for one in kafka.partitions(name).values())


@EACH_KIND
def test_lowering_the_replication_factor_drops_replicas_and_copies_none(
    run: InProcessRun, topic: Callable[..., str], kafka: WatchedCluster
) -> None:
    name = topic({0: (1, 2, 3), 1: (2, 3, 4)})
    proposals = run.plan(topics_in=[name], job="replication_factor", replication_factor=2)
    assert {c["name"]: c["moved_bytes"] for c in proposals["candidates"]}["light"] == 0
    run.approve("light", FAST)
    run.hold()
    run.reassign()
    assert run.finish()["passed"] is True
    assert {len(replicas) for replicas in kafka.lists(name).values()} == {2}


@EACH_KIND
def test_leaders_alone_re_orders_lists_elects_and_throttles_nothing(
    run: InProcessRun, topic: Callable[..., str], kafka: WatchedCluster
) -> None:
    led = kafka.leaders()
    busy, idle = sorted((1, 2), key=lambda broker: -led[broker])  # what the topics of other tests left
    name = topic(dict.fromkeys(range(4), (busy, idle)))
    run.plan(topics_in=[name], job="leaders")
    run.approve("leaders_only", FAST)
    run.hold()
    assert kafka.throttles() == {}
    run.reassign()
    assert run.finish()["passed"] is True
    partitions = kafka.partitions(name).values()
    assert idle in {one.leader for one in partitions}
    assert all(one.leader == one.replicas[0] for one in partitions)


@NEWEST_OF_EACH_KIND
def test_a_drained_broker_holds_nothing_of_the_topic(
    run: InProcessRun, topic: Callable[..., str], kafka: WatchedCluster
) -> None:
    name = topic({0: (4, 2), 1: (3, 4), 2: (2, 3)})
    run.plan(topics_in=[name], job="drain", drain=[4])
    assert run.carry_out("light")["passed"] is True
    assert all(4 not in replicas for replicas in kafka.lists(name).values())


@WITHOUT_ZOOKEEPER_ALONE
def test_a_dead_broker_is_replaced(
    run: InProcessRun, topic: Callable[..., str], kafka: WatchedCluster, cluster: LocalCluster
) -> None:
    name = topic({0: (3, 2), 1: (2, 3), 2: (2, 1)})
    cluster.stop_broker(3)
    try:
        run.plan(topics_in=[name], job="replace", replace={"3": 4})
        assert run.carry_out("light")["passed"] is True
        found = {number: set(replicas) for number, replicas in kafka.lists(name).items()}
        assert found == {0: {4, 2}, 1: {2, 4}, 2: {2, 1}}
    finally:
        cluster.start_broker(3)


@EACH_KIND
def test_a_task_that_is_restarted_in_mid_copy_follows_and_writes_nothing_twice(
    run: InProcessRun, topic: Callable[..., str], kafka: WatchedCluster
) -> None:
    # A quota that has not been used for ten seconds lets through what it allows in them: the rest is in mid-copy.
    name = topic({0: (2, 1)}, 14 * MEGABYTE)
    run.plan_lists(name, {0: (3, 1)})
    run.approve("given", SLOW)
    run.hold()
    run.hold()
    batch = run.request()
    assert batch is not None
    requested = kafka.request_mark()
    assert run.request() == batch
    assert kafka.request_mark() == requested
    with pytest.raises(ThrottleError, match="Copies are still in flight"):
        run.release()
    assert f"topics/{name}" in kafka.throttles()
    event, said = run.follow(batch, until=lambda: any("of 13.4 MiB" in line for line in run.said))
    assert event is None, said
    change_rate(airflow_deployment(), run.folder, FAST, by="olive")
    event, then = run.follow(batch)
    assert event is not None
    assert event.state == "done"
    told = [line for line in said + then if " MiB" in line]
    assert all("of 13.4 MiB" in line for line in told), told  # also when the new replica leads
    assert run.resume(event) is None
    (ended,) = json_files.read_json(run.folder, json_files.BATCHES)["batches"]
    assert ended["bytes"] > 14 * MEGABYTE
    # Without a znode the end may come between two looks, and then nobody has measured it.
    assert ended["measured_bytes"] == ended["bytes"] or (kafka.local.kraft and ended["measured_bytes"] is None)
    assert run.finish()["passed"] is True


@NEWEST_OF_EACH_KIND
def test_a_second_run_and_a_second_airflow_cannot_have_the_cluster(
    run: InProcessRun,
    topic: Callable[..., str],
    kafka: WatchedCluster,
    tmp_path: Path,
    cluster: LocalCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = topic({0: (1, 2)}), topic({0: (1, 2)})
    other = InProcessRun(tmp_path, cluster, monkeypatch, run_id="two")
    for which, name in ((run, first), (other, second)):
        which.plan_lists(name, {0: (1, 3)})
        which.approve("given", FAST)
    run.hold()
    before = kafka.throttles()
    with pytest.raises(AirflowFailException, match=r"LockHeldError: .*kafka_rebalance/one"):
        other.hold()
    with monkeypatch.context() as elsewhere:
        far = tmp_path / "far"
        far.mkdir()
        away = InProcessRun(far, cluster, elsewhere, run_id="one")
        away.plan_lists(second, {0: (1, 3)})
        away.approve("given", FAST)
        with pytest.raises(AirflowFailException, match=r"LockHeldError: .*kafka_rebalance/one"):
            away.hold()
    assert kafka.throttles() == before
    run.reassign()
    assert run.finish()["passed"] is True
    assert kafka.lists(second) == {0: (1, 2)}


@EACH_KIND
def test_another_tools_move_is_refused_left_alone_and_waited_for(
    run: InProcessRun, topic: Callable[..., str], kafka: WatchedCluster, tmp_path: Path, cluster: LocalCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    ours, theirs = topic({0: (1, 2)}), topic({0: (1, 2)}, 30 * MEGABYTE)
    # The throttle of a run whose worker is gone keeps their copy slow, so it outlasts our looks; nobody follows it.
    other = InProcessRun(tmp_path, cluster, monkeypatch, run_id="two")
    other.plan_lists(theirs, {0: (1, 3)})
    other.approve("given", SLOW)
    run.plan_lists(ours, {0: (1, 3)})
    run.approve("given", FAST)
    other.hold()
    kafka.reassign(theirs, {0: (1, 3)})
    with pytest.raises(ExecutionError, match=f"{theirs}-0 .*as approved, but this run has not asked for it"):
        other.request()
    requested, held = kafka.request_mark(), kafka.throttles()
    if kafka.local.kraft:
        with pytest.raises(ClusterNotReadyError, match="replicas are being added or removed"):
            run.hold()
    else:
        with pytest.raises(
            ExecutionError, match=f"Another reassignment is under way: {theirs}-0 .*changed nothing in the cluster"
        ):
            run.hold()
    assert (kafka.request_mark(), kafka.throttles()) == (requested, held)
    assert kafka.moving() == [(theirs, 0)]
    change_rate(airflow_deployment(), other.folder, FAST, by="olive")
    wait("the other reassignment has ended", lambda: kafka.is_in_sync(theirs, 2) and not kafka.moving())
    other.release()
    run.hold()
    run.reassign()
    assert run.finish()["passed"] is True
    assert kafka.lists(theirs) == {0: (1, 3)}


@WITHOUT_ZOOKEEPER_ALONE
def test_a_topic_that_is_deleted_made_again_or_expanded_in_mid_move_is_told(
    run: InProcessRun, topic: Callable[..., str], kafka: WatchedCluster, cluster: LocalCluster
) -> None:
    gone, expanded = topic({0: (1, 2)}, 14 * MEGABYTE), topic({0: (1, 2)}, 14 * MEGABYTE)
    run.plan(plan=format_reassignment({TopicPartition(name, 0): (1, 3) for name in (gone, expanded)}), candidates=[])
    run.approve("given", SLOW)
    run.hold()
    batch = run.request()
    assert batch is not None
    kafka.expand(expanded, 2)
    kafka.delete(gone)
    cluster.create_topic(gone, {0: (4, 3)})
    change_rate(airflow_deployment(), run.folder, FAST, by="olive")
    event, _ = run.follow(batch)
    assert event is not None
    assert event.state == "refused"
    assert f"{gone}-0" in event.message
    assert kafka.lists(gone) == {0: (4, 3)}
    assert kafka.lists(expanded)[0] == (1, 3)
    run.release()
    kafka.delete(gone)  # a broker that a later test restarts would show its lists again (test_revived_configs.py)


@NEWEST_OF_EACH_KIND
def test_a_target_that_is_gone_after_the_approval_stops_the_run_before_it_writes(
    run: InProcessRun, topic: Callable[..., str], kafka: WatchedCluster, cluster: LocalCluster
) -> None:
    name = topic({0: (3, 2)})
    run.plan_lists(name, {0: (3, 4)})
    run.approve("given", FAST)
    cluster.stop_broker(4)
    try:
        with pytest.raises(AirflowFailException, match="broker 4: it is to receive replicas and is not registered"):
            run.hold()
    finally:
        cluster.start_broker(4)
    assert kafka.lists(name) == {0: (3, 2)}


@EACH_KIND
def test_a_target_that_goes_away_in_mid_copy_keeps_its_throttle_until_it_is_back_and_then_loses_it(
    run: InProcessRun, topic: Callable[..., str], kafka: WatchedCluster, cluster: LocalCluster
) -> None:
    name = topic({0: (3, 2)}, 14 * MEGABYTE)
    run.plan_lists(name, {0: (3, 4)})
    run.approve("given", SLOW)
    run.hold()
    batch = run.request()
    assert batch is not None
    cluster.stop_broker(4)
    try:
        event, said = run.follow(batch, stall_seconds=1)
        assert event is not None
        assert event.state == "stalled"
        assert "Broker 4 is not registered" in event.message
        assert any("waiting for broker 4" in line for line in said)
        with pytest.raises(ExecutionError, match="made no progress"):
            run.resume(event)
        with pytest.raises(ThrottleError, match="Copies are still in flight"):
            run.release()
        assert f"topics/{name}" in kafka.throttles()
        assert kafka.holder() is not None
    finally:
        cluster.start_broker(4)
    assert run.request() == batch
    change_rate(airflow_deployment(), run.folder, FAST, by="olive")
    event, _ = run.follow(batch)
    assert event is not None
    assert event.state == "done"
    assert run.resume(event) is None
    assert run.finish()["passed"] is True
    assert 4 in kafka.lists(name)[0]


@WITHOUT_ZOOKEEPER_ALONE
def test_the_rate_of_a_broker_that_is_away_at_the_end_is_put_back_when_it_returns(
    run: InProcessRun,
    topic: Callable[..., str],
    kafka: WatchedCluster,
    cluster: LocalCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Airflow.answering(monkeypatch)
    name = topic({0: (3, 2)})
    run.plan_lists(name, {0: (3, 4)})
    run.approve("given", FAST)
    run.hold()
    assert run.reassign() == 1
    cluster.stop_broker(2)
    try:
        run.finish()
        assert kafka.holder() is None
        tend()
    finally:
        cluster.start_broker(2)
    assert kafka.throttles() == {"brokers/2": {"leader.replication.throttled.rate": str(FAST)}}
    wait("the janitor puts it back", lambda: bool(tend()) and not kafka.throttles())


@WITHOUT_ZOOKEEPER_ALONE
def test_the_janitor_finds_a_throttle_that_nobody_holds(
    run: InProcessRun, topic: Callable[..., str], kafka: WatchedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    Airflow.answering(monkeypatch)
    monkeypatch.setattr(look_after_cluster, "SWEEP_SECONDS", 0)
    name = topic({0: (1, 2)})
    with kafka._client() as client:
        client.alter_configs(
            [ConfigResource(ConfigResourceType.TOPIC, name, {"leader.replication.throttled.replicas": "0:1"})]
        )
    report = tend()
    (found,) = [one for one in report["findings"] if name in one["entity"]]
    assert found["can_be_cleaned"]
    tend(by="uma", clean=[found["id"]])
    assert kafka.throttles() == {}
