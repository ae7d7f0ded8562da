"""Clusters of 20,000 and 150,000 partitions: Spark's plan has the same bytes as one without it, on any executors."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from bench.clusters import write_cluster
from bench.spark.standalone_cluster import StandaloneCluster
from kafka_rebalance.documents.json_files import write_json
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.planner import run
from kafka_rebalance.spark import job
from support.spark.run_inputs import RESULTS
from support.spark.worker_programs import workers_with

pytestmark = pytest.mark.long

PYTHON = "python-everywhere"  # what PYSPARK_PYTHON names
ENDS = 1_200.0  # seconds
SEED = 11

Start = Callable[..., subprocess.Popen[str]]

MASTERS = ("local[1]", "local[2]", "local[8]", "standalone")


@pytest.fixture(scope="module")
def standalone(
    tmp_path_factory: pytest.TempPathFactory, spark_environment: Mapping[str, str]
) -> Iterator[StandaloneCluster]:
    """Two workers."""
    folder = tmp_path_factory.mktemp("standalone")
    workers = workers_with(folder, PYTHON, sys.executable)
    with StandaloneCluster(folder, spark_environment, [[programs] for programs in workers]) as running:
        yield running


@pytest.fixture(scope="module", params=["M", "L"])
def planned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `snapshot/`, `settings.json`, and in `here/` the plan that this process made of them."""
    folder = tmp_path_factory.mktemp(request.param)
    write_cluster(folder / "snapshot", request.param, "skew", SEED)
    settings = Settings()
    write_json(folder, "settings.json", settings.to_mapping())
    run(folder / "snapshot", folder / "here", settings)
    return folder


@pytest.mark.parametrize("master", MASTERS)
def test_any_executors_give_the_same_bytes_as_planning_without_spark(
    planned: Path, master: str, standalone: StandaloneCluster, start_submit: Start, tmp_path: Path
) -> None:
    where = ("--snapshot", str(planned / "snapshot"), "--out", str(tmp_path / "there"))
    process = start_submit(
        job.__file__,
        *where,
        *("--settings", str(planned / "settings.json")),
        options={
            "--master": standalone.url if master == "standalone" else master,
            "--driver-memory": "1g",
            "--executor-memory": "1g",
        },
        environment={"PYSPARK_PYTHON": PYTHON if master == "standalone" else sys.executable}
        | {"PYSPARK_DRIVER_PYTHON": sys.executable},
    )
    try:
        said = "".join(process.communicate(timeout=ENDS))
    finally:
        process.kill()
    assert process.returncode == 0, said
    for name in RESULTS:
        assert (tmp_path / "there" / name).read_bytes() == (planned / "here" / name).read_bytes(), name
