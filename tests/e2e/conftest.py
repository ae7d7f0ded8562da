"""Four real Airflow processes, real brokers and a real browser, once for all tests of this folder."""

from __future__ import annotations

import json
import os
import shutil
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from confluent_kafka.admin import AclOperation, AdminClient
from confluent_kafka.admin import ResourceType as AclResource
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from selenium.webdriver import Chrome

from demo.local_airflow import LocalAirflow
from demo.runs import DagRun, trigger, wait_for_dag
from kafka_rebalance.kafka.reassignment_json import format_reassignment
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.local_cluster.jars.class_path import spark_source_jars
from kafka_rebalance.local_cluster.security.server_security import ServerSecurity
from kafka_rebalance.model.partition import TopicPartition
from support.airflow.browser import open_browser
from support.airflow.command_lines import CommandLines
from support.kafka.documented_permissions import rules_to_plan
from support.kafka.permissions import CLUSTER, permission, permit
from support.kafka.secured_cluster import SecuredCluster
from support.metrics.http_server import Asked, answering, body, success

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
# All lead to one cluster, so the strictest limits of them count for each.
APPROVERS = (
    "approvers: [uma, olive]\nmax_bytes_share: 0.9\nmax_throttle_bytes_per_second: 40000000\n"
    "min_throttle_bytes_per_second: 1000\n"
)
POLICIES = {
    "kafka_spark": APPROVERS,
    "kafka_local": APPROVERS,
    "kafka_nightly": APPROVERS,
    "kafka_slow": APPROVERS,
    "kafka_windows": APPROVERS + "partitions_per_batch: 1\n",
    "kafka_brief": APPROVERS + "approval_expires_after_seconds: 5\n",
}
FLEET = ["kafka_nightly"]  # of its own: the check proposes nothing while another run of its cluster is open
# What is looked for afterwards in every file that Airflow and the runs have left, and meanwhile in every command line.
USER, SECRET = "rebalancer", "hunter2-e2e-s3cret"
METRICS_USER, METRICS_SECRET = "planner", "hunter3-e2e-m3trics"
METRICS_LOGIN = b64encode(f"{METRICS_USER}:{METRICS_SECRET}".encode()).decode()
_TOPICS, _GROUPS = (AclResource.TOPIC, "*"), (AclResource.GROUP, "*")
RULES = (
    *rules_to_plan(with_zookeeper=True),
    permission(*CLUSTER, AclOperation.ALTER, USER),
    permission(*_TOPICS, AclOperation.READ, USER),
    permission(*_GROUPS, AclOperation.DESCRIBE, USER),
)
WATCHED = ("/admin", "/brokers/topics", "/config", "/controller_epoch", "/kafka_rebalance")

ZooKeeperTree = dict[str, tuple[bytes, int]]


@pytest.fixture(scope="session")
def security(tmp_path_factory: pytest.TempPathFactory) -> ServerSecurity:
    return ServerSecurity(tmp_path_factory.mktemp("security"), {USER: SECRET})


@pytest.fixture(scope="session")
def cluster(security: ServerSecurity) -> Iterator[LocalCluster]:
    """Two of four brokers hold everything; small data, so that a move takes seconds."""
    with LocalCluster(brokers=4, racks=3, security=security) as running:
        permit(AdminClient({"bootstrap.servers": running.bootstrap_servers, "log_level": 0}), *RULES)
        running.create_topic("orders", {number: (1, 2) if number % 2 else (2, 3) for number in range(8)})
        running.produce("orders", {number: 500_000 * (1 + number) for number in range(8)})
        yield running


@pytest.fixture(scope="session")
def metrics_server() -> Iterator[tuple[str, list[Asked]]]:
    """Its URL, and what it was asked. It has no series, so plans are as without it."""
    with answering(body(success([]))) as running:
        yield running


