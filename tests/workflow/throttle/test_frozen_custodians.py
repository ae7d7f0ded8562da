"""Who was frozen between reading a lease and writing it harms no other run that throttles the cluster when it wakes.

Frozen is a worker that stands still (SIGSTOP, a stalled disk) while others go on. The cluster is simulated.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from kafka_rebalance.cancel import set_throttle as rate_change
from kafka_rebalance.cancel.set_throttle import change_rate
from kafka_rebalance.cluster.with_zookeeper import ZooKeeperCluster
from kafka_rebalance.errors import ConfigChangedError, LockLostError, ThrottleError, WriteError
from kafka_rebalance.run.run_lock import lock_owner
from kafka_rebalance.throttle import lease_files, release_throttle
from kafka_rebalance.throttle.janitor import look_after_lease, sweep
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.zookeeper import config_writes
from kafka_rebalance.zookeeper.cluster_lock import ZooKeeperLock
from support.runs.janitor_run import Airflow, tend
from support.runs.rebalance_run import open_lease
from support.runs.simulated_cluster import RATE, SimulatedCluster, SimulatedRun, freeze
from support.zookeeper.fake_zookeeper import REASSIGN

CLUSTER = "simulated-cluster-0001"
LOCK = "/kafka_rebalance/run"
LEADERS, LEADER_RATE = "leader.replication.throttled.replicas", "leader.replication.throttled.rate"
MB = 1_000_000


@pytest.fixture
def second(
    run: SimulatedRun, tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> SimulatedRun:
    """It moves another partition, between brokers that the first one throttles too, and at the same rate."""
    made = SimulatedRun(tmp_path, cluster, monkeypatch, "two")
    plan = {"version": 1, "partitions": [{"topic": "idle", "partition": 0, "replicas": [1, 4]}]}
    made.plan(plan=json.dumps(plan), candidates=["leaders_only"])
    made.approve("given", RATE)
    return made


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> Airflow:
    found = Airflow.answering(monkeypatch)
    found.states["two"] = "running"
    return found


def goes_on(run: SimulatedRun, second: SimulatedRun, cluster: SimulatedCluster) -> Callable[[], None]:
    """The first run ends and gives back; the second one's copies are in flight."""

    def act() -> None:
        while cluster.step():
            pass
        run.release()
        second.hold()
        second.request()
        cluster.step()
        assert REASSIGN in cluster.fake.znodes

    return act


def check_untouched(second: SimulatedRun, cluster: SimulatedCluster) -> None:
    """The second run has its lock, its lease and all of its throttle; it ends as ever, and nothing is left."""
    assert cluster.fake.json(LOCK)["run"] == "kafka_rebalance/two"
    lease = open_lease(CLUSTER)
    assert lease is not None
    assert lease.run == "kafka_rebalance/two"
    assert cluster.throttles() == lease.wanted
    while cluster.step():
        pass
    second.reassign()
    second.release()
    assert cluster.leftovers() == []
    assert open_lease(CLUSTER) is None


