"""The real spark-submit, as the tests of both jobs run it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from kafka_rebalance.spark import package_zip
from local_cluster.java import SHORT_JOBS, find_java, java_home

# (job, *its arguments, options=spark-submit's, environment=what is added to it)
Submit = Callable[..., subprocess.Popen[str]]


@pytest.fixture(scope="session")
def spark_environment() -> dict[str, str]:
    """What Spark's launcher is started with: this Python, the Java of these tests, and no path to this checkout."""
    java = find_java()
    inherited = {name: value for name, value in os.environ.items() if name not in ("SPARK_HOME", "PYTHONPATH")}
    return inherited | {
        "PYSPARK_PYTHON": sys.executable,
        "JAVA_HOME": str(java_home()),
        "PATH": f"{java.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SUBMIT_OPTS": SHORT_JOBS,
    }


@pytest.fixture(scope="session")
def start_submit(tmp_path_factory: pytest.TempPathFactory, spark_environment: Mapping[str, str]) -> Submit:
    """Starts spark-submit as a worker would: only the zip holds the package, not this checkout."""
    archive = package_zip.build(tmp_path_factory.mktemp("zip") / "kafka_rebalance.zip")

    def start(
        job: str,
        *arguments: str,
        options: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[str]:
        command = [str(Path(sys.executable).parent / "spark-submit"), "--master", "local[2]"]
        command += ["--conf", "spark.ui.enabled=false", "--py-files", str(archive)]
        for name, value in (options or {}).items():
            command += [name, value]
        return subprocess.Popen(
            [*command, job, *arguments],
            env={**spark_environment, **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start
