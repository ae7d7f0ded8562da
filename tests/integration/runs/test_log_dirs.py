"""Whole runs of `kafka_log_dirs` on real brokers with three log dirs each, with ZooKeeper and without."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from kafka_rebalance.admin.log_dirs import BrokerDisks, alter_log_dirs, read_log_dirs
from kafka_rebalance.admin.wire import open_wire
from kafka_rebalance.cancel.set_throttle import change_rate
from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.documents.progress import PROGRESS_FILE
from kafka_rebalance.errors import ClusterNotReadyError, ExecutionError, ReadError, ThrottleError
from kafka_rebalance.kafka.throttles import LOG_DIR_RATE
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.log_dirs.copies import Copying
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.lock_owner import LockOwner
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.run.checks.batch_wait import Wait
from kafka_rebalance.run.watch_batch import BatchState
from kafka_rebalance.throttle.janitor.look_after_lease import Look, look_after_lease
from kafka_rebalance.throttle.janitor.sweep import Asked
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.hooks import read_connection
from support.kafka.on_versions import in_make_test
from support.runs.log_dir_run import CONNECTION, POLICY, LogDirRun
from support.runs.set_clock import Clock
from support.waiting import wait

MIB = 1024**2
WITH_ZOOKEEPER, WITHOUT = "2.8.2", "4.4.0"
VERSIONS = (WITH_ZOOKEEPER, WITHOUT)
DRAIN = {"internal_topics": True, "copies_per_broker": 1}
FAST = 100_000_000
SIZES = {0: 12 * MIB, 1: 9 * MIB, 2: 6 * MIB, 3: 3 * MIB, 4: 2 * MIB, 5: MIB}


def runs_on(*versions: str) -> pytest.MarkDecorator:
    """The test runs on each version. `make test` takes these, and `make test-long` the others."""
    return pytest.mark.parametrize("cluster", in_make_test(VERSIONS, *versions), indirect=True, scope="module")


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """All of topic t lies in log dir a of both brokers."""
    dirs = {"log.dirs": "{data}/a,{data}/b,{data}/c"}
    with LocalCluster(request.param, brokers=2, racks=0, broker_config=dirs) as running:
        running.create_topic("t", {number: [1, 2] for number in SIZES})
        running.produce("t", SIZES)
        yield running


class Brokers:
    """What the brokers show, and what somebody else asks of them."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.kafka = KafkaConnection(cluster.bootstrap_servers)

    @property
    def disks(self) -> BrokerDisks:
        return read_log_dirs(self.kafka, [1, 2])

    def path(self, broker: int, name: str) -> str:
        return next(one.path for one in self.disks.log_dirs[broker] if one.path.endswith(f"/{name}"))

    def alter(self, broker: int, targets: dict[int, str]) -> None:
        disks = self.disks
        asked = {TopicPartition("t", number): self.path(broker, name) for number, name in targets.items()}
        with open_wire(self.kafka) as wire:
            paths = [one.path for one in disks.log_dirs[broker]]
            assert alter_log_dirs(wire, broker, asked, held=disks.paths, log_dirs=paths) == {}

    def gather(self) -> None:
        """Everything of topic t into log dir a of both brokers."""
        for broker in (1, 2):
            self.alter(broker, dict.fromkeys(SIZES, "a"))
        wait("all replicas are in a", lambda: not self.disks.future and set(self.names().values()) == {"a"})

    def names(self) -> dict[tuple[int, int], str]:
        """{(partition, broker): a, b or c} of topic t"""
        return {
            (tp.partition, broker): path[-1]
            for tp, by_broker in self.disks.paths.items()
            if tp.topic == "t"
            for broker, path in by_broker.items()
        }

    def bytes_in(self, broker: int) -> dict[str, int]:
        found = dict.fromkeys("abc", 0)
        for tp, by_broker in self.disks.replicas.items():
            if tp.topic == "t":
                found[self.disks.paths[tp][broker][-1]] += by_broker[broker]
        return found


@pytest.fixture
def brokers(cluster: LocalCluster) -> Brokers:
    found = Brokers(cluster)
    found.gather()
    return found