def check_goes_on(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    """All of its throttle is in force, so that a batch is requested; it ends as ever, and nothing is left."""
    assert run.request() is not None
    while cluster.step():
        pass
    run.reassign()
    run.release()
    assert cluster.leftovers() == []


def test_a_release_that_was_frozen_before_it_closed_the_lease(
    run: SimulatedRun, second: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.hold()
    freeze(monkeypatch, lease_files, "write", goes_on(run, second, cluster))
    with pytest.raises(AirflowFailException, match="held by run kafka_rebalance/two"):
        run.release()
    check_untouched(second, cluster)


@pytest.mark.parametrize("place", [(ZooKeeperLock, "release"), (ZooKeeperLock, "read_fence")])
def test_a_release_that_was_frozen_before_it_gave_the_lock_back_of_a_run_that_was_cleared_meanwhile(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch, place: tuple[Any, str]
) -> None:
    run.hold()
    freeze(monkeypatch, *place, run.hold)
    with pytest.raises((LockLostError, ThrottleError), match=r"was not released|took its throttle again"):
        run.release()
    check_goes_on(run, cluster)


def test_a_release_that_was_frozen_before_it_put_anything_back(
    run: SimulatedRun, second: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.hold()
    freeze(monkeypatch, release_throttle, "put_back", goes_on(run, second, cluster))
    with pytest.raises(AirflowFailException, match="held by run kafka_rebalance/two"):
        run.release()
    check_untouched(second, cluster)


@pytest.mark.parametrize("place", ["custody", "put_back"])
def test_a_janitor_that_was_frozen_after_it_read_the_lease(
    run: SimulatedRun,
    second: SimulatedRun,
    cluster: SimulatedCluster,
    airflow: Airflow,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
) -> None:
    run.hold()
    airflow.states["one"] = "failed"
    freeze(monkeypatch, look_after_lease, place, goes_on(run, second, cluster))
    tend()
    check_untouched(second, cluster)


def test_a_release_that_was_frozen_before_it_handed_its_copies_over(
    run: SimulatedRun, second: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.hold()
    run.request()
    cluster.step()
    freeze(monkeypatch, lease_files, "write", goes_on(run, second, cluster))
    with pytest.raises(ThrottleError, match="Copies are still in flight"):
        run.release()
    check_untouched(second, cluster)


def test_a_setup_that_was_frozen_before_it_wrote_its_lease(
    run: SimulatedRun, second: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.hold()
    freeze(monkeypatch, lease_files, "write", goes_on(run, second, cluster))
    with pytest.raises(LockLostError, match="The other worker now takes care of it"):
        run.hold()
    check_untouched(second, cluster)


def test_a_change_of_the_rate_that_was_frozen_before_it_wrote_the_lease(
    run: SimulatedRun, second: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.hold()
    freeze(monkeypatch, lease_files, "write", goes_on(run, second, cluster))
    with pytest.raises(ThrottleError, match=r"gave its throttle back|holds no throttle now"):
        change_rate(airflow_deployment(), run.folder, 5 * MB, by="olive")
    check_untouched(second, cluster)


@pytest.mark.parametrize(
    "place", [(lease_files, "write"), (config_writes, "merge_config"), (rate_change, "rate_changes")]
)
def test_of_two_changes_of_the_rate_at_once_neither_leaves_a_rate_that_is_not_known_for_ours(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch, place: tuple[Any, str]
) -> None:
    run.hold()
    freeze(monkeypatch, *place, lambda: change_rate(airflow_deployment(), run.folder, 7 * MB, by="uma"))
    change_rate(airflow_deployment(), run.folder, 5 * MB, by="olive")
    lease = open_lease(CLUSTER)
    assert lease is not None
    assert {change.by for change in lease.rate_changes} == {"olive", "uma"}
    assert cluster.throttles() == lease.wanted
    assert run.release()["left_alone"] == []
    assert cluster.leftovers() == []


def test_a_change_of_the_rate_and_a_release_at_once_leave_no_open_lease(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The release has looked for a later lease before the change writes one."""
    run.hold()
    real, waiting = lease_files.write, []

    def write(deployment: Any, lease: Any) -> None:
        if lease.released_at is None and not waiting:
            waiting.append(lease)
            run.release()
        real(deployment, lease)

    monkeypatch.setattr(lease_files, "write", write)
    with pytest.raises(ThrottleError, match="gave its throttle back"):
        change_rate(airflow_deployment(), run.folder, 5 * MB, by="olive")
    assert cluster.leftovers() == []
    assert open_lease(CLUSTER) is None


def test_a_change_of_the_rate_sees_a_lease_that_was_closed_behind_its_reading(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The release closes between the change's reading and its writing, and does not see what is written then."""
    run.hold()
    real, closed = lease_files.write, []

    def write(deployment: Any, lease: Any) -> None:
        if lease.released_at and not closed:
            closed.append(lease)
            with pytest.raises(ThrottleError, match="gave its throttle back"):
                change_rate(airflow_deployment(), run.folder, 5 * MB, by="olive")
            return  # it was written meanwhile:
        if len(closed) == 1:
            closed.append(lease)
            real(deployment, closed[0])
        real(deployment, lease)

    monkeypatch.setattr(lease_files, "write", write)
    run.release()
    assert len(closed) == 2
    assert cluster.leftovers() == []
    assert open_lease(CLUSTER) is None


def test_a_cleaning_that_was_frozen_after_its_sweep_takes_nothing_from_a_run_that_has_begun(
    run: SimulatedRun, cluster: SimulatedCluster, airflow: Airflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.hold()
    run.release()
    cluster.fake.put_json("/config/topics/orders", {"version": 1, "config": {LEADERS: "7:1"}})
    (ticked,) = [one["id"] for one in tend()["findings"]]
    freeze(monkeypatch, sweep, "clean", run.hold)
    with pytest.raises(LockLostError):
        tend("uma", clean=[ticked])
    lease = open_lease(CLUSTER)
    assert lease is not None
    assert lease.prior["topics/orders"][LEADERS] == "7:1"
    run.request()  # all of its throttle is in force


def test_a_janitor_that_was_frozen_before_it_gave_back_the_lock_of_a_run_that_was_cleared_meanwhile(
    run: SimulatedRun, cluster: SimulatedCluster, airflow: Airflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    ZooKeeperLock(cluster.fake).acquire(lock_owner(airflow_deployment(), run.candidate.digest, run.dag_run))  # type: ignore[arg-type]
    airflow.states["one"] = "failed"

    def cleared() -> None:
        airflow.states["one"] = "running"
        run.hold()

    freeze(
        monkeypatch,
        ZooKeeperCluster,
        "read_view",
        lambda: freeze(monkeypatch, ZooKeeperCluster, "read_view", cleared),
    )
    assert "the run goes on" in tend()["lines"][-1]
    assert run.request() is not None


def test_a_release_that_began_before_a_batch_was_about_to_be_requested_lifts_nothing_from_it(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker whose task was marked lives until its next heartbeat. The two stand still in turn: the release when it
    has read that nothing is in motion, the request when it has found the throttle in force, until that is lifted.
    """
    run.hold()
    held = cluster.throttles()
    checked, ended, said = threading.Event(), threading.Event(), []
    real = ZooKeeperCluster.request_moves

    def create(*arguments: Any, **options: Any) -> Any:
        checked.set()
        assert ended.wait(20)
        return real(*arguments, **options)

    def request() -> None:
        try:
            run.request()
        except WriteError as refused:
            said.append(str(refused))

    monkeypatch.setattr(ZooKeeperCluster, "request_moves", create)
    worker = threading.Thread(target=request)

    def begin() -> None:
        worker.start()
        assert checked.wait(20)

    def finish() -> None:
        ended.set()
        worker.join()

    freeze(monkeypatch, release_throttle, "read_lease_configs", begin)
    freeze(monkeypatch, lease_files, "write", finish)
    try:
        run.release()
    except ThrottleError:
        pass
    finally:
        finish()
    assert (
        cluster.throttles() == held if REASSIGN in cluster.fake.znodes else "changed nothing in the cluster" in said[0]
    )
    assert (LOCK in cluster.fake.znodes) == (REASSIGN in cluster.fake.znodes)


@pytest.mark.parametrize("entity", ["topics/orders", "brokers/1"])
def test_what_others_set_while_a_throttle_is_put_back_stays(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch, entity: str
) -> None:
    run.hold()
    path, key = f"/config/{entity}", LEADERS if entity.startswith("topics") else LEADER_RATE
    config = cluster.fake.json(path)["config"]
    theirs = {**config, key: f"{config[key]},9:9" if key == LEADERS else "123"}
    freeze(monkeypatch, config_writes, "merge_config", lambda: cluster.fake.put_json(path, document(theirs)))
    run.release()
    assert cluster.throttles() == {entity: {key: "9:9" if key == LEADERS else "123"}}
    assert open_lease(CLUSTER) is None


def test_what_others_set_while_a_throttle_is_set_is_put_back_to(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = document({LEADER_RATE: "123"})
    freeze(monkeypatch, config_writes, "merge_config", lambda: cluster.fake.put_json("/config/brokers/1", theirs))
    with pytest.raises(ConfigChangedError, match="brokers/1"):
        run.hold()
    assert cluster.throttles() == {"brokers/1": {LEADER_RATE: "123"}}
    run.hold()
    run.release()
    assert cluster.throttles() == {"brokers/1": {LEADER_RATE: "123"}}


def test_a_setup_that_fails_after_another_attempt_has_set_all_leaves_it_that_ones(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other_attempt() -> None:
        run.hold()
        raise OSError("the storage was away")

    freeze(monkeypatch, lease_files, "write", other_attempt)
    with pytest.raises(OSError, match="was away"):
        run.hold()
    check_goes_on(run, cluster)


def test_a_cleaning_takes_nothing_from_the_first_run_that_ever_holds_the_cluster(
    run: SimulatedRun, cluster: SimulatedCluster, airflow: Airflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.fake.put_json("/config/topics/orders", document({LEADERS: "7:1"}))
    (ticked,) = [one["id"] for one in tend()["findings"]]
    freeze(monkeypatch, sweep, "clean", run.hold)
    with pytest.raises(LockLostError):
        tend("uma", clean=[ticked])
    run.request()  # all of its throttle is in force


def test_a_cleaning_leaves_a_value_that_was_changed_since_it_was_ticked(
    run: SimulatedRun, cluster: SimulatedCluster, airflow: Airflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.fake.put_json("/config/topics/orders", document({LEADERS: "7:1"}))
    (ticked,) = [one["id"] for one in tend()["findings"]]
    theirs = document({LEADERS: "7:1,8:1"})
    freeze(monkeypatch, sweep, "clean", lambda: cluster.fake.put_json("/config/topics/orders", theirs))
    with pytest.raises(ConfigChangedError):
        tend("uma", clean=[ticked])
    assert cluster.throttles() == {"topics/orders": {LEADERS: "7:1,8:1"}}


def document(config: dict[str, str]) -> dict[str, Any]:
    return {"version": 1, "config": config}
