"""The nightly check of twelve clusters, one dead and one slow: into docs/evidence/airflow.md by `make bench-nightly`.

Ten connections lead to one real cluster, one to the same cluster through a slow network, and one to an address that
takes connections and never answers. Each try of `check` is a process of its own, as many at once as Airflow would run,
with the Dag's retries and pauses.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowFailException

from bench.pages import write_section
from bench.slow_network import SlowNetwork
from kafka_rebalance.dags import kafka_balance_check_dag
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.local_cluster.jars.locked_jars import DEFAULT_VERSION
from kafka_rebalance.workflow.run_step import run_step

ROOT = Path(__file__).parents[1]
SECTION = "bench-nightly"
STEP = "kafka_rebalance.nightly.check_cluster.check"
CLUSTERS, BROKERS, TOPICS, PARTITIONS = 12, 3, 20, 25
DELAY_SECONDS = 0.25  # of each way through the slow network
BOUND_SECONDS = 15 * 60
FINAL, RETRIED = 2, 3  # exit statuses of a try
DEAD, SLOW = "dead", "slow"


@dataclass(frozen=True, slots=True)
class Checked:
    """The end of one cluster's part of the run."""

    name: str
    passed: bool
    tries: tuple[float, ...]  # seconds of each
    seconds: float
    error: str = ""


