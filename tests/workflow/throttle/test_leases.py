"""The lease of a cluster's throttle: what it survives, and whom it keeps away. The cluster is simulated."""

from __future__ import annotations

import dataclasses
import errno
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import ObjectStoragePath
from airflow.sdk.exceptions import AirflowFailException
from airflow.sdk.io import attach
from fsspec.implementations.memory import MemoryFileSystem
from kazoo.exceptions import ConnectionLoss

from kafka_rebalance.cancel.set_throttle import change_rate
from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ArtifactError, LockLostError, StorageError, ThrottleError, WriteError
from kafka_rebalance.model.digests import canonical_json
from kafka_rebalance.run.approved_plan import read_left_out
from kafka_rebalance.run.run_folder import installation
from kafka_rebalance.run.stop_and_cancel_requests import read_control
from kafka_rebalance.throttle import hold_throttle, lease_files, release_throttle
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.zookeeper import config_writes
from support.runs.rebalance_run import open_lease
from support.runs.simulated_cluster import RATE, SimulatedCluster, SimulatedRun, approved_run, lease_file

LOCK = "/kafka_rebalance/run"
CLUSTER = "simulated-cluster-0001"


def test_a_lease_names_owner_cluster_and_folder_and_lies_apart_from_the_run(run: SimulatedRun, tmp_path: Path) -> None:
    run.hold()
    file = lease_file(tmp_path / "runs")
    document = json_files.read_json(file.parent, file.name)
    assert (document["run"], document["cluster_id"], document["connection_id"]) == (
        "kafka_rebalance/one",
        CLUSTER,
        "kafka_in_process",
    )
    assert document["run_folder"] == str(run.folder)
    assert installation(airflow_deployment()) in document["owner"]
    assert (document["bytes_per_second"], document["released_at"]) == (RATE, None)
    assert json_files.read_json(run.folder, json_files.THROTTLE) == document, "the page's copy"
    shutil.rmtree(run.folder)
    lease = open_lease(CLUSTER)
    assert lease is not None
    assert lease.to_mapping() == {key: document[key] for key in lease.to_mapping()}


