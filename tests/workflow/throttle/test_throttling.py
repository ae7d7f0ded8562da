"""The throttle and the lock around a run: what is set, put back, and kept. The cluster is simulated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from kazoo.exceptions import NoAuthError

from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ClusterNotReadyError, ThrottleError
from kafka_rebalance.throttle import hold_throttle
from kafka_rebalance.zookeeper.config_writes import merge_config
from support.runs.rebalance_run import open_lease
from support.runs.simulated_cluster import SimulatedCluster, SimulatedRun
from support.zookeeper.fake_zookeeper import REASSIGN

RATE = 2_000_000
LEADER_LIST, FOLLOWER_LIST = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
LEADER_RATE, FOLLOWER_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
LOCK = "/kafka_rebalance/run"


def lease(run: SimulatedRun) -> dict[str, Any]:
    return json_files.read_json(run.folder, json_files.THROTTLE)


def put_config(cluster: SimulatedCluster, entity: str, values: dict[str, str]) -> None:
    cluster.fake.put_json(f"/config/{entity}", {"version": 1, "config": values})


def test_exactly_the_approved_copies_are_throttled(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    run.hold()
    moves = {str(move.topic_partition): move for move in run.candidate.moves}
    assert set(moves) == {"orders-0", "orders-1", "audit-0"}
    expected: dict[str, dict[str, str]] = {}
    for move in moves.values():
        assert len(move.added) == 1
        entity, number = f"topics/{move.topic_partition.topic}", move.topic_partition.partition
        senders = [f"{number}:{broker}" for broker in move.before]
        lists = expected.setdefault(entity, {LEADER_LIST: "", FOLLOWER_LIST: ""})
        lists[LEADER_LIST] = ",".join(filter(None, [lists[LEADER_LIST], *senders]))
        lists[FOLLOWER_LIST] = ",".join(filter(None, [lists[FOLLOWER_LIST], f"{number}:{move.added[0]}"]))
        for broker in move.before:
            expected.setdefault(f"brokers/{broker}", {})[LEADER_RATE] = str(RATE)
        expected.setdefault(f"brokers/{move.added[0]}", {})[FOLLOWER_RATE] = str(RATE)
    held = cluster.throttles()
    assert {e: {k: sorted(v.split(",")) for k, v in values.items()} for e, values in held.items()} == {
        e: {k: sorted(v.split(",")) for k, v in values.items()} for e, values in expected.items()
    }
    told = [path for call, path in cluster.fake.writes if path.startswith("/config/changes/")]
    assert len(told) == len(expected), "each config is announced to the brokers once"


def test_what_was_there_before_is_recorded_once_and_put_back_to_the_letter(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    put_config(cluster, "brokers/1", {LEADER_RATE: "77", "log.cleaner.threads": "2"})
    put_config(cluster, "topics/orders", {LEADER_LIST: "9:1", "retention.ms": "1000"})
    before = {entity: cluster.config(entity) for entity in ("brokers/1", "topics/orders")}
    run.hold()
    first = lease(run)
    assert first["prior"]["brokers/1"][LEADER_RATE] == "77"
    assert cluster.config("brokers/1") == {LEADER_RATE: str(RATE), "log.cleaner.threads": "2"}
    run.hold()  # cleared together with reassign: what is there now is ours, not what was there before
    assert lease(run)["prior"] == first["prior"]
    assert run.release()["left_alone"] == []
    assert {entity: cluster.config(entity) for entity in before} == before
    assert set(cluster.throttles()) == {"brokers/1", "topics/orders"}
    assert LOCK not in cluster.fake.znodes


def test_a_rate_that_somebody_sets_after_a_part_was_put_back_comes_back_after_the_moves(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    run.hold()
    run.request()
    cluster.step()
    for topic in ("orders", "idle"):  # what is left is a copy to one broker
        cluster.fake.delete(f"/brokers/topics/{topic}", recursive=True)
    with pytest.raises(ThrottleError, match="Copies are still in flight"):
        run.release()
    free = next(one for one in lease(run)["wanted"] if one.startswith("brokers/") and one not in cluster.throttles())
    (key,) = lease(run)["wanted"][free]
    put_config(cluster, free, {key: "888"})
    run.hold()
    assert cluster.config(free) == {key: str(RATE)}
    while REASSIGN in cluster.fake.znodes:
        cluster.step()
    run.release()
    assert cluster.throttles() == {free: {key: "888"}}


def test_release_may_be_repeated(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    run.hold()
    run.release()
    after = cluster.tree()
    assert run.release() == {"put_back": 0, "left_alone": []}
    assert cluster.tree() == after
    assert cluster.leftovers() == []


@pytest.mark.parametrize("entity", ["topics/orders", "brokers/1", "brokers/3"])
def test_a_setup_that_fails_half_way_puts_back_what_it_set_and_gives_the_lock_back(
    run: SimulatedRun, cluster: SimulatedCluster, entity: str
) -> None:
    """Airflow runs no teardown after a setup that failed."""
    call = "set" if f"/config/{entity}" in cluster.fake.znodes else "create"
    cluster.fake.fail_next(call, f"/config/{entity}", took_effect=False, error=NoAuthError())
    said = f"/config/{entity} and its notification .*ZooKeeper does not let this client"
    with pytest.raises(AirflowFailException, match=said):
        run.hold()
    assert cluster.leftovers() == []
    run.hold()  # a retry starts from nothing
    assert LOCK in cluster.fake.znodes
    assert f"{entity}" in cluster.throttles()
    assert all(value is None for values in lease(run)["prior"].values() for value in values.values())


def test_a_setup_that_is_repeated_in_mid_copy_and_fails_keeps_throttle_and_lock(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.hold()
    run.request()
    cluster.step()
    held = cluster.throttles()

    def unreadable(*_: object) -> None:
        raise ThrottleError("read back as something else")

    with monkeypatch.context() as patched:
        patched.setattr(hold_throttle, "check_in_force", unreadable)
        with pytest.raises(ThrottleError, match="something else"):
            run.hold()
    assert cluster.throttles() == held
    assert LOCK in cluster.fake.znodes, "copies are in flight, so no other run may have the cluster"
    assert lease(run)["released_at"] is None


def test_while_a_copy_is_in_flight_its_throttle_and_the_lock_stay(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    run.hold()
    held = cluster.throttles()
    batch = run.request()
    assert batch is not None
    cluster.step()
    cluster.step()
    cluster.fake.put_json(  # audit-0 alone lags behind: its new replica fell out of sync
        "/brokers/topics/audit/partitions/0/state",
        {**cluster.fake.json("/brokers/topics/audit/partitions/0/state"), "isr": [2, 1]},
    )
    with pytest.raises(
        ThrottleError, match=r"Copies are still in flight, so .* throttle settings stay: .*topics/audit"
    ):
        run.release()
    assert cluster.throttles()["topics/audit"] == held["topics/audit"]
    assert LOCK in cluster.fake.znodes
    while REASSIGN in cluster.fake.znodes:
        cluster.step()
    run.release()
    assert cluster.leftovers() == []


def test_a_copy_that_somebody_sends_elsewhere_on_its_way_keeps_its_throttle(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    """From 2.6 on `--additional` gives a partition in mid-copy another list; what is in both is copied on."""
    run.hold()
    held = cluster.throttles()
    (move,) = (one for one in run.candidate.moves if one.topic_partition.topic == "audit")
    (new,), path = move.added, "/brokers/topics/audit"
    (other,) = {1, 2, 3, 4} - {new, *move.before}
    document = cluster.fake.json(path)
    document["partitions"]["0"] = [new, other, *move.before]
    marks = {"adding_replicas": {"0": [new, other]}, "removing_replicas": {"0": list(move.before)}}
    cluster.fake.put_json(path, {**document, "version": 2, **marks})
    with pytest.raises(ThrottleError, match="Copies are still in flight"):
        run.release()
    assert cluster.throttles()["topics/audit"] == held["topics/audit"]
    assert cluster.throttles()[f"brokers/{new}"] == held[f"brokers/{new}"]
    assert LOCK in cluster.fake.znodes


def test_what_somebody_else_changed_meanwhile_is_left_alone_and_named(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    run.hold()
    put_config(cluster, "brokers/1", {LEADER_RATE: "123"})
    assert run.release()["left_alone"] == [f"brokers/1: {LEADER_RATE} is 123, changed by somebody else"]
    assert cluster.throttles() == {"brokers/1": {LEADER_RATE: "123"}}
    assert LOCK not in cluster.fake.znodes


def test_a_topic_that_was_deleted_meanwhile_holds_up_no_release(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    run.hold()
    cluster.fake.delete("/brokers/topics/audit", recursive=True)
    cluster.fake.delete("/config/topics/audit")
    run.release()
    assert cluster.leftovers() == []
    assert "/config/topics/audit" not in cluster.fake.znodes, "an orphaned config would go to the next topic so named"


def test_a_cluster_that_another_run_holds_is_not_written_to(
    run: SimulatedRun, cluster: SimulatedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = SimulatedRun(tmp_path, cluster, monkeypatch, run_id="two")
    other.plan(job="drain", drain=[3])
    other.approve("light", RATE)
    run.hold()
    before = cluster.tree()
    with pytest.raises(AirflowFailException, match=r"LockHeldError: .* held by run kafka_rebalance/one") as held:
        other.hold()
    assert "This try of the task had changed nothing in the cluster" in str(held.value)
    assert "The run has taken its cluster's lock" not in str(held.value)
    assert cluster.tree() == before


def test_a_run_gives_back_no_lock_but_its_own(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    run.hold()
    cluster.fake.put_json(LOCK, {**cluster.fake.json(LOCK), "run": "kafka_rebalance/two"})
    with pytest.raises(AirflowFailException, match="LockHeldError"):
        run.release()
    assert LOCK in cluster.fake.znodes


@pytest.mark.parametrize(
    ("entity", "values"),
    [
        ("brokers/1", {LEADER_RATE: "fast"}),
        ("topics/orders", {LEADER_LIST: "0:1,*"}),
        ("brokers/3", {LEADER_RATE: "-1"}),
    ],
)
def test_what_could_not_be_put_back_keeps_a_throttle_from_being_set(
    run: SimulatedRun, cluster: SimulatedCluster, entity: str, values: dict[str, str]
) -> None:
    """Written by hand: no tool of Kafka's lets it through, and our own writer would not restore it."""
    put_config(cluster, entity, values)
    with pytest.raises(
        (ThrottleError, AirflowFailException), match=r"no throttle was set|had changed nothing in the cluster"
    ):
        run.hold()
    assert cluster.throttles() == {entity: values}
    assert open_lease("simulated-cluster-0001") is None
    assert LOCK not in cluster.fake.znodes