def check(name: str, environment: Mapping[str, str]) -> Checked:
    """One mapped task: its tries and the Dag's pauses between them."""
    task = kafka_balance_check_dag.DAG.get_task("cluster.check")
    limit = task.execution_timeout.total_seconds()
    began, tries, error = time.monotonic(), [], ""
    for left in range(task.retries, -1, -1):
        at = time.monotonic()
        command = [sys.executable, "-m", "bench.nightly", "--check", name]  # here the module is `__main__`
        tried = subprocess.Popen(
            command, cwd=ROOT, env={**environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            said, _ = tried.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            tried.kill()
            said = f"not ended within {limit:.0f} s"
        tries.append(time.monotonic() - at)
        if tried.returncode == 0:
            return Checked(name, True, tuple(tries), time.monotonic() - began)
        error = said.strip().splitlines()[-1]
        if tried.returncode == FINAL or not left:
            break
        time.sleep(task.retry_delay.total_seconds())
    return Checked(name, False, tuple(tries), time.monotonic() - began, error)


def one_try(name: str) -> int:
    """A process: the step as the Dag calls it. The last line that it prints is the error."""
    logging.disable(logging.CRITICAL)
    run = SimpleNamespace(
        dag_id="kafka_balance_check", run_id="nightly", triggering_user_name=None, run_type="scheduled"
    )
    try:
        verdict: Any = run_step(STEP, run, name)
    except AirflowFailException as final:
        print(final)
        return FINAL
    except Exception as failed:
        print(f"{type(failed).__name__}: {failed}")
        return RETRIED
    print(json.dumps(verdict))
    return 0


@contextmanager
def clusters(version: str, folder: Path) -> Iterator[dict[str, str]]:
    """The environment of the tries: a connection for each of twelve names."""
    listeners = {
        "listeners": "{was},SLOW://127.0.0.2:{next_port}",
        "advertised.listeners": "PLAINTEXT://127.0.0.1:{port},SLOW://127.0.0.3:{next_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SLOW:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
    }
    with LocalCluster(version, brokers=BROKERS, racks=3, broker_config=listeners) as local, ExitStack() as open_now:
        for number in range(TOPICS):
            lists = {p: tuple((number + p + step) % BROKERS + 1 for step in range(3)) for p in range(PARTITIONS)}
            local.create_topic(f"topic-{number:02}", lists)
        network = open_now.enter_context(SlowNetwork(DELAY_SECONDS))
        ports = [int(one.rpartition(":")[2]) + 1 for one in local.bootstrap_servers.split(",")]
        brokers = [network.carry(("127.0.0.3", port), ("127.0.0.2", port)) for port in ports]
        host, _, port = local.zookeeper.partition(":")
        slow = network.carry(("127.0.0.3", 0), (host, int(port)))
        silent = open_now.enter_context(socket.create_server(("127.0.0.1", 0), backlog=64))
        dead = f"127.0.0.1:{silent.getsockname()[1]}"
        yield {
            "AIRFLOW__KAFKA_REBALANCE__RUNS_URL": str(folder / "runs"),
            "AIRFLOW__KAFKA_REBALANCE__POLICIES_FOLDER": str(folder / "policies"),
            **_connection(DEAD, dead, dead),
            **_connection(SLOW, slow, ",".join(brokers)),
            **{
                key: value
                for number in range(1, CLUSTERS - 1)
                for key, value in _connection(f"cluster{number}", local.zookeeper, local.bootstrap_servers).items()
            },
        }


def _connection(name: str, zookeeper: str, bootstrap_servers: str) -> dict[str, str]:
    extra = {"bootstrap_servers": bootstrap_servers}
    value = {"conn_type": "kafka_zookeeper", "host": zookeeper, "extra": extra}
    return {f"AIRFLOW_CONN_{name.upper()}": json.dumps(value)}


def lines(found: Sequence[Checked], seconds: float, at_once: int) -> Iterator[str]:
    task = kafka_balance_check_dag.DAG.get_task("cluster.check")
    healthy = [one for one in found if one.name not in (DEAD, SLOW)]
    dead, slow = (next(one for one in found if one.name == name) for name in (DEAD, SLOW))
    yield ""
    yield "| clusters | passed | tries | seconds of a try, the longest | seconds in all, the longest |"
    yield "|---|---:|---:|---:|---:|"
    for name, some in (
        (f"{len(healthy)} connections to a cluster of {BROKERS} brokers and {TOPICS * PARTITIONS} partitions", healthy),
        (f"one more through a network that takes {DELAY_SECONDS * 2:.1f} s there and back", [slow]),
        ("an address that takes connections and never answers", [dead]),
    ):
        passed, tries = sum(one.passed for one in some), max(len(one.tries) for one in some)
        longest, whole = max(max(one.tries) for one in some), max(one.seconds for one in some)
        yield f"| {name} | {passed} | {tries} | {longest:.0f} | {whole:.0f} |"
    yield ""
    limit = task.execution_timeout.total_seconds() / 60
    minutes = f"{seconds / 60:.1f} min"
    yield f"- All twelve: **{minutes}** (at most {BOUND_SECONDS // 60}), with up to {at_once} tasks at once."
    pause = task.retry_delay.total_seconds()
    yield (
        f"- The dead one used {len(dead.tries) - 1} of {task.retries} retries, {pause:.0f} s apart. Each of its tries "
        f"may last {limit:.0f} min, and ended by itself with `{dead.error.partition(':')[0]}`."
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.nightly", description=__doc__.splitlines()[0])
    parser.add_argument("--version", default=DEFAULT_VERSION)
    parser.add_argument("--print-only", action="store_true", help="leave docs/ as it is")
    parser.add_argument("--check", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.check:
        return one_try(asked.check)
    at_once = min(conf.getint("core", "max_active_tasks_per_dag"), conf.getint("core", "parallelism"))
    with tempfile.TemporaryDirectory() as scratch, clusters(asked.version, Path(scratch)) as connections:
        environment = {**os.environ, **connections, "AIRFLOW_HOME": str(Path(scratch) / "home")}
        names = [DEAD, SLOW, *(f"cluster{number}" for number in range(1, CLUSTERS - 1))]
        began = time.monotonic()
        with ThreadPoolExecutor(at_once) as tasks:
            found = list(tasks.map(lambda name: check(name, environment), names))
        seconds = time.monotonic() - began
    for one in found:
        print(f"{one.name:<10} {'ok  ' if one.passed else 'FAIL'} {one.seconds:6.1f} s  {one.error}", flush=True)
    written = list(lines(found, seconds, at_once))
    print("\n".join(written))
    if not asked.print_only:
        write_section(SECTION, written)
    as_it_should = [one.passed == (one.name != DEAD) for one in found]
    return 0 if all(as_it_should) and seconds <= BOUND_SECONDS else 1


if __name__ == "__main__":
    # Like Ctrl-C: ends all that was started, and removes its folder.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
