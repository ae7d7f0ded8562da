"""Asks each executor for its Python and its libraries before it gets any work.

Spark does not ask. Where one of these is missing, a job ends in the Java stack trace of a task.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from pyspark import SparkContext

from kafka_rebalance.documents.storage import Folder
from kafka_rebalance.errors import SparkError
from kafka_rebalance.model.finding import listed

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


def check_executors(context: SparkContext, read: Folder | None = None) -> str:
    """One line on what the executors have. Raises SparkError, which names each host and what it lacks.

    `read` is a folder that executors will read. With a local master there is nothing to ask: executors are the driver.
    """
    if context._jsc.sc().isLocal():
        return ""
    found = _ask(context, needed_for(read))
    lacking = {f"{host}: {what_is_lacking(versions, context.pythonExec)}" for (host, _), versions in found.items()}
    lacking = {said for said in lacking if not said.endswith(": ")}
    if lacking:
        raise SparkError(
            f"Spark's executors cannot run this job. {'; '.join(sorted(lacking))}. Nothing was computed. Install "
            f"Python {_minor(platform.python_version())} with the requirements on each executor, or set PYSPARK_PYTHON "
            f"(now {context.pythonExec}) to one that every executor has."
        )
    return versions_in_words(found.values())


def needed_for(read: Folder | None) -> tuple[str, ...]:
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


def versions_in_words(found: Iterable[Versions]) -> str:
    """One line for the job's log."""
    each = list(found)
    versions = sorted({f"{name} {version}" for one in each for name, version in one.items()})
    return f"{len(each)} executors: {listed(versions)}"


def _ask(context: SparkContext, needed: Sequence[str]) -> dict[tuple[str, int], Versions]:
    """{(host, process id): versions} of the executors that are there. With a task for each core, none is idle."""
    command = ["sh", "-c", _SHELL, context.pythonExec, _PYTHON, json.dumps(needed)]
    found: dict[tuple[str, int], Versions] = {}
    for _ in range(_ROUNDS):
        tasks = context.defaultParallelism
        # Java starts the processes: PySpark's own worker is what may be missing.
        for line in context._jsc.parallelize([""] * tasks, tasks).pipe(command).collect():
            host, process, versions = line.split(" ", 2)
            found[host, int(process)] = json.loads(versions or "{}")
        if len(found) >= context._jsc.sc().getExecutorMemoryStatus().size() - 1:  # one of them is the driver
            break
    return found


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _major(version: str) -> str:
    return version.partition(".")[0]
