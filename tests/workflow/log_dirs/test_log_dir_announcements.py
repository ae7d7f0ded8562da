"""A worker has announced copies between log dirs and stands still while others stop its run. The cluster is simulated.

Its request comes late all the same: the broker knows no fence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafka_rebalance.cluster import announced_requests
from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.errors import LockLostError, ReadError
from kafka_rebalance.log_dirs import copies
from kafka_rebalance.moves import announcement_age
from kafka_rebalance.workflow.hooks import read_connection
from kafka_rebalance.zookeeper.cluster_lock import ZooKeeperLock
from support.runs.janitor_run import Airflow, tend
from support.runs.log_dir_run import CONNECTION, LogDirRun
from support.runs.simulated_cluster import SimulatedCluster
from support.runs.simulated_log_dirs import SimulatedLogDirs, log_dir_rates, to_the_end


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """An announcement cannot come for long."""
    monkeypatch.setattr(announcement_age, "COME_SECONDS", 0.5)
    monkeypatch.setattr(announced_requests, "POLL_SECONDS", 0.01)


def stand_still(dirs: SimulatedLogDirs, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Once, when the first copies are announced and about to be requested."""
    acts = [act]

    def late(*arguments: Any, **options: Any) -> Any:
        if acts:
            acts.pop()()
        return dirs.alter(*arguments, **options)

    monkeypatch.setattr(copies, "alter_log_dirs", late)


def die_at_the_request(run: LogDirRun, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, Any]]:
    """The worker dies with its request on the way: (broker, where its replicas go)."""
    on_its_way: list[tuple[int, Any]] = []

    def die(_: object, broker: int, targets: Any, **__: Any) -> None:
        on_its_way.append((broker, targets))
        raise KeyboardInterrupt

    monkeypatch.setattr(copies, "alter_log_dirs", die)
    with pytest.raises(KeyboardInterrupt):
        run.move()
    return on_its_way


