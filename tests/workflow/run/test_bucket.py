"""Runs in a bucket of a real S3 server: a whole rebalance, and what several workers do at the same time.

The store has no locks and no way to append. What it must do is in docs/install.md: what was written is read and listed
at once, and a file is written whole.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from upath import UPath

from kafka_rebalance.documents import json_files, storage
from kafka_rebalance.documents.throttle_lease import ThrottleLease
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning import planner
from kafka_rebalance.run import ledger
from kafka_rebalance.run.inputs import Deployment
from kafka_rebalance.run.run_folder import attempts, create_run_folder, folder_of_run
from kafka_rebalance.throttle import lease_files
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from support.runs import rebalance_run
from support.runs.rebalance_run import CONNECTION, open_lease
from support.runs.simulated_cluster import RATE, TOPICS, SimulatedCluster, SimulatedRun
from support.storage.s3_server import S3Server

CLUSTER = "simulated-cluster-0001"
ROUNDS = 6


class BucketRun(SimulatedRun):
    @property
    def folder(self) -> Any:
        return airflow_deployment().open_folder(self.xcom["run_folder"])


@pytest.fixture
def workers(s3: S3Server, bucket: str) -> tuple[Deployment, Deployment]:
    """Two workers: each with a client of its own, which remembers what it has listed."""
    return worker(s3, bucket, 3600), worker(s3, bucket, 7200)


def worker(s3: S3Server, url: str, remembers_seconds: int) -> Deployment:
    """fsspec shares a client between all that give it the same options."""

    def open_folder(place: str) -> Any:
        return UPath(place.replace("store@", ""), **s3.options(), listings_expiry_time=remembers_seconds)

    return replace(airflow_deployment(), runs_root=open_folder(url), open_folder=open_folder)


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """Their results. None begins before all can."""
    ready = threading.Barrier(len(calls))

    def call(one: Callable[[], Any]) -> Any:
        ready.wait(30)
        return one()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(call, calls))


def lease(number: int, released_at: str | None = None) -> ThrottleLease:
    generation = f"{1:016x}-{number:010d}"
    return ThrottleLease(
        run=f"kafka_rebalance/{number}",
        candidate_digest="d",
        bytes_per_second=number,
        wanted={},
        prior={},
        cluster_id=CLUSTER,
        generation=generation,
        released_at=released_at,
    )


def test_a_run_in_a_bucket_goes_from_snapshot_to_ledger(
    tmp_path: Any, s3: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = SimulatedCluster(monkeypatch, TOPICS)
    run = BucketRun(tmp_path, cluster, monkeypatch)
    monkeypatch.setenv("AIRFLOW__KAFKA_REBALANCE__RUNS_URL", bucket)

    def plan(folder: Any, settings: Settings) -> None:
        planner.run(folder / json_files.SNAPSHOT_FOLDER, folder, settings)

    monkeypatch.setattr(rebalance_run, "plan_once", plan)
    run.plan(job="drain", drain=[2], topics_out=["idle"])
    run.approve("light", RATE)
    run.hold()
    assert open_lease(CLUSTER) is not None
    assert run.reassign() > 0
    assert run.finish()["passed"] is True
    assert open_lease(CLUSTER) is None
    assert cluster.leftovers() == []
    assert b"<html" in storage.read_bytes(run.folder / "report.html")
    (row,) = ledger.read(airflow_deployment(), "outcomes", CONNECTION, 1).rows
    assert row["verified"] is True
    assert not (tmp_path / "runs").exists(), "something went to a local folder"
    everything = UPath(bucket.replace("store@", ""), **s3.options())
    assert not any(s3.secret.encode() in storage.read_bytes(file) for file in everything.rglob("*") if file.is_file())


def test_what_one_worker_writes_another_reads_and_lists_at_once(workers: Sequence[Deployment]) -> None:
    one, two = workers
    for number in range(ROUNDS):
        storage.names_in(two.runs_root / "batches")  # which its client now remembers
        assert not storage.is_there(two.runs_root / "batches" / f"{number}.json")
        storage.write_whole(one.runs_root / "batches" / f"{number}.json", b"1")
        storage.write_whole(one.runs_root / "progress.json", b"%d" % number)
        assert storage.read_bytes(two.runs_root / "progress.json") == b"%d" % number
        assert f"{number}.json" in storage.names_in(two.runs_root / "batches")
        storage.remove(one.runs_root / "batches" / f"{number}.json")
        assert storage.read_if_there(two.runs_root / "batches" / f"{number}.json") is None
        assert storage.names_in(two.runs_root / "batches") == []


def test_a_folder_is_removed_with_all_that_is_in_it_and_its_files_tell_their_age(workers: Sequence[Deployment]) -> None:
    one, two = workers
    began = datetime.now(UTC) - timedelta(minutes=1)  # S3 tells whole seconds, by its own clock
    for name in ("kept.json", "run/1/nonce.json", "run/1/moves/part-0.parquet"):
        storage.write_whole(one.runs_root / name, b"1")
    assert began < storage.modified_at(two.runs_root / "run" / "1" / "nonce.json") < began + timedelta(minutes=5)
    storage.remove_folder(two.runs_root / "run" / "1" / "nonce.json")
    assert storage.names_in(one.runs_root / "run" / "1") == ["moves"]
    storage.remove_folder(two.runs_root / "run")
    storage.remove_folder(two.runs_root / "run")  # which is gone
    assert storage.names_in(one.runs_root) == ["kept.json"]


def test_a_file_that_is_written_again_is_never_read_in_parts(workers: Sequence[Deployment]) -> None:
    one, two = workers
    texts = [bytes([number]) * 100_000 for number in range(ROUNDS)]
    storage.write_whole(one.runs_root / "progress.json", texts[0])

    def write() -> None:
        for text in texts:
            storage.write_whole(one.runs_root / "progress.json", text)

    def read() -> list[bytes]:
        return [storage.read_bytes(two.runs_root / "progress.json") for _ in range(2 * ROUNDS)]

    _, found = at_once(write, read)
    assert set(found) <= set(texts)
    assert sorted(found) == found, "an older text was read after a newer one"


def test_of_two_writers_of_a_lease_the_later_under_the_fence_counts_for_everybody(
    workers: Sequence[Deployment],
) -> None:
    for number in range(1, 2 * ROUNDS, 2):
        earlier, later = lease(number), lease(number + 1)
        one, two = workers if number % 4 == 1 else reversed(workers)
        at_once(lambda: lease_files.write(one, earlier), lambda: lease_files.write(two, later))  # noqa: B023
        assert [lease_files.read(worker, CLUSTER) for worker in workers] == [later, later]


def test_a_worker_that_wakes_late_does_not_bring_an_earlier_lease_back(workers: Sequence[Deployment]) -> None:
    one, two = workers
    lease_files.write(one, lease(1))
    given_back = lease(5, released_at="2026-11-14T02:15:00+00:00")
    lease_files.write(two, given_back)
    lease_files.remove_before(two, given_back)
    lease_files.write(one, lease(2))  # it had stood still since before the fence was raised
    assert [lease_files.read(worker, CLUSTER) for worker in workers] == [given_back, given_back]
    assert [found.lease for found in lease_files.stored(one)] == [given_back]


def test_a_lease_is_read_while_its_earlier_files_are_removed(workers: Sequence[Deployment]) -> None:
    one, two = workers
    lease_files.write(one, lease(1))

    def give_back() -> None:
        for number in range(2, ROUNDS):
            lease_files.write(one, lease(number))
            lease_files.remove_before(one, lease(number))

    def read() -> list[int]:
        return [lease_files.read(two, CLUSTER).bytes_per_second for _ in range(2 * ROUNDS)]

    _, found = at_once(give_back, read)
    assert sorted(found) == found, "an earlier lease was read after a later one"


def test_a_cleared_task_begins_an_attempt_that_every_worker_lists(workers: Sequence[Deployment]) -> None:
    one, two = workers
    run: Any = type("Run", (), {"dag_id": "kafka_rebalance", "run_id": "manual__1"})
    for number in range(1, 4):
        assert attempts(folder_of_run(two, CONNECTION, run.run_id)) == list(range(1, number))
        folder, _ = create_run_folder(one, CONNECTION, run)
        assert folder.name == str(number)
    assert attempts(folder_of_run(two, CONNECTION, run.run_id)) == [1, 2, 3]
