"""A whole rebalance with runs in a bucket and Spark on a standalone cluster of two workers. Nothing else is shared."""

from __future__ import annotations

import json
import sys
import tempfile
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from upath import UPath

from bench.spark.standalone_cluster import StandaloneCluster
from demo.local_airflow import LocalAirflow
from demo.runs import DagRun, trigger, wait_for_dag
from kafka_rebalance.documents.json_files import PROPOSALS, SETTINGS, VERIFICATION, read_json
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.local_cluster.machine.java import find_java, java_home
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.planner import run as plan_here
from support.spark.worker_programs import write_program
from support.storage.s3_server import BUCKET, S3Server, s3_server

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]
RUNS = f"{BUCKET}/runs"
PYTHON = "python-of-the-executors"
PATIENCE_SECONDS = 600  # brokers, Airflow and a Spark cluster share the cores of this machine
CLUSTER = "kafka_bucket"
ASKED = {"kafka_conn_id": CLUSTER, "reason": "two empty brokers"}


@dataclass(frozen=True, slots=True)
class Topology:
    airflow: LocalAirflow
    s3: S3Server
    workers: list[Path]  # the folder of each worker's programs

    def folder(self, run: DagRun) -> Any:
        """The run's folder, as another client sees it."""
        url = str(run.xcom("snapshot", "run_folder"))
        assert url.startswith(f"s3://store@{RUNS}/")
        return UPath(url.replace("store@", ""), **self.s3.options())


@pytest.fixture(scope="module")
def topology(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topology]:
    """Each process has a temporary folder of its own. Airflow has no credentials but those of its connection."""
    place = tmp_path_factory.mktemp("topology")
    workers = [place / "worker-0", place / "worker-1"]
    environment = {
        "JAVA_HOME": str(java_home()),
        "PATH": f"{find_java().parent}:/usr/bin:/bin",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "TMPDIR": tempfile.mkdtemp(dir=place),
    }
    for folder in workers:
        write_program(folder, PYTHON, sys.executable)
    with (
        s3_server(place) as s3,
        LocalCluster(brokers=4, racks=3) as cluster,
        StandaloneCluster(place, environment, [[folder] for folder in workers]) as spark,
    ):
        cluster.create_topic("orders", dict.fromkeys(range(6), (1, 2)))
        cluster.produce("orders", {number: 400_000 * (1 + number) for number in range(6)})
        master, _, port = spark.url.rpartition(":")
        airflow = LocalAirflow(
            place / "airflow",
            connections={
                CLUSTER: {
                    "conn_type": "kafka_zookeeper",
                    "host": cluster.zookeeper,
                    "extra": {"bootstrap_servers": cluster.bootstrap_servers},
                },
                "store": s3.connection(),
                "spark_default": {"conn_type": "spark", "host": master, "port": int(port)},
            },
            env={
                "AIRFLOW__KAFKA_REBALANCE__RUNS_URL": f"s3://store@{RUNS}",
                "PYSPARK_PYTHON": PYTHON,
                "SPARK_LOCAL_IP": "127.0.0.1",
                "AWS_EC2_METADATA_DISABLED": "true",
            },
        )
        airflow.write_policy(
            CLUSTER, "approvers: [uma]\nmax_bytes_share: 0.9\nmax_throttle_bytes_per_second: 40000000\n"
        )
        with airflow:
            yield Topology(airflow, s3, workers)


def test_the_task_names_the_executor_that_lacks_something_in_one_line(topology: Topology, tmp_path: Path) -> None:
    requester = topology.airflow.login("olive")
    wait_for_dag(requester, "kafka_rebalance")
    venv.create(tmp_path / "bare", symlinks=True)
    write_program(topology.workers[1], PYTHON, str(tmp_path / "bare" / "bin" / "python"))
    run = trigger(requester, "kafka_rebalance", ASKED)
    try:
        assert run.wait_for_end(timeout=PATIENCE_SECONDS) == "failed"
    finally:
        write_program(topology.workers[1], PYTHON, sys.executable)
    assert run.tasks()["plan"] == "failed"
    log = run.log("plan")
    (told,) = [line for line in log.splitlines() if "AirflowFailException: SparkError: " in line]
    assert f"{PYTHON} has no numpy, pyarrow, upath, s3fs. Nothing was computed." in told
    assert "\tat " not in log, "a page of Java"


def test_a_rebalance_goes_from_trigger_to_verification(topology: Topology, tmp_path: Path) -> None:
    airflow, s3 = topology.airflow, topology.s3
    requester, approver = airflow.login("olive"), airflow.login("uma")
    wait_for_dag(requester, "kafka_rebalance")
    run = trigger(requester, "kafka_rebalance", ASKED)
    request = run.wait_for_request(timeout=PATIENCE_SECONDS)
    folder = topology.folder(run)
    settings = Settings.from_mapping(read_json(folder, SETTINGS))
    (tmp_path / "snapshot").mkdir()
    for file in (folder / "snapshot").iterdir():
        (tmp_path / "snapshot" / file.name).write_bytes(file.read_bytes())
    history = (folder / "history" / "part-0.parquet").read_bytes()
    plan_here(tmp_path / "snapshot", tmp_path / "out", settings, history=history)
    for name in (PROPOSALS, "moves/part-0.parquet", "scores/part-0.parquet"):
        assert (folder / name).read_bytes() == (tmp_path / "out" / name).read_bytes(), name
    page = requester.get(f"/kafka-rebalance/run/kafka_rebalance/{quote(run.run_id, safe='')}")
    assert page.status_code == 200
    assert "orders" in page.text

    choice = next(option for option in request["options"] if not option.startswith("Reject"))
    run.seen_by(approver).answer(choice, throttle_bytes_per_second=20_000_000).raise_for_status()
    assert run.wait_for_end(timeout=PATIENCE_SECONDS) == "success", run.failures()
    assert read_json(folder, VERIFICATION)["passed"] is True
    left = [file for file in airflow.home.rglob("*") if file.is_file()]
    assert not airflow.runs.exists() or not any(airflow.runs.iterdir())
    assert not any(s3.secret.encode() in file.read_bytes() for file in left)
    bucket = UPath(f"s3://{BUCKET}", **s3.options())
    names = bucket.fs.find(bucket.path)
    assert any("/ledger/outcomes/" in name for name in names)
    assert not any(s3.secret.encode() in bucket.fs.cat_file(name) for name in names)
    assert "s3://store@" not in json.dumps(run.log("plan")).partition("Spark-Submit cmd")[2][:2000]