def migrate(cluster: SimulatedCluster, kraft_epoch: int = 5) -> None:
    document = {**cluster.fake.json("/controller"), "version": 2, "kraftControllerEpoch": kraft_epoch}
    cluster.fake.put_json("/controller", document, ephemeral=True)


def test_while_the_cluster_is_migrated_to_kraft_nothing_is_said_to_be_put_back(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    """In ZooKeeper it would be gone, and in force on every broker for good."""
    put_config(cluster, "brokers/1", {LEADER_RATE: "77"})
    run.hold()
    held = cluster.throttles()
    migrate(cluster)
    with pytest.raises(ClusterNotReadyError, match=r"What is left of the throttle") as refused:
        run.release()
    assert f"brokers/1: {LEADER_RATE} set to 77" in str(refused.value)
    assert cluster.throttles() == held
    assert LOCK in cluster.fake.znodes
    for entity in held:  # by kafka-configs
        put_config(cluster, entity, {LEADER_RATE: "77"} if entity == "brokers/1" else {})
    run.release()
    assert LOCK not in cluster.fake.znodes
    assert open_lease("simulated-cluster-0001") is None


def test_no_config_is_written_while_the_cluster_is_migrated_to_kraft(cluster: SimulatedCluster) -> None:
    migrate(cluster)
    with pytest.raises(ClusterNotReadyError, match=r"from ZooKeeper\. Change the config of brokers/1"):
        merge_config(cluster.fake, "brokers/1", {LEADER_RATE: "5"})  # type: ignore[arg-type]
    assert cluster.throttles() == {}
    migrate(cluster, kraft_epoch=-1)  # as in every znode of 3.4 and later that is not migrated
    merge_config(cluster.fake, "brokers/1", {LEADER_RATE: "5"})  # type: ignore[arg-type]
    assert cluster.throttles() == {"brokers/1": {LEADER_RATE: "5"}}
