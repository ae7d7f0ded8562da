"""What the drivers of all jobs share: they check the run's folder, open a session, and end with an error text."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import kafka_rebalance
from kafka_rebalance.documents.folder_owner import NONCE_FILE, check_own_folder
from kafka_rebalance.documents.job_environment import leave_error
from kafka_rebalance.documents.json_files import NONCE
from kafka_rebalance.documents.storage import Folder
from kafka_rebalance.errors import ArtifactError, RebalanceError, RunFolderError, SparkError
from kafka_rebalance.model.finding import listed
from kafka_rebalance.planning.command_line import folder_at, say
from kafka_rebalance.spark import package_zip


def run_job(work: Callable[[Path], None]) -> int:
    """0 after `work`; 2 if something cannot be used: the error is on stderr, and left for the task.

    `work` gets a folder that exists as long as the job. Spark is stopped in both cases.
    """
    with tempfile.TemporaryDirectory() as scratch:
        try:
            work(Path(scratch))
        except RebalanceError as wrong:
            return _refused(wrong)
        except (Py4JJavaError, PySparkException):
            try:
                _check_executors_again()
            except SparkError as lacking:
                return _refused(lacking)
            raise
        finally:
            spark = SparkSession.getActiveSession()
            if spark is not None:
                spark.stop()
    return 0


def _refused(wrong: RebalanceError) -> int:
    say(f"{type(wrong).__name__}: {wrong}")
    leave_error(os.environ, wrong)
    return 2


def _check_executors_again() -> None:
    """An executor that came after the first check may be why Spark failed. Raises SparkError if it lacks something."""
    spark = SparkSession.getActiveSession()
    if spark is not None:
        with suppress(Py4JError):  # the whole of Spark has ended
            _check_executors(spark.sparkContext)


def add_folder_checks(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--expect-nonce", help="what nonce.json in the out folder must hold, to show that this driver sees that folder"
    )
    parser.add_argument("--expect-run", help="the Dag run that the out folder must belong to, as in dag_id/run_id")


def own_folder(options: argparse.Namespace) -> Folder:
    """The out folder. Raises RunFolderError if it is not that of the run which the arguments expect."""
    out = folder_at(options.out)
    if options.expect_nonce is not None:
        _check_nonce(out, options.expect_nonce)
    if options.expect_run is not None:
        check_run(out, options.expect_run)
    return out


def _check_nonce(out: Folder, expected: str) -> None:
    """Raises RunFolderError unless this driver reads the nonce of the run's first task, so both share the folder."""
    try:
        nonce = NONCE_FILE.read(out).nonce
    except ArtifactError as missing:
        raise RunFolderError(f"run folder not shared: the Spark driver cannot read it ({missing})") from missing
    if nonce != expected:
        raise RunFolderError(
            f"run folder not shared: the Spark driver finds another run in {out / NONCE}. Nothing was computed. Set "
            "runs_url to storage that Airflow's workers and Spark's driver share."
        )


def check_run(out: Folder, expected: str) -> None:
    """Raises RunFolderError unless the folder is of this run, `Dag id/run id`. People can edit XComs, which name it."""
    dag_id, _, run_id = expected.partition("/")
    check_own_folder(out, dag_id, run_id)


def said_by(failed: Exception) -> str:
    """One line on the failure. For Spark's errors, the text of the innermost cause."""
    text = str(failed)
    if isinstance(failed, Py4JJavaError):
        cause = failed.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        text = str(cause.toString())
    return (text.splitlines() or [type(failed).__name__])[0].strip().rstrip(".")


def open_session(folder: Path, read_by_executors: Folder | None = None) -> SparkSession:
    """A session with few log lines. Its executors fetch this package from `folder`, which must exist as long.

    Raises SparkError if an executor lacks what our jobs need.
    """
    if SparkConf().get("spark.master", "local").startswith("local"):
        # Without it executors take the `python3` on PATH, which may lack numpy.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("kafka-rebalance").config("spark.log.level", "WARN")
    spark = builder.getOrCreate()
    if versions := _check_executors(spark.sparkContext, read_by_executors):
        say(versions)
    if ".zip" not in kafka_rebalance.__file__:  # a zip came with py_files, and executors have it
        spark.sparkContext.addPyFile(str(package_zip.build_package_zip(folder / package_zip.PACKAGE_ZIP)))
    return spark


