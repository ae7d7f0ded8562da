"""The rate for copies between log dirs of a broker that dies in mid-copy and comes back after its run; simulated."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from kafka_rebalance.cluster.with_zookeeper import ZooKeeperCluster
from kafka_rebalance.documents.log_dir_plan import Replica
from kafka_rebalance.documents.throttle_lease import ThrottleLease
from kafka_rebalance.errors import ClusterNotReadyError
from kafka_rebalance.kafka.throttles import LOG_DIR_RATE
from kafka_rebalance.log_dirs import rate
from kafka_rebalance.throttle import lease_files
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from support.runs.janitor_run import SIMULATED, Airflow, tend
from support.runs.log_dir_run import CONNECTION, LogDirRun
from support.runs.simulated_cluster import SimulatedCluster
from support.runs.simulated_log_dirs import DRAIN, SimulatedLogDirs, log_dir_rates

RATE = 3_000_000
AWAY = 2


class Broker:
    """Dies and comes back; its copies stand still meanwhile."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster, self.path = cluster, f"/brokers/ids/{AWAY}"
        self.registration = cluster.fake.json(self.path)

    def die(self) -> None:
        self.cluster.fake.delete(self.path)
        self.cluster.silent.add(AWAY)

    def register(self) -> None:
        self.cluster.fake.put_json(self.path, self.registration)

    def come_back(self) -> None:
        self.register()
        self.cluster.silent.discard(AWAY)