@pytest.fixture
def run(cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LogDirRun:
    return LogDirRun(tmp_path, cluster, monkeypatch)


def rates() -> dict[int, str | None]:
    with open_cluster(read_connection(CONNECTION)) as opened:
        return {broker: values.get(LOG_DIR_RATE) for broker, values in opened.read_broker_configs([1, 2]).items()}


def set_rate(value: str | None, before: str | None) -> None:
    """Of broker 1, by somebody else."""
    decided_on = {} if before is None else {"brokers/1": {LOG_DIR_RATE: before}}
    with open_cluster(read_connection(CONNECTION)) as opened:
        changes = {"brokers/1": {LOG_DIR_RATE: value}}
        opened.merge_configs(changes, decided_on=decided_on, fence=opened.lock.read_fence())


def holder() -> LockOwner | None:
    with open_cluster(read_connection(CONNECTION)) as opened:
        return opened.lock.read()


def assert_given_back() -> None:
    assert {rates()[broker] for broker in (1, 2)} == {None}
    assert holder() is None


@runs_on(WITH_ZOOKEEPER, WITHOUT)
def test_a_balance_evens_the_log_dirs_of_each_broker_and_leaves_nothing_behind(
    brokers: Brokers, run: LogDirRun
) -> None:
    run.carry_out(job="balance", tolerance=0.15, throttle_bytes_per_second=100_000_000)
    plan = run.written.plan
    assert plan.brokers == {1, 2}
    for broker in (1, 2):
        found = brokers.bytes_in(broker)
        assert max(found.values()) < 1.2 * sum(found.values()) / 3
        assert min(found.values()) > 0.8 * sum(found.values()) / 3
    assert {name: path[-1] for name, path in ((m.replica, m.after) for m in plan.moves)} == {
        m.replica: brokers.names()[m.partition, m.broker] for m in plan.moves
    }
    assert brokers.disks.future == {}
    assert run.verification["passed"]
    progress = PROGRESS_FILE.read(run.folder)
    assert (progress.partitions_done, progress.bytes_copied) == (len(plan.moves), plan.size_bytes)
    assert_given_back()
    with pytest.raises(AirflowSkipException, match="even within"):
        run.plan(job="balance", tolerance=0.15)


@runs_on(WITH_ZOOKEEPER)
def test_a_drain_and_its_way_back_put_every_replica_where_it_was(
    brokers: Brokers, run: LogDirRun, cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = brokers.names()
    run.carry_out(job="drain", broker=1, log_dir=brokers.path(1, "a"), **DRAIN)
    assert brokers.bytes_in(1)["a"] == 0
    assert {name for (_, broker), name in brokers.names().items() if broker == 2} == {"a"}
    back = LogDirRun(tmp_path, cluster, monkeypatch)
    back.carry_out(job="way_back", of_run=run.dag_run.run_id)
    assert brokers.names() == before
    assert_given_back()


@runs_on(WITH_ZOOKEEPER)
def test_a_run_that_is_killed_goes_on_and_asks_only_for_what_is_missing(brokers: Brokers, run: LogDirRun) -> None:
    run.plan(job="balance", tolerance=0.15, throttle_bytes_per_second=1_000_000, copies_per_broker=1)
    run.answer()
    run.hold()
    assert [rates()[broker] for broker in (1, 2)] == ["1000000", "1000000"]
    assert run.move() is not None
    copying = brokers.disks.future
    on = sorted(broker for by_broker in copying.values() for broker in by_broker)
    assert on == [1, 2], "one on each broker"
    run.hold()  # a cleared setup keeps what was there before
    assert run.move() is not None  # as a retry after a kill: the same copies, and no other
    assert brokers.disks.future.keys() == copying.keys()
    change_rate(airflow_deployment(), run.folder, FAST, by="olive")
    assert [rates()[broker] for broker in (1, 2)] == [str(FAST)] * 2
    seen = run.follow()
    assert seen.state is BatchState.READY
    while run.move(seen) is not None:
        seen = run.follow()
    run.release()
    run.verify()
    assert_given_back()


@runs_on(WITH_ZOOKEEPER, WITHOUT)
def test_the_janitor_keeps_the_rate_of_a_lost_run_until_its_copies_have_ended(brokers: Brokers, run: LogDirRun) -> None:
    run.plan(job="drain", broker=1, log_dir=brokers.path(1, "a"), throttle_bytes_per_second=4_000_000, **DRAIN)
    run.answer()
    run.hold()
    run.move()
    lost = holder()
    assert lost is not None

    def look() -> Look:
        """As after a person has said that the run is over."""
        with open_cluster(read_connection(CONNECTION)) as opened:
            return look_after_lease(airflow_deployment(), opened, Asked(break_lock=lost.name, by="uma"))

    assert look().copying == 1
    assert (rates()[1], holder()) == ("4000000", lost)
    change_rate(airflow_deployment(), run.folder, FAST, by="olive")
    wait("the copy has ended", lambda: not brokers.disks.future)
    assert look().copying == 0
    assert_given_back()


@runs_on(WITH_ZOOKEEPER)
def test_nothing_is_requested_while_somebody_else_has_changed_the_rate(brokers: Brokers, run: LogDirRun) -> None:
    run.plan(job="drain", broker=1, log_dir=brokers.path(1, "a"), throttle_bytes_per_second=4_000_000, **DRAIN)
    run.answer()
    run.hold()
    set_rate("77", "4000000")
    try:
        with pytest.raises(ThrottleError, match="is not in force"):
            run.move()
        assert brokers.disks.future == {}
        assert run.release()["left_alone"]
        assert (rates()[1], holder()) == ("77", None)
    finally:
        set_rate(None, "77")


@runs_on(WITH_ZOOKEEPER, WITHOUT)
def test_a_run_that_is_stopped_cancels_its_copies_and_gives_everything_back(brokers: Brokers, run: LogDirRun) -> None:
    run.plan(job="drain", broker=1, log_dir=brokers.path(1, "a"), throttle_bytes_per_second=1_000_000, **DRAIN)
    run.answer()
    run.hold()
    run.move()
    copying = brokers.disks.future
    assert copying
    before = brokers.names()
    assert run.release()["cancelled"] == len(copying)
    assert brokers.disks.future == {}
    moved = {key for key, name in brokers.names().items() if name != before[key]}
    assert moved <= {(tp.partition, 1) for tp in copying}
    with pytest.raises(AirflowFailException, match="VerificationError"):
        run.verify()
    assert_given_back()


@runs_on(WITH_ZOOKEEPER)
def test_nothing_is_planned_while_somebody_moves_replicas_between_log_dirs(brokers: Brokers, run: LogDirRun) -> None:
    set_rate("100000", None)
    try:
        brokers.alter(1, {0: "b"})
        with pytest.raises(ClusterNotReadyError, match="t-0 on broker 1"):
            run.plan(job="balance")
    finally:
        brokers.alter(1, {0: "a"})
        set_rate(None, "100000")


@runs_on(WITH_ZOOKEEPER)
def test_a_rate_that_was_there_before_comes_back(brokers: Brokers, run: LogDirRun) -> None:
    set_rate("50000000", None)
    try:
        run.carry_out(job="balance", tolerance=0.15, throttle_bytes_per_second=90_000_000)
        assert (rates()[1], rates()[2]) == ("50000000", None)
    finally:
        set_rate(None, "50000000")


@runs_on(WITH_ZOOKEEPER)
def test_a_run_pauses_without_its_rate_until_its_next_window(
    brokers: Brokers, cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock.set_in(monkeypatch)
    text, opening, following = clock.window_around()
    run = LogDirRun(tmp_path, cluster, monkeypatch, f"{POLICY}windows: ['{text}']\n")
    run.plan(job="drain", broker=1, log_dir=brokers.path(1, "a"), throttle_bytes_per_second=FAST, **DRAIN)
    run.answer()
    run.hold()
    step = run.move()
    clock.now = opening.closes_at
    while isinstance(step, Copying):
        step = run.move(run.follow())
    assert isinstance(step, Wait)
    assert step.not_before == following.opens_at
    assert 0 < brokers.bytes_in(1)["a"] < sum(SIZES.values())
    assert (rates()[1], brokers.disks.future) == (None, {})
    assert holder() is not None
    clock.now = following.opens_at
    assert isinstance(run.move(), Copying)
    assert rates()[1] == str(FAST)
    run.move_all()
    run.release()
    run.verify()
    assert brokers.bytes_in(1)["a"] == 0
    assert_given_back()


@pytest.mark.parametrize("version", [WITH_ZOOKEEPER, pytest.param(WITHOUT, marks=pytest.mark.long)])
def test_copies_go_on_after_the_death_of_their_broker(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dirs = {"log.dirs": "{data}/a,{data}/b"}
    brokers = 3 if version == WITHOUT else 2  # a quorum of the other two
    with LocalCluster(version, brokers=brokers, racks=0, one_jvm=False, broker_config=dirs) as cluster:
        cluster.create_topic("t", {0: [2], 1: [2]})
        cluster.produce("t", {0: 12 * MIB, 1: 12 * MIB})
        run = LogDirRun(tmp_path, cluster, monkeypatch)
        kafka = KafkaConnection(cluster.bootstrap_servers)
        path = read_log_dirs(kafka, [2]).paths[TopicPartition("t", 0)][2]
        run.plan(job="drain", broker=2, log_dir=path, throttle_bytes_per_second=2_000_000, **DRAIN)
        run.answer()
        run.hold()
        run.move()
        cluster.kill_broker(2)
        with pytest.raises(ReadError):
            run.move()
        cluster.start_broker(2)
        wait("broker 2 tells its log dirs again", lambda: can_read(kafka))
        assert rates()[2] == "2000000", "it came back with the broker"
        change_rate(airflow_deployment(), run.folder, FAST, by="olive")
        with suppress(ExecutionError):  # of a copy that the broker does not go on with, seen once on 2.8.2
            run.move_all(stall_seconds=15.0)
        run.move_all()
        run.release()
        run.verify()
        assert rates()[2] is None
        assert holder() is None


def test_the_rate_stays_on_a_broker_that_comes_back_in_mid_copy_after_its_run_was_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dirs = {"log.dirs": "{data}/a,{data}/b"}
    with LocalCluster(WITH_ZOOKEEPER, brokers=2, racks=0, one_jvm=False, broker_config=dirs) as cluster:
        cluster.create_topic("t", {0: [2]})
        cluster.produce("t", {0: 12 * MIB})
        run = LogDirRun(tmp_path, cluster, monkeypatch)
        kafka = KafkaConnection(cluster.bootstrap_servers)
        path = read_log_dirs(kafka, [2]).paths[TopicPartition("t", 0)][2]
        run.plan(job="drain", broker=2, log_dir=path, throttle_bytes_per_second=1_000_000, **DRAIN)
        run.answer()
        run.hold()
        run.move()
        lost = holder()
        assert lost is not None

        def look(break_lock: str | None = None) -> list[str]:
            with open_cluster(read_connection(CONNECTION)) as opened:
                return look_after_lease(airflow_deployment(), opened, Asked(break_lock=break_lock, by="uma")).lines

        cluster.kill_broker(2)
        wait("broker 2 is no longer registered", lambda: not is_registered(2))
        look(lost.name)
        assert (rates()[2], holder()) == ("1000000", None)
        cluster.start_broker(2)
        wait("broker 2 tells its log dirs again", lambda: can_read(kafka))
        assert any("still copies between its log dirs (replicas: 1)" in line for line in look())
        assert (rates()[2], len(read_log_dirs(kafka, [2]).future)) == ("1000000", 1)
        cancel = {TopicPartition("t", 0): path}
        disks = read_log_dirs(kafka, [2])
        with open_wire(kafka) as wire:
            paths = [one.path for one in disks.log_dirs[2]]
            assert alter_log_dirs(wire, 2, cancel, held=disks.paths, log_dirs=paths) == {}
        assert "brokers/2 is back, and what was left of a throttle there is put back" in look()
        assert (rates()[2], look()) == (None, [])


def is_registered(broker: int) -> bool:
    with open_cluster(read_connection(CONNECTION)) as opened:
        return broker in opened.read_view(()).brokers


def test_a_kafka_below_2_2_tells_so_and_nothing_is_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with LocalCluster("2.0.1", brokers=1, racks=0, broker_config={"log.dirs": "{data}/a,{data}/b"}) as cluster:
        run = LogDirRun(tmp_path, cluster, monkeypatch)
        with pytest.raises(ClusterNotReadyError, match=r"broker 1: runs a Kafka below 2\.2"):
            run.plan(job="balance")


def can_read(kafka: KafkaConnection) -> bool:
    try:
        read_log_dirs(kafka, [2])
    except ReadError:
        return False
    return True
