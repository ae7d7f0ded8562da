"""Runs Airflow's four processes on this machine, for the demo, the end-to-end tests and a benchmark."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import httpx

from demo.guard import GRACE_SECONDS, MARK_VARIABLE, Guard
from kafka_rebalance.local_cluster.machine.java import SHORT_JOBS, java_home

REPOSITORY = Path(__file__).resolve().parents[1]
PROCESSES = ("api-server", "scheduler", "dag-processor", "triggerer")
DATABASE_SECONDS = 60
SUPERVISOR_INTERVAL_SECONDS = 1  # a task's supervisor looks so often whether its process has ended; Airflow: every 5 s
USERS = {"admin": "admin", "olive": "op", "uma": "user", "vera": "viewer"}  # name: role; passwords are the names


# A policy of this Airflow pauses the janitor, because two tasks every minute would slow the demo on two cores.
# The scheduler forks a process for each task. It imports modules for all of them, because these imports are half of a
# short task's work.
LOCAL_SETTINGS = """\
import sys

__all__ = ["dag_policy"]


def dag_policy(dag):
    if dag.dag_id == "kafka_throttle_janitor":
        dag.is_paused_upon_creation = True


if "scheduler" in sys.argv:
    import confluent_kafka.admin, kafka.admin, kazoo.client, numpy, pyarrow.parquet
    from kafka_rebalance.rebalance import report, request_batch
    from kafka_rebalance.run import snapshot_reader
    from kafka_rebalance.segments import audit_io
    from kafka_rebalance.throttle import hold_throttle, release_throttle
    from kafka_rebalance.workflow import triggers