@pytest.fixture(scope="session")
def airflow(
    cluster: LocalCluster,
    security: ServerSecurity,
    metrics_server: tuple[str, list[Asked]],
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[LocalAirflow]:
    connection = SecuredCluster(cluster, security).connection()
    metrics = {
        "url": metrics_server[0], "bytes_in": "sum by (topic) (rate(bytes_in_total[1h]))", "username": METRICS_USER,
        "password": METRICS_SECRET,
    }  # fmt: skip
    connection["extra"]["metrics_secret_config"] = json.dumps(metrics)
    home = tmp_path_factory.mktemp("airflow")
    variables = {
        "AIRFLOW_VAR_KAFKA_REBALANCE_CLUSTERS": json.dumps(FLEET),
        # What runs here is what a test starts, at whatever hour: no tick of the nightly check beside its own.
        "AIRFLOW__SCHEDULER__USE_JOB_SCHEDULE": "False",
        "AIRFLOW__KAFKA_REBALANCE__SPARK_KAFKA_JARS": ",".join(map(str, spark_source_jars())),
    }
    running = LocalAirflow(home, connections=dict.fromkeys(POLICIES, connection), env=variables)
    # Found before the real one; see there what it does.
    running.env["PATH"] = f"{HERE / 'bin'}{os.pathsep}{running.env['PATH']}"
    for name, policy in POLICIES.items():
        running.write_policy(name, policy)
    with running:
        yield running
    if request.session.testsfailed:
        print(f"Airflow's logs are kept in {home}")
    else:
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def command_lines(secrets: tuple[str, ...]) -> Iterator[CommandLines]:
    """Looks at all processes of this machine until the session ends."""
    with CommandLines(secrets) as watched:
        yield watched


@pytest.fixture(scope="session")
def secrets(security: ServerSecurity) -> tuple[str, ...]:
    """The passwords of the connection's users, the metrics server's also as its header has it."""
    return SECRET, security.kazoo_options["sasl_options"]["password"], METRICS_SECRET, METRICS_LOGIN


@pytest.fixture(scope="session")
def requester(airflow: LocalAirflow) -> httpx.Client:
    """olive, who starts the runs."""
    client = airflow.login("olive")
    wait_for_dag(client, "kafka_rebalance")
    wait_for_dag(client, "kafka_balance_check")
    wait_for_dag(client, "kafka_topics")
    wait_for_dag(client, "kafka_rebalance_cancel")
    wait_for_dag(client, "kafka_throttle_janitor")
    wait_for_dag(client, "kafka_ledger")
    return client


@pytest.fixture(scope="session")
def approver(airflow: LocalAirflow) -> httpx.Client:
    """uma, who answers."""
    return airflow.login("uma")


@pytest.fixture(scope="session")
def interrupted(requester: httpx.Client, cluster: LocalCluster) -> DagRun:
    """A run that is to move one partition of a topic of its own."""
    cluster.create_topic("interrupted", {0: (1, 2)})
    cluster.produce("interrupted", {0: 8_000_000})
    plan = format_reassignment({TopicPartition("interrupted", 0): (3, 4)})
    asked = {"kafka_conn_id": "kafka_slow", "plan": plan, "candidates": ["light"], "reason": "to be interrupted"}
    return trigger(requester, "kafka_rebalance", asked)


@pytest.fixture
def read_zookeeper(cluster: LocalCluster, security: ServerSecurity) -> Iterator[Callable[[], ZooKeeperTree]]:
    """Content and version of every znode that a rebalance could write."""
    client = KazooClient(cluster.zookeeper, **security.kazoo_options)
    client.start()

    def read() -> ZooKeeperTree:
        tree: ZooKeeperTree = {}
        waiting = list(WATCHED)
        while waiting:
            path = waiting.pop()
            try:
                content, stat = client.get(path)
                waiting += [f"{path}/{child}" for child in client.get_children(path)]
            except NoNodeError:
                continue
            tree[path] = (content or b"", stat.version)
        return tree

    yield read
    client.stop()
    client.close()


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Chrome]:
    """Headless Chromium. Outside CI a machine without one skips, and says so; in CI that is a failure."""
    yield from open_browser(tmp_path)