@pytest.fixture(params=["with ZooKeeper", "without"])
def broker(request: pytest.FixtureRequest, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> Broker:
    """Without ZooKeeper nobody reads or changes the config of a broker that is away, and writes may come late."""
    Airflow.answering(monkeypatch)
    if request.param == "without":
        real = ZooKeeperCluster.merge_configs
        registered = lambda: {int(name) for name in cluster.fake.get_children("/brokers/ids")}  # noqa: E731

        def away(_: Any, brokers: Collection[int]) -> frozenset[int]:
            return frozenset(brokers) - registered()

        def merge(opened: Any, changes: Any, **options: Any) -> None:
            assert away(None, {int(one.removeprefix("brokers/")) for one in changes if "brokers/" in one}) == set()
            real(opened, changes, **options)

        monkeypatch.setattr(ZooKeeperCluster, "read_away", away)
        monkeypatch.setattr(ZooKeeperCluster, "merge_configs", merge)
        monkeypatch.setattr(ZooKeeperCluster, "late_seconds", 900.0)
    return Broker(cluster)


@pytest.fixture
def copying(run: LogDirRun, cluster: SimulatedCluster, dirs: SimulatedLogDirs) -> LogDirRun:
    """On all three brokers."""
    run.plan(job="balance", throttle_bytes_per_second=RATE)
    run.answer()
    run.hold()
    run.move()
    assert log_dir_rates(cluster) == dict.fromkeys((1, 2, 3), str(RATE))
    assert {replica.broker for replica in dirs.future} == {1, 2, 3}
    return run


@pytest.fixture
def died(copying: LogDirRun, broker: Broker) -> LogDirRun:
    """The run has given up, and its lease is closed."""
    broker.die()
    copying.release()
    return copying


def lease() -> ThrottleLease:
    found = lease_files.read(airflow_deployment(), SIMULATED)
    assert found is not None
    return found


def look() -> str:
    """What the janitor tells."""
    report = tend(of=CONNECTION)
    assert (report["warnings"], report["alerts"]) == ([], [])
    return "\n".join(report["lines"])


def finish(dirs: SimulatedLogDirs) -> None:
    while dirs.future:
        dirs.step()


def test_the_rate_stays_on_a_broker_that_is_away_until_it_is_back_and_copies_nothing(
    died: LogDirRun, broker: Broker, cluster: SimulatedCluster, dirs: SimulatedLogDirs
) -> None:
    assert log_dir_rates(cluster) == {AWAY: str(RATE)}, "the others are put back"
    assert cluster.leftovers() == [], "the lock is free"
    assert (lease().released_at is None, lease().left_behind) == (False, {f"brokers/{AWAY}": {LOG_DIR_RATE: None}})
    assert f"{died.dag_run.run_id} is over and has left" in look()
    assert log_dir_rates(cluster) == {AWAY: str(RATE)}

    broker.register()
    assert "does not tell whether it copies" in look()
    broker.come_back()
    told = look()
    assert f"brokers/{AWAY}, which still copies between its log dirs (replicas: 2)" in told
    assert f"{died.dag_run.run_id} is over and has left" in told
    assert log_dir_rates(cluster) == {AWAY: str(RATE)}

    finish(dirs)
    assert f"brokers/{AWAY} is back" in look()
    assert (log_dir_rates(cluster), lease().left_behind) == ({}, {})
    assert "left" not in look()


def test_the_janitor_leaves_the_rate_of_a_lost_run_on_a_broker_that_is_away(
    approved: LogDirRun, broker: Broker, cluster: SimulatedCluster, dirs: SimulatedLogDirs
) -> None:
    approved.hold()
    approved.move()
    broker.die()
    look()
    assert (list(log_dir_rates(cluster)), cluster.leftovers()) == ([AWAY], [])
    broker.come_back()
    look()
    assert list(log_dir_rates(cluster)) == [AWAY]
    finish(dirs)
    look()
    assert (log_dir_rates(cluster), lease().left_behind) == ({}, {})


def test_a_rate_that_was_there_before_comes_back_with_the_end_of_the_copies(
    run: LogDirRun, broker: Broker, cluster: SimulatedCluster, dirs: SimulatedLogDirs
) -> None:
    cluster.fake.put_json(f"/config/brokers/{AWAY}", {"version": 1, "config": {LOG_DIR_RATE: "77"}})
    run.plan(**DRAIN, throttle_bytes_per_second=RATE)
    run.answer()
    run.hold()
    run.move()
    broker.die()
    look()
    broker.come_back()
    finish(dirs)
    look()
    assert log_dir_rates(cluster) == {AWAY: "77"}


def test_a_value_that_somebody_else_has_set_meanwhile_is_left_alone(
    died: LogDirRun, broker: Broker, cluster: SimulatedCluster, dirs: SimulatedLogDirs
) -> None:
    cluster.fake.put_json(f"/config/brokers/{AWAY}", {"version": 1, "config": {LOG_DIR_RATE: "77"}})
    broker.come_back()
    finish(dirs)
    look()
    assert (log_dir_rates(cluster), lease().left_behind) == ({AWAY: "77"}, {})


def approved_beside(
    left: dict[Replica, tuple[str, int]], dirs: SimulatedLogDirs, other: LogDirRun, broker: int = AWAY
) -> LogDirRun:
    """The other run, approved while these copies were not seen, which go on afterwards."""
    dirs.future.clear()
    other.plan(**DRAIN | {"broker": broker}, throttle_bytes_per_second=RATE + 1)
    other.answer()
    dirs.future.update(left)
    return other


def test_the_next_run_neither_records_nor_forgets_the_rate_that_was_left(
    died: LogDirRun,
    broker: Broker,
    cluster: SimulatedCluster,
    dirs: SimulatedLogDirs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without the check before the run, which refuses such a cluster already."""
    broker.come_back()
    left = {replica: copy for replica, copy in dirs.future.items() if replica.broker == AWAY}
    other = approved_beside(left, dirs, LogDirRun(tmp_path, cluster, monkeypatch), broker=1)  # type: ignore[arg-type]
    monkeypatch.setattr(rate, "_check_may_begin", lambda *_: None)
    other.hold()
    assert log_dir_rates(cluster) == {1: str(RATE + 1), AWAY: str(RATE)}
    other.release()
    assert log_dir_rates(cluster) == {AWAY: str(RATE)}
    assert f"{died.dag_run.run_id} is over and has left" in look()
    finish(dirs)
    look()
    assert (log_dir_rates(cluster), lease().left_before) == ({}, ())


def test_no_rate_is_taken_for_a_broker_that_still_copies_under_the_rate_of_another_run(
    died: LogDirRun,
    broker: Broker,
    cluster: SimulatedCluster,
    dirs: SimulatedLogDirs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker.come_back()
    other = approved_beside(dict(dirs.future), dirs, LogDirRun(tmp_path, cluster, monkeypatch))  # type: ignore[arg-type]
    monkeypatch.setattr(rate, "_check_may_begin", lambda *_: None)
    with pytest.raises(ClusterNotReadyError, match=f"brokers/{AWAY}, which still copies"):
        other.hold()
    assert (log_dir_rates(cluster), cluster.leftovers()) == ({AWAY: str(RATE)}, [])
    finish(dirs)
    other.hold()
    assert lease().prior == {f"brokers/{AWAY}": {LOG_DIR_RATE: None}}


def test_the_verification_of_the_run_says_that_its_rate_is_left_until_the_janitor_has_looked(
    died: LogDirRun, broker: Broker, dirs: SimulatedLogDirs
) -> None:
    broker.come_back()
    finish(dirs)
    with pytest.raises(AirflowFailException):
        died.verify()
    failed = {check["subject"] for check in died.verification["checks"] if not check["passed"]}
    assert f"brokers/{AWAY} {LOG_DIR_RATE}" in failed
    look()
    with pytest.raises(AirflowFailException):
        died.verify()  # copies of the others were cancelled
    failed = {check["subject"] for check in died.verification["checks"] if not check["passed"]}
    assert f"brokers/{AWAY} {LOG_DIR_RATE}" not in failed
