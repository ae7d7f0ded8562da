"""Makes the demo in containers ready to approve: `python -m demo.in_containers`, a service of docker-compose.yaml.

It fills all brokers but the newest, and asks for a rebalance as `olive`. It changes no cluster that has topics, and
asks for nothing in an Airflow that has a run of `kafka_rebalance`.

Its environment: BOOTSTRAP_SERVERS names every broker, AIRFLOW_URL is Airflow's address for this process and ADDRESS
for a browser, OLIVE_PASSWORD is that user's.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence

import httpx

from demo.local_airflow import log_in
from demo.runs import DagRun, set_variable, trigger, wait_for_dag
from demo.settings import APPROVER, CONNECTION, DATA_BYTES, REQUESTER, TOLERANCE
from kafka_rebalance.local_cluster.errors import LocalClusterError
from kafka_rebalance.local_cluster.kraft_mode import KraftRegistry
from kafka_rebalance.local_cluster.records import produce_records
from kafka_rebalance.local_cluster.scenarios import skewed_data

DAG = "kafka_rebalance"
# Paused until the run waits for approval, so that the nightly check, which runs at once, does not ask for another one.
OTHER_DAGS = (
    "kafka_rebalance_cancel",
    "kafka_topics",
    "kafka_log_dirs",
    "kafka_balance_check",
    "kafka_ledger",
    "kafka_throttle_janitor",
)
WAIT_SECONDS = 180
PLAN_SECONDS = 600  # on two busy cores it took 120


class ClusterOverTheNetwork:
    """A cluster that somebody else started, without its newest broker. See `scenarios.Fillable`."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._registry = KraftRegistry(bootstrap_servers)  # asks brokers only, whichever way they registered
        self.brokers: Mapping[int, str | None] = {}

    def wait_for_brokers(self, count: int) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while len(found := self._registry.read_registered()) < count:
            _check_time(deadline, f"{count} brokers answer at {self._bootstrap_servers}; now {sorted(found)}")
        self.brokers = self._registry.read_racks()
        newest = max(self.brokers)
        self.brokers = {broker: rack for broker, rack in self.brokers.items() if broker != newest}

    def has_topics(self) -> bool:
        return bool(self._registry.read_topics())

    def create_topic(self, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
        self._registry.create_topic(topic, replicas, {})
        deadline = time.monotonic() + WAIT_SECONDS
        while self._registry.read_leaderless(topic, replicas):
            _check_time(deadline, f"every partition of topic {topic} has a leader")

    def produce(self, topic: str, size_bytes: Mapping[int, int]) -> None:
        produce_records(self._bootstrap_servers, topic, size_bytes)


def main() -> int:
    try:
        fill(os.environ["BOOTSTRAP_SERVERS"], DATA_BYTES)
        run = ask(os.environ["AIRFLOW_URL"], os.environ["OLIVE_PASSWORD"])
    except (LocalClusterError, RuntimeError, TimeoutError, httpx.HTTPError) as error:
        print(f"The demo is not ready: {error}", file=sys.stderr)
        return 1
    page = os.environ["ADDRESS"] + run.page
    if run.tasks()["approve"] != "awaiting_input":
        print(f"{REQUESTER} has asked for a rebalance before, and it waits for no answer: {page}")
        return 0
    print(
        f"\nThe run waits for your approval: {page}/tasks/approve/required_actions\n"
        f"  Log in as {APPROVER}. The password is UMA_PASSWORD in .env.\n"
        f"  {REQUESTER} started the run and may not approve it (OLIVE_PASSWORD)."
    )
    return 0


def fill(bootstrap_servers: str, total_bytes: int) -> None:
    """Skewed data on all brokers but the newest. A cluster that has topics stays as it is."""
    cluster = ClusterOverTheNetwork(bootstrap_servers)
    cluster.wait_for_brokers(len(bootstrap_servers.split(",")))
    if cluster.has_topics():
        print("The cluster has topics. Nothing was produced.")
        return
    print(f"producing skewed data on brokers {', '.join(map(str, sorted(cluster.brokers)))} …")
    skewed_data(cluster, total_bytes=total_bytes)


def ask(url: str, password: str) -> DagRun:
    """A new run of `kafka_rebalance`, which waits for approval. If there are runs already, the newest of them."""
    olive = log_in(url, REQUESTER, password)
    wait_for_dag(olive, DAG)
    set_variable(olive, "kafka_rebalance_clusters", json.dumps([CONNECTION]))
    newest = f"/api/v2/dags/{DAG}/dagRuns?order_by=-run_after&limit=1"
    runs = olive.get(newest).raise_for_status().json()["dag_runs"]
    if runs:
        run = DagRun(olive, DAG, runs[0]["dag_run_id"])
    else:
        reason = "Demo: an empty broker was added"
        run = trigger(olive, DAG, {"kafka_conn_id": CONNECTION, "reason": reason, "tolerance": TOLERANCE})
    if run.tasks()["approve"] is None:
        print(f"{REQUESTER} has asked for a rebalance. Waiting for snapshot and plan (PySpark) …")
        run.wait_for_request(timeout=PLAN_SECONDS)
    for other in OTHER_DAGS:
        wait_for_dag(olive, other)
    if not runs:
        trigger(olive, "kafka_balance_check", {})  # so that *Kafka balance* has figures before the first night
    return run


def _check_time(deadline: float, what: str) -> None:
    if time.monotonic() > deadline:
        raise TimeoutError(f"This has not come true within {WAIT_SECONDS} s: {what}.")
    time.sleep(0.5)


if __name__ == "__main__":
    sys.exit(main())
