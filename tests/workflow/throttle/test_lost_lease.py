"""A lease whose folder is lost or damaged: the throttle is put back all the same, or somebody is told. Simulated."""

from __future__ import annotations

import dataclasses
import shutil
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ThrottleError, UnwatchedError
from kafka_rebalance.run.approved_plan import read_approved
from kafka_rebalance.throttle import throttle_in_force
from kafka_rebalance.workflow.run_step import step_inputs
from kafka_rebalance.zookeeper.cluster_lock import ZooKeeperLock
from support.runs.janitor_run import Airflow, tend
from support.runs.rebalance_run import open_lease
from support.runs.simulated_cluster import SimulatedCluster, SimulatedRun, lease_file
from support.zookeeper.fake_zookeeper import REASSIGN

CLUSTER = "simulated-cluster-0001"
LOCK, RECORD = "/kafka_rebalance/run", "/kafka_rebalance/lease"
LEADER_RATE = "leader.replication.throttled.rate"


def lose(run: SimulatedRun, how: str, cluster: SimulatedCluster) -> None:
    """The lease's folder, the file in it, or the record in ZooKeeper."""
    if how == "folder":
        shutil.rmtree(run.folder.parents[2] / json_files.LEASES)
        (run.folder / json_files.THROTTLE).unlink()
    elif how == "damaged file":
        lease_file(run.folder.parents[2]).write_text('{"format_version": 1, "run": 7}')
    elif how == "record":
        cluster.fake.delete(RECORD)
    else:
        cluster.fake.set(RECORD, b"{}")