def test_a_run_after_a_deleted_one_is_refused_and_never_takes_our_throttle_for_what_was_there_before(
    run: SimulatedRun, cluster: SimulatedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = approved_run(tmp_path, cluster, monkeypatch, "two")
    run.hold()
    shutil.rmtree(run.folder.parent)  # with the run itself: nothing of Airflow knows what was there before
    cluster.fake.delete(LOCK)  # and somebody took the lock away by hand
    before, kept = cluster.throttles(), lease_files.read(airflow_deployment(), CLUSTER)
    with pytest.raises(AirflowFailException, match=r"LockHeldError: Run kafka_rebalance/one of .* not given it back"):
        second.hold()
    assert cluster.throttles() == before
    assert lease_files.read(airflow_deployment(), CLUSTER) == kept
    assert LOCK not in cluster.fake.znodes, "who is refused keeps nothing"


def test_a_run_that_was_killed_between_lease_and_first_config_goes_on_where_it_was(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.fake.put_json("/config/brokers/1", {"version": 1, "config": {"leader.replication.throttled.rate": "77"}})

    class Killed(BaseException):
        pass

    def die(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(config_writes, "merge_config", die)
        patched.setattr(hold_throttle, "_undo", lambda *_, **__: None)  # nobody undoes anything after kill -9
        with pytest.raises(Killed):
            run.hold()
    first = open_lease(CLUSTER)
    assert first is not None
    run.hold()
    held = open_lease(CLUSTER)
    assert held is not None
    assert held.prior == first.prior
    assert held.prior["brokers/1"]["leader.replication.throttled.rate"] == "77"
    run.release()
    assert cluster.throttles() == {"brokers/1": {"leader.replication.throttled.rate": "77"}}


def test_a_second_run_may_hold_once_the_first_has_given_back(
    run: SimulatedRun, cluster: SimulatedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = approved_run(tmp_path, cluster, monkeypatch, "two")
    run.hold()
    run.release()
    second.hold()
    lease = open_lease(CLUSTER)
    assert lease is not None
    assert lease.run == "kafka_rebalance/two"
    assert {value for values in lease.prior.values() for value in values.values()} == {None}
    second.release()
    assert cluster.leftovers() == []


def test_two_airflows_with_runs_of_one_name_cannot_have_one_cluster(
    run: SimulatedRun, cluster: SimulatedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have no address configured, and the same run id; what they do not share is the folder of runs."""
    run.hold()
    (tmp_path / "elsewhere").mkdir()
    before = cluster.tree()
    with monkeypatch.context() as patched:
        other = approved_run(tmp_path / "elsewhere", cluster, patched)
        with pytest.raises(AirflowFailException, match=r"LockHeldError: .* held by run kafka_rebalance/one of airflow"):
            other.hold()
    assert cluster.tree() == before


def test_a_lease_that_cannot_be_read_stops_a_run_before_it_writes(
    run: SimulatedRun, cluster: SimulatedCluster, tmp_path: Path
) -> None:
    (tmp_path / "runs" / "leases").mkdir()
    (tmp_path / "runs" / "leases" / f"{CLUSTER}.json").write_text('{"format_version": 1, "run": 7}')
    with pytest.raises(
        AirflowFailException,
        match=rf"ArtifactError: .*leases/{CLUSTER}\.json: run: Expected str, got int. No throttle was changed",
    ):
        run.hold()
    assert cluster.throttles() == {}
    (found,) = lease_files.stored(airflow_deployment())
    assert found.lease is None
    assert "run: Expected str, got int" in found.problem


def test_a_lease_is_written_whole_or_not_at_all(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.hold()
    kept = lease_files.read(airflow_deployment(), CLUSTER)

    def full(_: int) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        with pytest.raises(StorageError, match=r"leases/.* cannot be written"):
            run.release()
    assert lease_files.read(airflow_deployment(), CLUSTER) == kept
    kept_in = lease_file(run.folder.parents[2])
    assert list(kept_in.parent.iterdir()) == [kept_in]
    run.release()  # safe to repeat
    assert cluster.leftovers() == []


@pytest.mark.parametrize("task", ["hold", "request", "release"])
def test_storage_that_is_away_for_one_read_costs_a_task_one_retry(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    """Whichever of its reads it is: no failure of them is final."""
    if task != "hold":
        run.hold()
    root, left, tried = run.folder.parents[2], [0], 0

    def once(real: Any) -> Any:
        def read(path: Path) -> Any:
            if path.is_relative_to(root):
                left[0] -= 1
                if left[0] == 0:
                    raise OSError(errno.EIO, "away")
            return real(path)

        return read

    with monkeypatch.context() as patched:
        for name in ("read_bytes", "iterdir"):
            patched.setattr(Path, name, once(getattr(Path, name)))
        while left[0] <= 0:
            tried += 1
            left[0] = tried
            with suppress(StorageError, OSError):  # not AirflowFailException
                getattr(run, task)()
    assert tried > 8
    if task == "request":
        run.reassign()
    run.release()
    assert cluster.leftovers() == []


def test_a_lost_connection_while_it_is_put_back_leaves_the_lease_open(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    run.hold()
    for _ in range(5):
        cluster.fake.fail_next("set", "/config/topics/orders", took_effect=False, error=ConnectionLoss())
    with pytest.raises(WriteError, match="whether it was written is unknown"):
        run.release()
    assert open_lease(CLUSTER) is not None
    assert LOCK in cluster.fake.znodes
    run.release()
    assert open_lease(CLUSTER) is None
    assert cluster.leftovers() == []


def test_a_run_that_takes_its_throttle_again_while_it_is_put_back_keeps_its_lease(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.hold()
    lease = open_lease(CLUSTER)
    assert lease is not None
    given = dataclasses.replace(lease, handed_over_at="2026-11-21T00:00:00+00:00")
    lease_files.write(airflow_deployment(), given)

    real = release_throttle.write_back

    def begin(*arguments: Any) -> Any:
        run.hold()  # somebody has cleared the run
        return real(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(release_throttle, "write_back", begin)
        with pytest.raises(ThrottleError, match="took its throttle again"):
            release_throttle.put_back(cluster.lease(), given)
    assert open_lease(CLUSTER) is not None
    run.hold()
    run.release()
    assert cluster.leftovers() == []


def test_a_lease_of_a_version_that_had_one_file_a_cluster_is_put_back_and_its_file_goes(
    run: SimulatedRun, cluster: SimulatedCluster, tmp_path: Path
) -> None:
    run.hold()
    file = lease_file(tmp_path / "runs")
    document = json_files.read_json(file.parent, file.name)
    for name in ("generation", "taken_under"):
        del document[name]
    shutil.rmtree(file.parent)
    file.parent.with_suffix(".json").write_bytes(canonical_json(document))
    assert [stored.lease.run for stored in lease_files.stored(airflow_deployment()) if stored.lease is not None] == [
        "kafka_rebalance/one"
    ]
    run.release()
    assert cluster.leftovers() == []
    assert open_lease(CLUSTER) is None
    assert not file.parent.with_suffix(".json").exists()


def test_the_next_lease_is_the_latest_also_where_somebody_has_deleted_the_fence(
    run: SimulatedRun, cluster: SimulatedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = approved_run(tmp_path, cluster, monkeypatch, "two")
    run.hold()
    run.release()
    cluster.fake.delete("/kafka_rebalance", recursive=True)
    second.hold()
    lease = open_lease(CLUSTER)
    assert lease is not None
    assert lease.run == "kafka_rebalance/two"
    assert second.request() is not None


def test_each_change_of_a_lease_is_a_file_of_its_own(
    run: SimulatedRun, cluster: SimulatedCluster, tmp_path: Path
) -> None:
    run.hold()
    files = [lease_file(tmp_path / "runs")]
    change_rate(airflow_deployment(), run.folder, RATE + 1, by="olive")
    files.append(lease_file(tmp_path / "runs"))
    run.request()
    cluster.step()
    with pytest.raises(ThrottleError, match="still in flight"):
        run.release()
    files.append(lease_file(tmp_path / "runs"))
    assert files == sorted(set(files))
    assert sorted(files[0].parent.iterdir()) == files
    assert [json_files.read_json(file.parent, file.name)["handed_over_at"] for file in files[:2]] == [None, None]


def test_leases_that_were_given_back_do_not_pile_up(
    run: SimulatedRun, cluster: SimulatedCluster, tmp_path: Path
) -> None:
    for _ in range(3):
        run.hold()
        change_rate(airflow_deployment(), run.folder, RATE + 1, by="olive")
        run.release()
    file = lease_file(tmp_path / "runs")
    assert list(file.parent.iterdir()) == [file]
    assert json_files.read_json(file.parent, file.name)["released_at"]


def test_leases_are_found_in_a_bucket_also_those_that_others_have_written_since(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.hold()
    lease = open_lease(CLUSTER)
    assert lease is not None
    attach("memory", fs=MemoryFileSystem())
    monkeypatch.setenv("AIRFLOW__KAFKA_REBALANCE__RUNS_URL", "memory://leases-of-a-bucket")
    assert lease_files.read(airflow_deployment(), CLUSTER) is None
    assert lease_files.stored(airflow_deployment()) == ()
    lease_files.write(airflow_deployment(), lease)
    later = dataclasses.replace(lease, generation=f"{'f' * 16}-{0:010d}", released_at=lease.taken_at)
    lease_files.write(airflow_deployment(), later)
    assert not lease_files.is_latest(airflow_deployment(), lease)
    assert lease_files.read(airflow_deployment(), CLUSTER) == later
    lease_files.remove_before(airflow_deployment(), later)
    assert [stored.lease for stored in lease_files.stored(airflow_deployment())] == [later]


class Broken(MemoryFileSystem):  # type: ignore[misc]
    """A storage that is away, and that says of everything that it does not exist, as fsspec does then."""

    def _raise(self, *_: object, **__: object) -> None:
        raise OSError("the storage is away")

    info = ls = _open = cat_file = _raise


def test_a_storage_that_is_away_is_not_one_without_leases(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or the next run would record our own throttle as what was there before."""
    attach("memory", "broken", fs=Broken())
    away = ObjectStoragePath("memory://broken@runs")
    monkeypatch.setenv("AIRFLOW__KAFKA_REBALANCE__RUNS_URL", str(away))
    assert not away.exists()
    for ask in (
        lambda: lease_files.read(airflow_deployment(), CLUSTER),
        lambda: lease_files.stored(airflow_deployment()),
    ):
        with pytest.raises(ArtifactError, match="the storage is away"):
            ask()
    with pytest.raises(ArtifactError, match=r"cannot be read \(the storage is away\)"):
        # Else this Airflow would take another name, and its own locks for those of another.
        installation(airflow_deployment())
    for read in (read_control, lambda folder: read_left_out(folder, run.candidate)):
        with pytest.raises(ArtifactError, match="the storage is away"):
            read(away)


def test_a_zookeeper_that_was_set_back_is_told_before_anything_is_set(
    run: SimulatedRun, cluster: SimulatedCluster, tmp_path: Path
) -> None:
    """A lease of its later life is there, so a new one would not count: nobody could put its throttle back."""
    run.hold()
    run.release()
    file = lease_file(tmp_path / "runs")
    file.rename(file.with_name(f"{'f' * 16}-{0:010d}.json"))
    with pytest.raises(
        LockLostError, match=r"restored from a backup: remove the files later than [0-9a-f]{16}-[0-9]{10}"
    ):
        run.hold()
    assert cluster.throttles() == {}


def test_no_lease_is_written_that_could_not_be_read_again(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    run.hold()
    lease = open_lease(CLUSTER)
    assert lease is not None
    with pytest.raises(ArtifactError, match="bytes_per_second: Expected int, got float"):
        lease_files.write(airflow_deployment(), dataclasses.replace(lease, bytes_per_second=5.0))  # type: ignore[arg-type]
    assert open_lease(CLUSTER) == lease
