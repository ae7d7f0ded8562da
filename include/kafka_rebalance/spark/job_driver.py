"""What both jobs' drivers do alike: hold the run's folder against its nonce, open a session, end with words."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark import SparkConf
from pyspark.sql import SparkSession

import kafka_rebalance
from kafka_rebalance.documents.folder_owner import check_own_folder
from kafka_rebalance.documents.json_files import NONCE, read_json
from kafka_rebalance.documents.storage import Folder
from kafka_rebalance.errors import ArtifactError, RebalanceError, RunFolderError
from kafka_rebalance.planning.command_line import say
from kafka_rebalance.spark import package_zip


def run_job(work: Callable[[Path], None]) -> int:
    """0 when `work` is done, 2 with its text on stderr when something cannot be used; Spark is stopped either way.

    `work` gets a folder that lives as long as the job.
    """
    with tempfile.TemporaryDirectory() as scratch:
        try:
            work(Path(scratch))
        except RebalanceError as wrong:
            say(f"{type(wrong).__name__}: {wrong}")
            return 2
        finally:
            spark = SparkSession.getActiveSession()
            if spark is not None:
                spark.stop()
    return 0


def check_nonce(out: Folder, expected: str) -> None:
    """Raises RunFolderError unless this driver reads what the run's first task wrote: else they share no folder."""
    try:
        found = read_json(out, NONCE).get("nonce")
    except ArtifactError as missing:
        raise RunFolderError(f"run folder not shared: the Spark driver cannot read it ({missing})") from missing
    if found != expected:
        raise RunFolderError(
            f"run folder not shared: {out / NONCE} as the Spark driver sees it is of another run. Nothing was "
            "computed. Let runs_url point to storage that Airflow's workers and Spark's driver share."
        )


def check_run(out: Folder, expected: str) -> None:
    """Raises RunFolderError unless the folder is of this run, `Dag id/run id`: XComs, which name it, can be edited."""
    dag_id, _, run_id = expected.partition("/")
    check_own_folder(out, dag_id, run_id)


def said_by(failed: Exception) -> str:
    """What could not be done: one line, of Spark's errors in the words of the innermost cause."""
    said = str(failed)
    if isinstance(failed, Py4JJavaError):
        cause = failed.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        said = str(cause.toString())
    return (said.splitlines() or [type(failed).__name__])[0].strip().rstrip(".")


def open_session(folder: Path) -> SparkSession:
    """A quiet session whose executors have this package. They fetch it from `folder` for as long as it lives."""
    if SparkConf().get("spark.master", "local").startswith("local"):
        # Else executors take whatever `python3` is on PATH, which may lack numpy.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("kafka-rebalance").config("spark.log.level", "WARN")
    spark = builder.getOrCreate()
    if ".zip" not in kafka_rebalance.__file__:  # else it came with py_files, and executors have it
        spark.sparkContext.addPyFile(str(package_zip.build_package_zip(folder / "kafka_rebalance.zip")))
    return spark
