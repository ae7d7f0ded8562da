"""The real spark-submit, as the tests of both jobs run it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import py4j.java_gateway
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from kafka_rebalance.local_cluster.machine.java import SHORT_JOBS, find_java, java_home
from kafka_rebalance.spark import package_zip

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
    archive = package_zip.build_package_zip(tmp_path_factory.mktemp("zip") / "kafka_rebalance.zip")

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


@pytest.fixture(scope="module")
def spark(spark_environment: dict[str, str]) -> Iterator[Any]:
    """Makes sessions, one after the other, in one Java process that ends with the module."""
    patched = pytest.MonkeyPatch()
    patched.delenv("SPARK_HOME", raising=False)
    # A session puts its own reader of Java's answers here, for every gateway of this process: taken back in the end.
    patched.setattr(py4j.java_gateway, "get_return_value", py4j.java_gateway.get_return_value)
    for name in ("PATH", "JAVA_HOME", "SPARK_LOCAL_IP", "SPARK_SUBMIT_OPTS", "PYSPARK_PYTHON"):
        patched.setenv(name, spark_environment[name])

    def session(master: str, **options: object) -> SparkSession:
        builder = SparkSession.builder.master(master).config("spark.ui.enabled", False)
        for name, value in options.items():
            builder = builder.config(f"spark.sql.{name.replace('_', '.')}", value)
        return builder.getOrCreate()

    yield session
    if SparkSession._instantiatedSession is not None:  # else the next module finds one whose Java is gone
        SparkSession._instantiatedSession.stop()
    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(60)
        SparkContext._gateway = SparkContext._jvm = None
    patched.undo()