def damage_all(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    lose(run, "damaged file", cluster)
    lose(run, "damaged record", cluster)


@pytest.mark.parametrize("how", ["folder", "damaged file", "record", "damaged record"])
def test_what_was_there_before_is_put_back_though_one_copy_of_the_lease_is_lost(
    run: SimulatedRun, cluster: SimulatedCluster, how: str
) -> None:
    cluster.fake.put_json("/config/brokers/1", {"version": 1, "config": {LEADER_RATE: "77"}})
    run.hold()
    lose(run, how, cluster)
    run.release()
    assert cluster.throttles() == {"brokers/1": {LEADER_RATE: "77"}}
    assert LOCK not in cluster.fake.znodes


@pytest.mark.parametrize("how", ["folder", "damaged file", "record", "damaged record"])
def test_a_throttle_that_is_held_again_after_one_copy_of_its_lease_was_lost_never_takes_itself_for_what_was_there(
    run: SimulatedRun, cluster: SimulatedCluster, how: str
) -> None:
    run.hold()
    lose(run, how, cluster)
    run.hold()
    held = cluster.lease().read_open()
    assert held is not None
    assert {value for values in held.prior.values() for value in values.values()} == {None}
    assert open_lease(CLUSTER) == held, "and both copies are there again"
    assert ZooKeeperLock(cluster.fake).read_lease().generation == held.generation  # type: ignore[union-attr]
    run.release()
    assert cluster.leftovers() == []


def lose_both(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    lose(run, "folder", cluster)
    lose(run, "record", cluster)


def test_where_nothing_tells_what_was_there_before_the_release_fails_and_keeps_the_lock(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    run.hold()
    before = cluster.throttles()
    lose_both(run, cluster)
    with pytest.raises(ThrottleError, match=r"nothing tells what was there before.*kafka_throttle_janitor"):
        run.release()
    assert LOCK in cluster.fake.znodes
    assert cluster.throttles() == before


def test_where_nothing_tells_what_was_there_before_no_throttle_is_taken_again(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    run.hold()
    before = cluster.throttles()
    lose_both(run, cluster)
    with pytest.raises(ThrottleError, match="nothing tells what was there before"):
        run.hold()
    assert cluster.throttles() == before
    assert cluster.lease().read() is None


def test_a_verification_without_any_lease_fails_while_a_throttle_of_the_run_stands(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    run.hold()
    lose_both(run, cluster)
    checks = throttle_in_force.check_put_back(cluster.opened(), read_approved(step_inputs(run.dag_run), run.decision))
    assert {check.subject for check in checks if not check.passed} >= {f"brokers/1 {LEADER_RATE}"}


def test_a_release_that_is_repeated_after_all_was_put_back_passes_without_any_lease(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    run.hold()
    run.release()
    lose_both(run, cluster)
    assert run.release()["put_back"] == 0


def test_the_janitor_puts_back_by_the_record_alone(
    run: SimulatedRun, cluster: SimulatedCluster, airflow: Airflow
) -> None:
    run.hold()
    lose(run, "folder", cluster)
    airflow.states["one"] = "failed"
    assert tend()["alerts"] == []
    assert cluster.leftovers() == []


def test_the_janitor_leaves_what_another_airflow_has_recorded_here(
    run: SimulatedRun, cluster: SimulatedCluster, airflow: Airflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.hold()
    before = cluster.throttles()
    other = run.folder.parents[2].with_name("another")
    other.mkdir()
    monkeypatch.setenv("AIRFLOW__KAFKA_REBALANCE__RUNS_URL", str(other))
    report = tend()
    assert cluster.throttles() == before
    assert LOCK in cluster.fake.znodes
    assert any("another Airflow" in line for line in report["lines"])
    assert report["findings"] == [], "what a lease holds is nobody's to clean"


def test_a_damaged_lease_is_told_with_its_way_out_and_that_way_works(
    run: SimulatedRun, cluster: SimulatedCluster, airflow: Airflow
) -> None:
    run.hold()
    damage_all(run, cluster)
    holder = ZooKeeperLock(cluster.fake).read()
    assert holder is not None
    with pytest.raises(AirflowFailException, match="break_lock"):
        run.hold()
    airflow.states["one"] = "failed"
    with pytest.raises(UnwatchedError, match="break_lock"):
        tend()
    report = tend("uma", break_lock=holder.name)
    assert report["lock"] is None
    assert LOCK not in cluster.fake.znodes
    to_clean = [found["id"] for found in report["findings"] if found["can_be_cleaned"]]
    assert to_clean, "what is left of the throttle can be ticked"
    tend("uma", clean=to_clean)
    assert cluster.throttles() == {}


def test_a_lock_that_names_nobody_is_told_with_its_way_out_and_that_way_works(
    cluster: SimulatedCluster, run: SimulatedRun, airflow: Airflow
) -> None:
    run.hold()
    airflow.states["one"] = "failed"
    cluster.fake.set(LOCK, b"hello")
    with pytest.raises(UnwatchedError, match=f"break_lock '{LOCK}' makes its lock free"):
        tend()
    with pytest.raises(AirflowFailException, match="The lock was not broken"):
        tend("uma", break_lock="kafka_rebalance/one of airflow")
    cluster.fake.create(REASSIGN, b'{"version":1,"partitions":[]}')
    with pytest.raises(AirflowFailException, match="while a reassignment is in motion"):
        tend("uma", break_lock=LOCK)
    cluster.fake.delete(REASSIGN)
    report = tend("uma", break_lock=LOCK)
    assert report["lock"] is None
    assert any("was begun anew (/kafka_rebalance/run), as uma asked" in text for text in report["warnings"])
    assert LOCK not in cluster.fake.znodes
    assert tend()["alerts"] == []


def test_a_damaged_lease_is_not_set_aside_while_its_copies_run(
    run: SimulatedRun, cluster: SimulatedCluster, airflow: Airflow
) -> None:
    run.hold()
    run.request()
    cluster.step()
    before = cluster.throttles()
    damage_all(run, cluster)
    holder = ZooKeeperLock(cluster.fake).read()
    assert holder is not None
    with pytest.raises(AirflowFailException, match="in motion"):
        tend("uma", break_lock=holder.name)
    assert REASSIGN in cluster.fake.znodes
    assert cluster.throttles() == before
    assert LOCK in cluster.fake.znodes


def test_an_earlier_generation_that_can_be_read_puts_back_after_a_damaged_one_was_set_aside(
    run: SimulatedRun, cluster: SimulatedCluster, airflow: Airflow
) -> None:
    run.hold()
    run.hold()
    damage_all(run, cluster)
    holder = ZooKeeperLock(cluster.fake).read()
    assert holder is not None
    tend("uma", break_lock=holder.name)
    assert cluster.leftovers() == []
    assert cluster.throttles() == {}


def test_a_lease_of_a_large_plan_is_recorded_in_parts_of_which_each_fits(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    run.hold()
    held = cluster.lease().read_open()
    assert held is not None
    wanted: dict[str, dict[str, str]] = {}
    for topic in range(150):
        entries = [f"{n}:{(n * 7919 + topic * 104729 + r * r * 31) % 997}" for n in range(1500) for r in range(3)]
        text = ",".join(entries)
        wanted[f"topics/t{topic}"] = dict.fromkeys(held.wanted["topics/orders"], text)
    prior: dict[str, Any] = {entity: dict.fromkeys(values) for entity, values in wanted.items()}
    for _ in range(2):
        fence = ZooKeeperLock(cluster.fake).raise_fence()
        large = dataclasses.replace(held, wanted=wanted, prior=prior, generation=fence.generation)
        cluster.lease().write(large, fence)
    shutil.rmtree(run.folder.parents[2] / json_files.LEASES)
    assert cluster.lease().read() == large
    ours = [znode for path, znode in cluster.fake.znodes.items() if path.startswith(RECORD)]
    assert len(ours) > 2
    assert all(len(znode.data) < 1_000_000 for znode in ours)
    kept = [path for path in cluster.fake.znodes if path.startswith(f"{RECORD}-")]
    assert all(large.generation in path for path in kept), "parts of an earlier record go"


def test_a_later_lease_is_never_written_over_by_one_that_was_frozen(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    run.hold()
    early = ZooKeeperLock(cluster.fake).raise_fence()
    run.hold()
    held = cluster.lease().read_open()
    assert held is not None
    late = dataclasses.replace(held, generation=early.generation, released_at="2026-11-21T00:00:00+00:00")
    cluster.lease().write(late, early)
    assert cluster.lease().read() == held
