"""What stops a run between log dirs, before and after its approval, and what it leaves. The cluster is simulated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.log_dir_plan import LOG_DIRS_FILE
from kafka_rebalance.errors import (
    ClusterNotReadyError,
    ExecutionError,
    ReadError,
    ThrottleError,
    WriteError,
)
from kafka_rebalance.log_dirs import rate
from kafka_rebalance.model.lock_owner import LockOwner
from kafka_rebalance.run import ledger
from kafka_rebalance.run.watch_batch import BatchSeen, BatchState
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.zookeeper.cluster_lock import ZooKeeperLock
from support.runs.log_dir_run import CONNECTION, POLICY, LogDirRun
from support.runs.simulated_cluster import SIZE_BYTES, SimulatedCluster
from support.runs.simulated_log_dirs import DRAIN, SimulatedLogDirs, log_dir_rates, to_the_end

OTHER = LockOwner("kafka_rebalance/two", "f" * 64, "another", "")


def test_a_drain_copies_as_many_at_once_as_it_may_and_leaves_nothing_behind(
    approved: LogDirRun, cluster: SimulatedCluster, dirs: SimulatedLogDirs
) -> None:
    approved.hold()
    assert log_dir_rates(cluster) == {2: "100000000"}
    approved.move()
    assert len(dirs.future) == 2
    to_the_end(approved, dirs)
    assert dirs.held(2)["/a"] == 0
    assert all(len(targets) <= 2 for _, targets in dirs.asked)
    assert sum(len(targets) for _, targets in dirs.asked) == 4, "each is asked for once"
    assert (log_dir_rates(cluster), cluster.leftovers()) == ({}, [])
    with pytest.raises(AirflowSkipException, match="is empty already"):
        approved.plan(**DRAIN)


def test_a_kafka_below_2_2_is_refused_before_the_plan_and_before_the_first_write(
    run: LogDirRun, cluster: SimulatedCluster, dirs: SimulatedLogDirs, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.plan(**DRAIN)
    run.answer()
    monkeypatch.setattr(cluster, "spoken", lambda broker: {0: (0, 7), 18: (0, 2)})
    for step in (run.hold, lambda: run.plan(**DRAIN)):
        with pytest.raises(ClusterNotReadyError, match=r"broker 2: .*below 2\.2"):
            step()
    assert dirs.asked == []
    assert (log_dir_rates(cluster), cluster.leftovers()) == ({}, [])


def test_a_way_back_takes_back_what_still_lies_where_the_run_has_put_it(
    approved: LogDirRun,
    cluster: SimulatedCluster,
    dirs: SimulatedLogDirs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    approved.hold()
    to_the_end(approved, dirs)
    meddled = approved.written.plan.moves[0].replica
    dirs.paths[meddled] = "/b" if dirs.paths[meddled] == "/c" else "/c"
    back = LogDirRun(tmp_path, cluster, monkeypatch)  # type: ignore[arg-type]
    back.plan(job="way_back", of_run=approved.dag_run.run_id)
    assert meddled not in {move.replica for move in back.written.plan.moves}
    back.answer()
    back.hold()
    to_the_end(back, dirs)
    assert dirs.held(2)["/a"] == 3


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"job": "drain", "broker": 9, "log_dir": "/a"}, "There is no broker 9"),
        ({"job": "drain", "broker": 2, "log_dir": "/x"}, "has no log dir '/x'; it has /a, /b, /c"),
        ({"job": "balance", "broker": 9}, "There is no broker 9"),
        ({"job": "balance", "throttle_bytes_per_second": 1}, "outside the policy's"),
        ({"job": "way_back", "of_run": "never"}, "no plan of a run 'never'"),
    ],
)
def test_a_request_for_what_is_not_there_is_refused(run: LogDirRun, params: dict[str, Any], said: str) -> None:
    with pytest.raises(AirflowFailException, match=said):
        run.plan(**params)


def test_without_a_policy_nothing_is_read(run: LogDirRun, tmp_path: Path) -> None:
    (tmp_path / "policies" / f"{CONNECTION}.yaml").unlink()
    with pytest.raises(AirflowFailException, match="read-only"):
        run.plan(**DRAIN)
    assert "run_folder" not in run.xcom


def test_a_drain_that_would_leave_something_is_refused_with_what_keeps_it(
    run: LogDirRun, dirs: SimulatedLogDirs, tmp_path: Path
) -> None:
    policy = tmp_path / "policies" / f"{CONNECTION}.yaml"
    policy.write_text(f"{POLICY}topics_out: [audit]\n")
    with pytest.raises(AirflowFailException, match="keeps audit-0 on broker 2"):
        run.plan(**DRAIN)
    policy.write_text(POLICY)
    dirs.usable_bytes = 100 * SIZE_BYTES + SIZE_BYTES // 2  # a tenth of the disk and half a replica
    with pytest.raises(AirflowFailException, match="no other log dir has room for audit-0 on broker 2, orders-0"):
        run.plan(**DRAIN)
    policy.write_text(f"{POLICY}max_bytes: 1\n")
    dirs.usable_bytes = 900 * SIZE_BYTES
    with pytest.raises(AirflowFailException, match="max_bytes"):
        run.plan(**DRAIN)


def a_failed_dir(cluster: SimulatedCluster, dirs: SimulatedLogDirs) -> None:
    dirs.offline.add((2, "/b"))


def a_silent_broker(cluster: SimulatedCluster, dirs: SimulatedLogDirs) -> None:
    cluster.silent.add(2)


def a_reassignment(cluster: SimulatedCluster, dirs: SimulatedLogDirs) -> None:
    cluster.fake.create("/admin/reassign_partitions", b'{"version":1,"partitions":[]}')


def a_copy(cluster: SimulatedCluster, dirs: SimulatedLogDirs) -> None:
    dirs.future[next(one for one in dirs.paths if one.broker == 2)] = "/b", 0


UNREADY: dict[Callable[..., None], tuple[type[Exception], str]] = {
    a_failed_dir: (ClusterNotReadyError, "log dir /b is offline"),
    a_silent_broker: (ReadError, "Broker 2 does not answer"),
    a_reassignment: (ClusterNotReadyError, "a reassignment is under way"),
    a_copy: (ClusterNotReadyError, "on their way to another log dir"),
}


@pytest.mark.parametrize("spoil", UNREADY)
def test_nothing_is_planned_on_a_cluster_that_is_not_ready(
    run: LogDirRun, cluster: SimulatedCluster, dirs: SimulatedLogDirs, spoil: Callable[..., None]
) -> None:
    spoil(cluster, dirs)
    kind, said = UNREADY[spoil]
    with pytest.raises(kind, match=said):
        run.plan(**DRAIN)


@pytest.mark.parametrize("spoil", UNREADY)
def test_nothing_begins_on_a_cluster_that_is_no_longer_ready(
    approved: LogDirRun, cluster: SimulatedCluster, dirs: SimulatedLogDirs, spoil: Callable[..., None]
) -> None:
    before = cluster.tree()
    spoil(cluster, dirs)
    kind, said = UNREADY[spoil]
    with pytest.raises(kind, match=said):
        approved.hold()
    cluster.fake.znodes.pop("/admin/reassign_partitions", None)
    assert cluster.tree() == before
    assert dirs.asked == []


def test_nothing_is_planned_or_begun_while_another_run_holds_the_cluster(
    run: LogDirRun, approved: LogDirRun, cluster: SimulatedCluster
) -> None:
    ZooKeeperLock(cluster.fake).acquire(OTHER)
    for step in (approved.hold, lambda: run.plan(**DRAIN)):
        with pytest.raises(AirflowFailException, match=r"LockHeldError.*kafka_rebalance/two"):
            step()
    assert log_dir_rates(cluster) == {}


def test_an_approval_counts_for_a_day_and_not_for_replicas_that_somebody_has_moved(
    approved: LogDirRun, dirs: SimulatedLogDirs
) -> None:
    moved = approved.written.plan.moves[0].replica
    dirs.paths[moved] = "/b" if approved.written.plan.moves[0].after == "/c" else "/c"
    with pytest.raises(AirflowFailException, match=f"Somebody else has moved, or moves, {moved}"):
        approved.hold()
    del dirs.paths[moved]
    with pytest.raises(AirflowFailException, match=f"{moved}: the broker no longer has it"):
        approved.hold()
    written = json_files.read_json(approved.folder, json_files.DECISION)
    written["approved_at"] = (datetime.now(UTC) - timedelta(days=2)).isoformat()
    digest = json_files.write_json(approved.folder, json_files.DECISION, written)
    approved.xcom["decision"]["decision_digest"] = digest
    with pytest.raises(AirflowFailException, match="ApprovalError"):
        approved.hold()


def test_replicas_that_have_grown_beyond_the_policys_limit_are_approved_again(
    run: LogDirRun, dirs: SimulatedLogDirs, cluster: SimulatedCluster
) -> None:
    gib = dirs.size_bytes = 2**30
    dirs.usable_bytes = 900 * gib
    run.plan(**DRAIN)
    run.answer()
    dirs.size_bytes = 2 * gib
    with pytest.raises(AirflowFailException, match=r"have grown by 4.00 GiB .*growth_limit.*on broker 2 by 1.00 GiB"):
        run.hold()
    assert (log_dir_rates(cluster), cluster.leftovers()) == ({}, [])
    dirs.size_bytes = gib + gib // 100
    run.hold()


def test_a_plan_that_is_not_the_approved_one_is_not_carried_out(approved: LogDirRun, cluster: SimulatedCluster) -> None:
    written = approved.written
    other = replace(written.plan, throttle_bytes_per_second=2_000_000)
    LOG_DIRS_FILE.write(approved.folder, replace(written, plan=other))
    for step in (approved.hold, approved.move, approved.release, approved.verify):
        with pytest.raises(AirflowFailException, match=r"ApprovalError.*is not as it was at the approval"):
            step()
    assert log_dir_rates(cluster) == {}


def test_a_frozen_cluster_begins_nothing_and_requests_nothing_more(
    approved: LogDirRun, dirs: SimulatedLogDirs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_REBALANCE_FREEZE", "true")
    with pytest.raises(AirflowFailException, match="FrozenError"):
        approved.hold()
    monkeypatch.delenv("AIRFLOW_VAR_KAFKA_REBALANCE_FREEZE")
    approved.hold()
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_REBALANCE_FREEZE", "true")
    with pytest.raises(AirflowFailException, match="FrozenError"):
        approved.move()
    assert dirs.asked == []
    approved.release()


def test_a_setup_that_fails_half_way_gives_rate_and_lock_back(
    approved: LogDirRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise WriteError("simulated")

    monkeypatch.setattr(rate, "check_in_force", fail)
    with pytest.raises(WriteError, match="simulated"):
        approved.hold()
    assert (log_dir_rates(cluster), cluster.leftovers()) == ({}, [])


def test_a_refused_copy_fails_the_run_and_the_others_are_cancelled(
    approved: LogDirRun, cluster: SimulatedCluster, dirs: SimulatedLogDirs
) -> None:
    approved.hold()
    dirs.refused = {approved.written.plan.moves[0].replica.topic_partition}
    with pytest.raises(AirflowFailException, match=r"refused 1 of 2 copies.*KafkaStorageError"):
        approved.move()
    assert len(dirs.future) == 1
    assert approved.release()["cancelled"] == 1
    assert (dirs.future, log_dir_rates(cluster), cluster.leftovers()) == ({}, {}, [])
    with pytest.raises(AirflowFailException, match="VerificationError"):
        approved.verify()


def test_a_disk_that_fails_meanwhile_or_has_no_room_left_stops_the_requests(
    approved: LogDirRun, dirs: SimulatedLogDirs
) -> None:
    approved.hold()
    dirs.usable_bytes = 100 * SIZE_BYTES
    with pytest.raises(ClusterNotReadyError, match="4 replicas wait, and none has room"):
        approved.move()
    dirs.offline.add((2, "/b"))
    with pytest.raises(ClusterNotReadyError, match="log dir /b is offline"):
        approved.move()
    assert dirs.asked == []


def test_a_replica_that_leaves_the_broker_meanwhile_is_no_failure(approved: LogDirRun, dirs: SimulatedLogDirs) -> None:
    approved.hold()
    approved.move()
    gone = next(iter(dirs.future))
    del dirs.paths[gone], dirs.future[gone]
    to_the_end(approved, dirs)
    assert json_files.read_json(approved.folder, json_files.VERIFICATION)["passed"]
    assert [one["severity"] for one in approved.verification["checks"]].count("warning") == 1


def test_a_run_without_its_lease_or_its_lock_requests_nothing(
    approved: LogDirRun, cluster: SimulatedCluster, dirs: SimulatedLogDirs
) -> None:
    approved.hold()
    approved.release()
    with pytest.raises(AirflowFailException, match="LockHeldError"):
        approved.move()
    ZooKeeperLock(cluster.fake).acquire(OTHER)
    with pytest.raises(AirflowFailException, match="LockHeldError"):
        approved.move()
    assert dirs.asked == []


def test_copies_of_others_keep_rate_and_lock_until_they_have_ended(
    approved: LogDirRun, cluster: SimulatedCluster, dirs: SimulatedLogDirs
) -> None:
    approved.hold()
    move = approved.written.plan.moves[0]
    dirs.future[move.replica] = "/b" if move.after == "/c" else "/c", 0
    with pytest.raises(AirflowFailException, match="StaleProposalError"):
        approved.move()
    with pytest.raises(ThrottleError, match="Copies are still in flight"):
        approved.release()
    assert log_dir_rates(cluster) == {2: "100000000"}
    dirs.future.clear()
    approved.release()
    assert (log_dir_rates(cluster), cluster.leftovers()) == ({}, [])


def test_copies_that_stall_are_cancelled_and_the_next_try_asks_for_them_anew(
    approved: LogDirRun, dirs: SimulatedLogDirs
) -> None:
    approved.hold()
    approved.move()
    stalled = set(dirs.future)
    with pytest.raises(ExecutionError, match="have not grown"):
        approved.move(BatchSeen(BatchState.STALLED, 0, "2 copies have not grown for 1801 s."))
    assert dirs.future == {}
    approved.move()
    assert set(dirs.future) == stalled
    to_the_end(approved, dirs)


def history() -> dict[str, Any]:
    """The ledger's one row."""
    (row,) = ledger.read(airflow_deployment(), "log_dirs", CONNECTION, 1).rows
    return row