"""


class LocalAirflow:
    """Airflow with SQLite, LocalExecutor, the Simple auth manager and free ports. All its processes end with ours."""

    def __init__(
        self,
        home: Path,
        *,
        connections: Mapping[str, Mapping[str, Any]],
        env: Mapping[str, str] = {},
        processes: Sequence[str] = PROCESSES,
    ) -> None:
        self.home = home
        self.processes = processes
        self.port, logs_port, trigger_logs_port = _free_ports(3)
        self.url = f"http://localhost:{self.port}"
        self.runs = home / "runs"
        self._mark = secrets.token_hex(8)
        self._guard: Guard | None = None
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._clients: list[httpx.Client] = []
        self.env = {
            **{key: value for key, value in os.environ.items() if not key.startswith("AIRFLOW_")},
            MARK_VARIABLE: self._mark,
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(REPOSITORY / "dags"),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(REPOSITORY / "plugins"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__PARALLELISM": "4",
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{name}:{role}" for name, role in USERS.items()),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / "passwords.json"),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__DATABASE__LOAD_DEFAULT_CONNECTIONS": "False",
            # When many tasks begin together, a writer waits for the database longer than SQLite's 5 seconds.
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}?timeout={DATABASE_SECONDS}",
            "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(64),
            "AIRFLOW__API__SECRET_KEY": secrets.token_hex(32),
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(self.port),
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(logs_port),
            "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(trigger_logs_port),
            "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1",
            "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": str(SUPERVISOR_INTERVAL_SECONDS),
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
            "AIRFLOW__SCHEDULER__TRIGGER_TIMEOUT_CHECK_INTERVAL": "5",
            # Dags do not change here. By default Airflow reads all of them again every 30 seconds.
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "600",
            "AIRFLOW__KAFKA_REBALANCE__RUNS_URL": str(self.runs),
            "AIRFLOW__KAFKA_REBALANCE__POLICIES_FOLDER": str(home / "policies"),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
            "JAVA_HOME": str(java_home()),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_SUBMIT_OPTS": SHORT_JOBS,
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
            "NO_PROXY": "localhost,127.0.0.1",
            "no_proxy": "localhost,127.0.0.1",
            **{f"AIRFLOW_CONN_{name.upper()}": json.dumps(value) for name, value in connections.items()},
            **env,
        }

    @property
    def process_ids(self) -> dict[str, int]:
        """Of the processes that were started, by name."""
        return {name: process.pid for name, process in self._processes.items()}

    def write_policy(self, connection_id: str, text: str) -> None:
        """Writes one cluster's policy file into this Airflow's folder."""
        folder = self.home / "policies"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{connection_id}.yaml").write_text(text)

    def start(self, *, timeout: float = 180.0) -> Self:
        """Migrates the database, starts the processes and waits until all of them are healthy."""
        self.home.mkdir(parents=True, exist_ok=True)
        self.runs.mkdir(exist_ok=True)
        (self.home / "passwords.json").write_text(json.dumps({name: name for name in USERS}))
        (self.home / "config").mkdir(exist_ok=True)
        (self.home / "config" / "airflow_local_settings.py").write_text(LOCAL_SETTINGS)
        self._guard = Guard(self._mark)
        self.run("db", "migrate")
        for name in self.processes:
            self.start_process(name, name)
        self._wait_until_healthy(timeout)
        return self

    def run(self, *arguments: str) -> None:
        """Runs one command of Airflow to its end. Raises RuntimeError with its output if it fails."""
        command = [sys.executable, "-m", "airflow", *arguments]
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(
                f"airflow {' '.join(arguments[:2])} ended with {done.returncode}:\n{done.stderr[-2000:]}"
            )

    def start_process(self, name: str, *arguments: str, env: Mapping[str, str] = {}) -> None:
        """Starts a command of Airflow that runs on until `stop`. Its output goes to a log of this name."""
        with (self.home / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [sys.executable, "-m", "airflow", *arguments],
                env={**self.env, **env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        if self._guard is not None:
            self._guard.add_group(self._processes[name].pid)

    def _wait_until_healthy(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        waiting = "the api-server"
        while time.monotonic() < deadline:
            for name, process in self._processes.items():
                if process.poll() is not None:
                    tail = (self.home / f"{name}.log").read_text(errors="replace")[-2000:]
                    raise RuntimeError(f"airflow {name} ended with {process.returncode}:\n{tail}")
            try:
                health = httpx.get(f"{self.url}/api/v2/monitor/health", timeout=5, trust_env=False).json()
                others = [name.replace("-", "_") for name in self.processes if name != "api-server"]
                sick = [name for name in others if health[name]["status"] != "healthy"]
                if not sick:
                    return
                waiting = ", ".join(sick)
            except (httpx.HTTPError, ValueError, KeyError):
                pass
            time.sleep(0.5)
        raise TimeoutError(
            f"Airflow is not healthy after {timeout:.0f} s: {waiting} is missing. Logs are in {self.home}"
        )

    def login(self, user: str) -> httpx.Client:
        """A client of the public API, logged in as one of USERS."""
        client = log_in(self.url, user, user)
        self._clients.append(client)
        return client

    def stop(self) -> None:
        """Ends all of this Airflow's processes: daemons, workers, Spark drivers."""
        for client in self._clients:
            client.close()
        if self._guard is not None:
            self._guard.end_all()
        for process in self._processes.values():
            process.wait(GRACE_SECONDS)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()


def log_in(url: str, user: str, password: str) -> httpx.Client:
    """A client of the public API of the Airflow at this address, which uses the Simple auth manager."""
    given = {"username": user, "password": password}
    token = httpx.post(f"{url}/auth/token", json=given, timeout=30, trust_env=False)
    token.raise_for_status()
    bearer = {"Authorization": f"Bearer {token.json()['access_token']}"}
    return httpx.Client(base_url=url, headers=bearer, timeout=30, trust_env=False)


def _free_ports(count: int) -> list[int]:
    """Free ports, which are held open together so that they differ."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for held in sockets:
            held.bind(("127.0.0.1", 0))
        return [held.getsockname()[1] for held in sockets]
    finally:
        for held in sockets:
            held.close()
