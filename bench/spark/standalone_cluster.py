"""A Spark standalone cluster of local processes: a master and workers, from the classes in the pyspark wheel."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

import pyspark

from kafka_rebalance.local_cluster.machine.java import SHORT_JOBS
from kafka_rebalance.local_cluster.machine.processes import Guard

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
MASTER, WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
START_SECONDS = 60
_HERE = "127.0.0.1"


class StandaloneCluster:
    """`workers` are the paths that each worker searches for programs, beside those of `environment`.

    Each worker has one core. Ports are free ones: processes choose them, and their logs name them.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str], workers: Sequence[Sequence[Path]]) -> None:
        self.folder = folder
        self.url = ""
        self._environment = {**environment, "SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": SHORT_JOBS}
        self._workers = workers
        self._guard: Guard | None = None
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        self._guard = Guard([])
        try:
            self._start("master", MASTER, "--host", _HERE, "--port", "0", "--webui-port", "0")
            self._wait("name its address", lambda: self._said("master", r"master at (spark://\S+)") != [])
            (self.url,) = self._said("master", r"Starting Spark master at (spark://\S+)")
            for number, paths in enumerate(self._workers):
                own = ("--work-dir", str(self.folder / f"work-{number}"), "--cores", "1", "--memory", "1g")
                where = ("--host", _HERE, "--port", "0", "--webui-port", "0")
                self._start(f"worker-{number}", WORKER, *own, *where, self.url, paths=paths)
            registered = len(self._workers)
            self._wait("register all workers", lambda: len(self._said("master", "Registering worker")) == registered)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends the processes and their executors, which are in the guard's group."""
        assert self._guard is not None
        self._guard.close()
        for process in self._processes:
            process.wait()

    def _start(self, name: str, main: str, *arguments: str, paths: Sequence[Path] = ()) -> None:
        assert self._guard is not None
        searched = os.pathsep.join([*map(str, paths), self._environment["PATH"]])
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [str(SPARK_CLASS), main, *arguments],
                env={**self._environment, "PATH": searched},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=self._guard.group,
            )
        self._processes.append(process)

    def _wait(self, what: str, holds: Callable[[], bool]) -> None:
        """Raises TimeoutError if the master does not do it in time."""
        give_up = time.monotonic() + START_SECONDS
        while not holds():
            if time.monotonic() > give_up:
                raise TimeoutError(
                    f"Spark's master did not {what} in {START_SECONDS} s. Its log is {self.folder}/master.log."
                )
            time.sleep(0.02)

    def _said(self, name: str, pattern: str) -> list[str]:
        return re.findall(pattern, (self.folder / f"{name}.log").read_text(errors="replace"))