def test_the_ledger_says_how_a_run_ended(approved: LogDirRun, dirs: SimulatedLogDirs) -> None:
    approved.hold()
    approved.move()
    dirs.paths |= {replica: path for replica, (path, _) in dirs.future.items()}
    dirs.future.clear()
    approved.release()
    with pytest.raises(AirflowFailException, match="VerificationError"):
        approved.verify()
    row = history()
    assert (row["run_id"], row["job"], row["verified"]) == (approved.dag_run.run_id, "drain", False)
    assert (row["requested_by"], row["approved_by"], row["brokers"]) == ("olive", "uma", [2])
    assert (row["replicas"], row["in_place"]) == (4, 2)
    assert (row["predicted_bytes"], row["copied_bytes"]) == (4 * SIZE_BYTES, 2 * SIZE_BYTES)
    assert row["began_at"] <= row["ended_at"]
    approved.hold()
    to_the_end(approved, dirs)
    assert (history()["verified"], history()["in_place"]) == (True, 4)


def test_the_ledger_has_a_row_of_a_run_whose_brokers_cannot_be_read_at_its_end(
    approved: LogDirRun, cluster: SimulatedCluster
) -> None:
    cluster.silent.add(2)
    with pytest.raises(ReadError):
        approved.verify()
    row = history()
    assert (row["verified"], row["in_place"], row["copied_bytes"], row["began_at"]) == (False, None, None, None)
