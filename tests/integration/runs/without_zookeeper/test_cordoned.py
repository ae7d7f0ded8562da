"""Brokers and log dirs that somebody has cordoned (KIP-1066), from the snapshot to the verification on real brokers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from airflow.sdk.exceptions import AirflowFailException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from kafka_rebalance.admin.configs import read_cannot_cordon
from kafka_rebalance.admin.log_dirs import LogDir, read_log_dirs
from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ThrottleError
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.nightly.check_cluster import check
from kafka_rebalance.planning.tables.read_problem import BROKERS
from kafka_rebalance.planning.tables.result_tables import read_candidate
from kafka_rebalance.rebalance.drift import read_drift
from kafka_rebalance.run import checks_before_write
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.run_step import run_step
from support.runs.cancel_run import CancelRun
from support.runs.rebalance_run import CONNECTION, POLICY, InProcessRun
from support.runs.topic_run import TopicRun
from support.runs.watched_cluster import WatchedCluster
from support.waiting import wait

CORDON = "cordoned.log.dirs"
FAST, SLOW = 50_000_000, 1_000_000  # bytes per second
SIZE = 16_000_000  # a copy begins with as much as ten seconds of its quota at once
UNEVEN = {number: [(1, 2), (2, 3), (3, 1)][number % 3] for number in range(12)}  # broker 4 is empty


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """4.4.0, four brokers with two log dirs each; the quorum has a node of its own."""
    dirs = {"log.dirs": "{data}/a,{data}/b"}
    with LocalCluster("4.4.0", brokers=4, racks=0, kraft=True, controllers=1, broker_config=dirs) as running:
        yield running


@pytest.fixture
def topic(cluster: LocalCluster, kafka: WatchedCluster, fresh_topic_name: Callable[[], str]) -> Iterator[str]:
    name = fresh_topic_name()
    cluster.create_topic(name, UNEVEN)
    cluster.produce(name, dict.fromkeys(UNEVEN, 200_000))
    yield name
    kafka.delete(name)


def log_dirs(cluster: LocalCluster, broker: int) -> tuple[LogDir, ...]:
    return read_log_dirs(KafkaConnection(cluster.bootstrap_servers), [broker]).log_dirs[broker]


@pytest.fixture
def cordon(cluster: LocalCluster) -> Iterator[Callable[[int, str | None], None]]:
    """Sets `cordoned.log.dirs` of a broker, as an operator of the cluster would; None removes it."""
    admin, touched = AdminClient({"bootstrap.servers": cluster.bootstrap_servers}), set[int]()

    def change(broker: int, value: str | None) -> None:
        how = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        entry = ConfigEntry("cordoned.log.dirs", value or "", incremental_operation=how)
        asked = ConfigResource(ResourceType.BROKER, str(broker), incremental_configs=[entry])
        for answer in admin.incremental_alter_configs([asked]).values():
            answer.result()
        touched.add(broker)
        count = {None: 0, "*": 2}.get(value, 1)
        wait("the broker tells it", lambda: sum(one.cordoned for one in log_dirs(cluster, broker)) == count)

    yield change
    for broker in touched:
        change(broker, None)


def cordon_leaving(tmp_path: Path) -> None:
    (tmp_path / "policies" / f"{CONNECTION}.yaml").write_text(f"{POLICY}cordon_leaving: true\n")


def set_on(kafka: WatchedCluster, broker: int) -> str | None:
    with open_cluster(kafka.connection) as opened:
        return opened.read_broker_configs([broker])[broker].get(CORDON)


def received(run: InProcessRun, candidate: str) -> set[int]:
    return {broker for move in read_candidate(run.folder, candidate).moves for broker in move.added}


def test_a_plan_leaves_a_cordoned_broker_alone_and_ends_as_approved(
    run: InProcessRun, topic: str, cordon: Callable[[int, str | None], None]
) -> None:
    cordon(4, "*")
    proposals = run.plan(job="drain", drain=[3], topics_in=[topic])
    rows = {row["broker"]: row for row in pq.read_table(run.folder / json_files.SNAPSHOT_FOLDER / BROKERS).to_pylist()}
    assert [len(rows[broker]["cordoned_log_dirs"]) for broker in (1, 2, 3, 4)] == [0, 0, 0, 2]
    chosen = proposals["recommended"]
    assert chosen is not None
    assert received(run, chosen) == {1, 2}
    assert all("broker 4 is cordoned" in one["note"].lower() for one in proposals["candidates"])
    assert run.carry_out(chosen)["passed"]


def test_kafka_refuses_even_a_new_order_of_a_list_with_a_cordoned_broker_so_it_is_not_offered(
    run: InProcessRun, kafka: WatchedCluster, topic: str, cordon: Callable[[int, str | None], None]
) -> None:
    cordon(3, "*")
    for number, after in ((1, (3, 4)), (2, (1, 3))):  # of (2, 3) and (3, 1)
        with pytest.raises(AssertionError, match="InvalidReplicationAssignment"):
            kafka.reassign(topic, {number: after})
    (candidate,) = run.plan_lists(topic, {2: (1, 3)})["candidates"]
    assert candidate["status"] == "infeasible"
    proposals = run.plan(topics_in=[topic])
    for one in proposals["candidates"]:
        assert all(3 not in move.after for move in read_candidate(run.folder, one["name"]).moves)
        assert "partitions stay as they are" in one["note"]


def test_with_one_of_two_log_dirs_cordoned_the_other_gets_all(
    run: InProcessRun, cluster: LocalCluster, topic: str, cordon: Callable[[int, str | None], None]
) -> None:
    shut, taking = log_dirs(cluster, 4)
    cordon(4, shut.path)
    proposals = run.plan(topics_in=[topic])
    chosen = proposals["recommended"]
    assert 4 in received(run, chosen)
    assert f"{shut.path} of broker 4 is cordoned" in proposals["candidates"][0]["note"]
    assert run.carry_out(chosen)["passed"]
    now = {one.path: one.replicas for one in log_dirs(cluster, 4)}
    assert now[shut.path] == shut.replicas
    assert now[taking.path] > taking.replicas


def test_a_broker_that_is_cordoned_after_the_approval_stops_the_run_before_its_first_write(
    run: InProcessRun, kafka: WatchedCluster, topic: str, cordon: Callable[[int, str | None], None]
) -> None:
    run.plan(topics_in=[topic])
    run.approve("balanced", FAST)
    assert 4 in received(run, "balanced")
    cordon(4, "*")
    drift = read_drift(airflow_deployment(), run.folder)
    assert any("broker 4" in line and "cordoned" in line for one in drift.candidates for line in one.conflicts)
    with pytest.raises(AirflowFailException, match="broker 4: it is to receive replicas and is cordoned"):
        run.hold()
    assert kafka.throttles() == {}
    assert kafka.lists(topic) == UNEVEN


def test_what_kafka_refuses_is_told_with_kafkas_own_words(
    run: InProcessRun,
    kafka: WatchedCluster,
    topic: str,
    cordon: Callable[[int, str | None], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    after = {0: (1, 4), 1: (2, 1)}  # 1 is possible, 0 is not
    run.plan_lists(topic, after)
    run.approve("given", FAST)
    run.hold()
    monkeypatch.setattr(checks_before_write, "who_is_shut", lambda *_: {})  # as if it came between check and request
    cordon(4, "*")
    words = rf"{topic}-0: InvalidReplicationAssignmentError: .*broker 4, but all its log directories are cordoned"
    with pytest.raises(AirflowFailException, match=words):
        run.reassign()
    assert kafka.lists(topic)[0] == UNEVEN[0]
    assert kafka.lists(topic)[1] == after[1]
    with pytest.raises(AirflowFailException, match=words):  # a cleared task says the same, and asks for nothing
        run.reassign()
    run.release()


def test_the_nightly_check_proposes_nothing_for_a_broker_that_is_empty_because_it_is_cordoned(
    run: InProcessRun, cluster: LocalCluster, topic: str, cordon: Callable[[int, str | None], None]
) -> None:
    cordon(4, "*")
    found = run_step(check, run.dag_run, CONNECTION)
    assert found["propose"] is False, found["text"]


def test_new_partitions_go_to_other_brokers(
    cluster: LocalCluster,
    kafka: WatchedCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cordon: Callable[[int, str | None], None],
    fresh_topic_name: Callable[[], str],
) -> None:
    cordon(4, "*")
    name = fresh_topic_name()
    made = TopicRun(tmp_path, cluster, monkeypatch)
    verification = made.carry_out(action="create", topic=name, partitions=6, replication_factor=3)
    assert verification["passed"]
    now = kafka.lists(name)
    assert [sorted(held) for held in now.values()] == [[1, 2, 3]] * 6
    assert Counter(held[0] for held in now.values()) == {1: 2, 2: 2, 3: 2}
    kafka.delete(name)


def test_a_drain_cordons_the_leaving_broker_while_it_lasts_and_puts_back_what_was_there(
    run: InProcessRun,
    tmp_path: Path,
    cluster: LocalCluster,
    kafka: WatchedCluster,
    topic: str,
    cordon: Callable[[int, str | None], None],
    fresh_topic_name: Callable[[], str],
) -> None:
    cordon_leaving(tmp_path)
    assert read_cannot_cordon(kafka.connection.kafka, [1, 3]) == {}
    before = log_dirs(cluster, 3)[0].path
    cordon(3, before)
    chosen = run.plan(job="drain", drain=[3], topics_in=[topic])["recommended"]
    assert chosen is not None
    assert json_files.read_json(run.folder, json_files.SNAPSHOT)["cordon"] == {"brokers": [3], "cannot": {}}
    run.approve(chosen, FAST)
    run.hold()
    assert set_on(kafka, 3) == "*"
    run.hold()  # a retry keeps what it recorded
    wait("the broker tells it", lambda: all(one.cordoned for one in log_dirs(cluster, 3)))
    made = fresh_topic_name()  # Kafka itself chooses brokers
    with kafka._client() as client:
        client.create_topics({made: {"num_partitions": 12, "replication_factor": 3}})
    wait("the topic has its partitions", lambda: len(kafka.lists(made)) == 12)
    assert {broker for held in kafka.lists(made).values() for broker in held} == {1, 2, 4}
    kafka.delete(made)
    run.reassign()
    assert run.finish()["passed"]
    assert set_on(kafka, 3) == before


def test_a_cancel_takes_the_cordon_back_before_it_sends_lists_back(
    run: InProcessRun,
    tmp_path: Path,
    cluster: LocalCluster,
    kafka: WatchedCluster,
    monkeypatch: pytest.MonkeyPatch,
    fresh_topic_name: Callable[[], str],
) -> None:
    cordon_leaving(tmp_path)
    name = fresh_topic_name()
    recorded = {0: (3, 1), 1: (1, 3)}  # Kafka's own cancel would leave the first as [1, 3]
    cluster.create_topic(name, recorded)
    cluster.produce(name, dict.fromkeys(recorded, SIZE))
    run.plan(topics_in=[name], job="drain", drain=[3])
    run.approve("light", SLOW)
    run.hold()
    assert run.request() == 1
    assert set_on(kafka, 3) == "*"
    wait("Kafka moves both", lambda: len(kafka.moving()) == 2)
    canceller = CancelRun(monkeypatch)
    canceller.approved()
    assert canceller.cancel()["cancelled"] == 2
    assert set_on(kafka, 3) is None
    assert kafka.lists(name) == recorded
    run.release()
    assert canceller.verify()["passed"]
    kafka.delete(name)


def test_a_release_takes_the_cordon_back_though_copies_go_on_under_their_throttle(
    run: InProcessRun,
    tmp_path: Path,
    cluster: LocalCluster,
    kafka: WatchedCluster,
    monkeypatch: pytest.MonkeyPatch,
    fresh_topic_name: Callable[[], str],
) -> None:
    cordon_leaving(tmp_path)
    name = fresh_topic_name()
    cluster.create_topic(name, {0: (1, 3)})
    cluster.produce(name, {0: SIZE})
    run.plan(topics_in=[name], job="drain", drain=[3])
    run.approve("light", SLOW)
    run.hold()
    assert run.request() == 1
    with pytest.raises(ThrottleError, match="Copies are still in flight"):
        run.release()
    assert set_on(kafka, 3) is None
    assert kafka.throttles() != {}
    kafka.reassign(name, {0: None})  # by another tool: Kafka takes a cancel of a move off a cordoned broker too
    wait("nothing moves", lambda: not kafka.moving())
    run.release()
    kafka.delete(name)


def test_a_topic_is_not_created_on_a_broker_that_was_cordoned_since_the_request(
    cluster: LocalCluster,
    kafka: WatchedCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cordon: Callable[[int, str | None], None],
    fresh_topic_name: Callable[[], str],
) -> None:
    name = fresh_topic_name()
    made = TopicRun(tmp_path, cluster, monkeypatch)
    made.request(action="create", topic=name, partitions=4, replication_factor=3)
    made.ask()
    if "decision" not in made.xcom:
        made.answer("create")
    cordon(4, "*")
    with pytest.raises(AirflowFailException, match=r"broker 4 is cordoned"):
        made.write()
    assert kafka.lists(name) == {}