# Asks each executor for its Python and its libraries before it gets any work.
#
# Spark does not ask. Where one of these is missing, a job ends in the Java stack trace of a task.


NEEDED = ("numpy", "pyarrow")  # what our functions import on executors
_FOR_URLS = "upath"  # as well, if they read a folder at a URL; and the library of its scheme
_ROUNDS = 3  # executors may register while others answer

# A shell answers whatever the executor's Python is. Its parent process is the executor, so two executors of one host
# are told apart. `cat` takes what Spark writes to it.
_SHELL = 'cat >/dev/null; echo "$(uname -n) $PPID $("$0" -c "$1" "$2" || true)"'
_PYTHON = """
import importlib, json, sys
found = {"python": ".".join(map(str, sys.version_info[:3]))}
for name in json.loads(sys.argv[1]):
    try:
        found[name] = importlib.import_module(name).__version__
    except Exception:
        found[name] = None
print(json.dumps(found))
"""

# Of `python` and of each library; None for one that cannot be imported. Empty: there is no Python.
Versions = Mapping[str, str | None]


def _check_executors(context: SparkContext, read: Folder | None = None) -> str:
    """One line on what the executors have. Raises SparkError, which names each host and what it lacks.

    `read` is a folder that executors will read. With a local master there is nothing to ask: executors are the driver.
    """
    if context._jsc.sc().isLocal():
        return ""
    executors = _ask(context, _needed_for(read))
    lacking = {f"{host}: {what_is_lacking(versions, context.pythonExec)}" for (host, _), versions in executors.items()}
    lacking = {what for what in lacking if not what.endswith(": ")}
    if lacking:
        raise SparkError(
            f"Spark's executors cannot run this job. {'; '.join(sorted(lacking))}. Nothing was computed. Install "
            f"Python {_minor(platform.python_version())} with the requirements on each executor, or set PYSPARK_PYTHON "
            f"(now {context.pythonExec}) to one that every executor has."
        )
    return versions_in_words(executors.values())


def _needed_for(read: Folder | None) -> tuple[str, ...]:
    """The libraries that executors need, also to read this folder."""
    if read is None or isinstance(read, Path):
        return NEEDED
    return (*NEEDED, _FOR_URLS, type(read.fs).__module__.partition(".")[0])  # type: ignore[attr-defined]


def what_is_lacking(versions: Versions, python: str) -> str:
    """In words, what an executor with these versions lacks; empty if nothing."""
    if not versions:
        return f"no Python starts as {python}"
    own = platform.python_version()
    if _minor(versions["python"] or "") != _minor(own):
        return f"{python} is Python {versions['python']}, the driver's is {own}"
    missing = [name for name, version in versions.items() if version is None]
    if missing:
        return f"{python} has no {listed(missing)}"
    if _major(versions["numpy"] or "") != _major(np.__version__):
        return f"{python} has numpy {versions['numpy']}, the driver has {np.__version__}"
    return ""


def versions_in_words(executors: Iterable[Versions]) -> str:
    """One line for the job's log."""
    each = list(executors)
    versions = sorted({f"{name} {version}" for executor in each for name, version in executor.items()})
    return f"{len(each)} executors: {listed(versions)}"


def _ask(context: SparkContext, needed: Sequence[str]) -> dict[tuple[str, int], Versions]:
    """{(host, process id): versions} of the executors that are there. With a task for each core, none is idle."""
    command = ["sh", "-c", _SHELL, context.pythonExec, _PYTHON, json.dumps(needed)]
    executors: dict[tuple[str, int], Versions] = {}
    for _ in range(_ROUNDS):
        tasks = context.defaultParallelism
        # Java starts the processes: PySpark's own worker is what may be missing.
        for line in context._jsc.parallelize([""] * tasks, tasks).pipe(command).collect():
            host, process, versions = line.split(" ", 2)
            executors[host, int(process)] = json.loads(versions or "{}")
        if len(executors) >= context._jsc.sc().getExecutorMemoryStatus().size() - 1:  # one of them is the driver
            break
    return executors


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _major(version: str) -> str:
    return version.partition(".")[0]
