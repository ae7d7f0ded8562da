"""The planning job on a real Spark standalone cluster: the same bytes as without Spark, and executors that cannot."""

from __future__ import annotations

import platform
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.spark.standalone_cluster import StandaloneCluster
from kafka_rebalance.documents.json_files import write_json
from kafka_rebalance.local_cluster.machine.java import SHORT_JOBS
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.planner import run
from kafka_rebalance.spark import job
from support.spark.run_inputs import RESULTS, write_inputs
from support.spark.worker_programs import workers_with, write_program

pytestmark = pytest.mark.long

JOB = job.__file__
EVERYWHERE, UNEVEN = "python-everywhere", "python-uneven"  # what PYSPARK_PYTHON names; each worker has its own
ENDS = 240.0  # seconds

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture(scope="module")
def standalone(
    tmp_path_factory: pytest.TempPathFactory, spark_environment: Mapping[str, str]
) -> Iterator[StandaloneCluster]:
    """Two workers. Both have the Python of these tests by one name. By another, one has a bare Python, one nothing."""
    folder = tmp_path_factory.mktemp("standalone")
    workers = workers_with(folder, EVERYWHERE, sys.executable)
    venv.create(folder / "bare", symlinks=True)
    write_program(workers[0], UNEVEN, str(folder / "bare" / "bin" / "python"))
    with StandaloneCluster(folder, spark_environment, [[programs] for programs in workers]) as running:
        yield running


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_inputs(tmp_path_factory.mktemp("run"))


def submitted(start: Start, cluster: StandaloneCluster, python: str, inputs: Path, out: Path) -> tuple[int, str]:
    """(exit code, what was said) of the job in client mode."""
    where = ("--snapshot", str(inputs / "snapshot"), "--out", str(out), "--metrics", str(inputs / "metrics"))
    process = start(
        JOB,
        *where,
        *("--settings", str(inputs / "settings.json")),
        options={
            "--master": cluster.url,
            "--executor-memory": "512m",
            "--driver-java-options": f"'-Dspark.executor.extraJavaOptions={SHORT_JOBS}'",
        },
        environment={"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": sys.executable},
    )
    try:
        said = "".join(process.communicate(timeout=ENDS))
    finally:
        process.kill()
    return process.returncode, said


def test_workers_of_a_standalone_cluster_give_the_same_bytes_as_planning_without_spark(
    start_submit: Start, standalone: StandaloneCluster, inputs: Path, tmp_path: Path
) -> None:
    settings = Settings(seed=2)
    write_json(inputs, "settings.json", settings.to_mapping())
    code, said = submitted(start_submit, standalone, EVERYWHERE, inputs, tmp_path / "there")
    assert code == 0, said
    history = (tmp_path / "there" / "history" / "part-0.parquet").read_bytes()
    assert pq.read_table(pa.BufferReader(history)).num_rows == 40
    run(inputs / "snapshot", tmp_path / "here", settings, history=history)
    for name in RESULTS:
        assert (tmp_path / "there" / name).read_bytes() == (tmp_path / "here" / name).read_bytes(), name
    assert f"python {platform.python_version()}" in said


def test_executors_that_cannot_run_the_job_are_named_with_what_they_lack_in_one_line(
    start_submit: Start, standalone: StandaloneCluster, inputs: Path, tmp_path: Path
) -> None:
    write_json(inputs, "settings.json", {})
    code, said = submitted(start_submit, standalone, UNEVEN, inputs, tmp_path / "out")
    assert code == 2, said
    (line,) = [line for line in said.splitlines() if "Error" in line]
    host = platform.node()
    assert line.startswith("SparkError: Spark's executors cannot run this job. ")
    assert f"{host}: {UNEVEN} has no numpy, pyarrow" in line
    assert f"{host}: no Python starts as {UNEVEN}" in line
    assert "Nothing was computed. Install Python 3." in line
    assert "\tat " not in said, "a page of Java"
    assert not (tmp_path / "out" / "proposals.json").exists()