def test_a_release_keeps_the_rate_until_nothing_announced_can_come(
    approved: LogDirRun, cluster: SimulatedCluster, dirs: SimulatedLogDirs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker carries the request out while the release waits for it."""
    approved.hold()
    rates: list[object] = []
    real = announced_requests.may_still_come
    monkeypatch.setattr(
        announced_requests, "may_still_come", lambda age: rates.append(log_dir_rates(cluster)) or real(age)
    )
    stand_still(dirs, monkeypatch, approved.release)
    with pytest.raises(LockLostError, match="taken back"):
        approved.move()
    assert rates
    assert all(rate == {2: "100000000"} for rate in rates), "the rate was lifted while it was waited for"
    assert dirs.future == {}, "its worker looks again"
    assert (log_dir_rates(cluster), cluster.leftovers()) == ({}, [])
    assert ZooKeeperLock(cluster.fake).read_open_intents() == []


def test_what_comes_while_a_release_waits_is_taken_back(
    approved: LogDirRun, cluster: SimulatedCluster, dirs: SimulatedLogDirs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker dies with its request on the way."""
    approved.hold()

    def come(age: float) -> bool:
        if not dirs.asked:
            dirs.alter(None, *on_its_way[0], held=dirs_held(dirs), log_dirs=("/a", "/b", "/c"))
            assert dirs.future
        return age < 0.5

    on_its_way = die_at_the_request(approved, monkeypatch)
    monkeypatch.setattr(announced_requests, "may_still_come", come)
    approved.release()
    assert dirs.future == {}
    assert (log_dir_rates(cluster), cluster.leftovers()) == ({}, [])


def dirs_held(dirs: SimulatedLogDirs) -> set[Any]:
    return {replica.topic_partition for replica in dirs.paths}


def test_the_janitor_waits_for_what_a_lost_run_has_announced(
    approved: LogDirRun, cluster: SimulatedCluster, dirs: SimulatedLogDirs, monkeypatch: pytest.MonkeyPatch
) -> None:
    Airflow.answering(monkeypatch)  # knows no such run
    approved.hold()
    stand_still(dirs, monkeypatch, lambda: tend(of=CONNECTION))
    with pytest.raises(LockLostError, match="taken back"):
        approved.move()
    assert dirs.future == {}
    assert (log_dir_rates(cluster), cluster.leftovers()) == ({}, [])


def test_another_worker_of_the_run_goes_on_whatever_the_first_takes_back(
    approved: LogDirRun, cluster: SimulatedCluster, dirs: SimulatedLogDirs, monkeypatch: pytest.MonkeyPatch
) -> None:
    approved.hold()
    stand_still(dirs, monkeypatch, approved.move)
    with pytest.raises(LockLostError, match="taken back"):
        approved.move()
    to_the_end(approved, dirs)
    assert (log_dir_rates(cluster), cluster.leftovers()) == ({}, [])


def test_a_copy_that_was_asked_for_leaves_no_announcement(approved: LogDirRun, cluster: SimulatedCluster) -> None:
    approved.hold()
    approved.move()
    assert ZooKeeperLock(cluster.fake).read_open_intents() == []


@pytest.fixture
def died(approved: LogDirRun, dirs: SimulatedLogDirs, monkeypatch: pytest.MonkeyPatch) -> LogDirRun:
    """Its worker has announced copies of broker 2, and died with the request on the way."""
    approved.hold()
    die_at_the_request(approved, monkeypatch)
    return approved


def test_a_release_does_not_take_a_silent_broker_for_one_that_copies_nothing(
    died: LogDirRun, cluster: SimulatedCluster
) -> None:
    cluster.silent.add(2)
    with pytest.raises(ReadError, match="Broker 2"):
        died.release()
    assert log_dir_rates(cluster) == {2: "100000000"}


def test_a_release_waits_for_no_broker_that_is_away_and_leaves_its_rate(
    died: LogDirRun, cluster: SimulatedCluster
) -> None:
    """Its copies would go on when it is back, under this rate, which the janitor then takes off."""
    cluster.fake.delete("/brokers/ids/2")
    cluster.silent.add(2)
    died.release()
    assert (log_dir_rates(cluster), cluster.leftovers()) == ({2: "100000000"}, [])


def test_the_janitor_takes_back_a_copy_that_comes_after_everybody_has_stopped_to_wait_and_then_forgets_it(
    approved: LogDirRun, cluster: SimulatedCluster, dirs: SimulatedLogDirs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker has died, and the network held its request back for longer than anybody waits."""
    Airflow.answering(monkeypatch)
    approved.hold()
    on_its_way = die_at_the_request(approved, monkeypatch)
    tend(of=CONNECTION)
    assert (log_dir_rates(cluster), cluster.leftovers()) == ({}, [])
    assert len(ZooKeeperLock(cluster.fake).read_open_intents()) == 1
    dirs.alter(None, *on_its_way[0], held=dirs_held(dirs), log_dirs=("/a", "/b", "/c"))
    assert dirs.future
    tend(of=CONNECTION)
    assert dirs.future == {}
    assert len(ZooKeeperLock(cluster.fake).read_open_intents()) == 1, "more of it may come"
    monkeypatch.setattr(announcement_age, "is_closed", lambda *_: True)
    monkeypatch.setattr(announced_requests, "is_closed", lambda *_: True)
    tend(of=CONNECTION)
    assert ZooKeeperLock(cluster.fake).read_open_intents() == []


def test_no_copy_of_a_run_that_holds_the_cluster_is_taken_for_a_late_one(
    approved: LogDirRun, cluster: SimulatedCluster, dirs: SimulatedLogDirs, monkeypatch: pytest.MonkeyPatch
) -> None:
    approved.hold()
    monkeypatch.setattr(announcement_age, "COME_SECONDS", -1.0)
    with open_cluster(read_connection(CONNECTION)) as opened:
        owner = opened.lock.read()
        assert owner is not None
        move = approved.written.plan.moves[0]
        opened.lock.open_intent(owner, opened.lock.read_fence(), {}, 0, {2: {move.replica.topic_partition: move.after}})
        dirs.future[move.replica] = (move.after, 0)
        assert opened.take_back_late_copies() == frozenset()
    assert dirs.future
