"""Whole rebalances in the Airflows of platform teams: PostgreSQL, the FAB auth manager, and workers of their own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from demo.local_airflow import LocalAirflow
from demo.runs import DagRun, trigger, wait_for_dag
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.local_cluster.machine.ports import free_port
from support.airflow.postgres import Postgres

pytestmark = pytest.mark.timeout(900)  # the waits for a run have ends of their own, which name its tasks

CONNECTION, THROTTLE = "kafka_prod", 20_000_000
FAB = "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager"
ROLES = {"olive": "Op", "uma": "User", "victor": "Viewer", "paula": "Public", "adam": "Admin"}
CREATE_USERS = """
import json, sys
from airflow.providers.fab.auth_manager.cli_commands.utils import get_application_builder
with get_application_builder() as builder:
    for name, role in json.loads(sys.argv[1]).items():
        assert builder.sm.add_user(name, name, name, f"{name}@example.org", builder.sm.find_role(role), name)
"""


class TeamsAirflow(LocalAirflow):
    """Airflow on PostgreSQL with FAB. With `workers`, each runs tasks in a home and with files of its own."""

    def __init__(self, home: Path, cluster: LocalCluster, database: Postgres, workers: int) -> None:
        connection = {
            "conn_type": "kafka_zookeeper",
            "host": cluster.zookeeper,
            "extra": {"bootstrap_servers": cluster.bootstrap_servers},
        }
        env = {
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database.url,
            "AIRFLOW__CORE__AUTH_MANAGER": FAB,
            "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor" if workers else "LocalExecutor",
            # Celery's queue is in the database. The product does not see which queue it is.
            "AIRFLOW__CELERY__BROKER_URL": f"sqla+{database.url}",
            "AIRFLOW__CELERY__RESULT_BACKEND": f"db+{database.url}",
        }
        super().__init__(home, connections={CONNECTION: connection}, env=env)
        self.workers = [home / f"worker-{number}" for number in range(workers)]

    def run(self, *arguments: str) -> None:
        super().run(*arguments)
        if arguments == ("db", "migrate"):
            # One process for all of them: `airflow users create` takes ten seconds for each.
            subprocess.run([sys.executable, "-c", CREATE_USERS, json.dumps(ROLES)], env=self.env, check=True)

    def start_workers(self) -> None:
        for home in self.workers:
            shutil.copytree(self.home / "policies", home / "policies")
            for name in ("tmp", "config"):
                (home / name).mkdir()
            own = {
                "AIRFLOW_HOME": str(home),
                "TMPDIR": str(home / "tmp"),
                "AIRFLOW__KAFKA_REBALANCE__POLICIES_FOLDER": str(home / "policies"),
                "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
            }
            named = ("--celery-hostname", f"{home.name}@%h", "--concurrency", "2")
            self.start_process(home.name, "celery", "worker", *named, env=own)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=4, racks=3) as running:
        yield running


@pytest.fixture(scope="module", params=[0, 2], ids=["LocalExecutor", "CeleryExecutor"])
def airflow(
    cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[TeamsAirflow]:
    topic = f"orders-{request.param}"  # a new one for each Airflow: the one before has balanced the cluster
    cluster.create_topic(topic, {number: (1, 2) if number % 2 else (2, 3) for number in range(8)})
    cluster.produce(topic, {number: 500_000 * (1 + number) for number in range(8)})
    with Postgres() as database:
        running = TeamsAirflow(tmp_path_factory.mktemp("airflow"), cluster, database, request.param)
        # FAB numbers its users in the order of their import.
        people = [
            f"{{id: '{number}', name: {name}}}" for number, name in enumerate(ROLES, 1) if name in ("olive", "uma")
        ]
        running.write_policy(CONNECTION, f"approvers: [{', '.join(people)}]\nmax_bytes_share: 0.9\n")
        with running:
            running.start_workers()
            yield running


@pytest.fixture(scope="module")
def waiting(airflow: TeamsAirflow) -> DagRun:
    """A run of olive's that waits for its approval."""
    client = airflow.login("olive")
    wait_for_dag(client, "kafka_rebalance")
    asked = {"kafka_conn_id": CONNECTION, "candidates": ["balanced"], "reason": "a new topology"}
    run = trigger(client, "kafka_rebalance", asked)
    run.wait_for_request(timeout=300)
    return run


@pytest.mark.parametrize(
    ("user", "status"), [(None, httpx.codes.UNAUTHORIZED), ("paula", httpx.codes.FORBIDDEN), ("victor", httpx.codes.OK)]
)
def test_a_page_is_for_those_who_may_see_the_dag(
    airflow: TeamsAirflow, waiting: DagRun, user: str | None, status: int
) -> None:
    path = f"/kafka-rebalance/run/{waiting.dag_id}/{waiting.run_id}"
    client = httpx.Client(base_url=airflow.url, trust_env=False) if user is None else airflow.login(user)
    assert client.get(path).status_code == status


@pytest.mark.parametrize("user", ["olive", "victor", "adam"])
def test_nobody_but_an_approver_other_than_the_requester_may_answer(
    airflow: TeamsAirflow, waiting: DagRun, user: str
) -> None:
    reply = waiting.seen_by(airflow.login(user)).answer(
        waiting.request()["options"][0], throttle_bytes_per_second=THROTTLE
    )
    assert reply.status_code == httpx.codes.FORBIDDEN
    assert waiting.tasks()["approve"] == "awaiting_input"


def test_a_viewer_may_not_start_a_cancel(airflow: TeamsAirflow, waiting: DagRun) -> None:
    victor = airflow.login("victor")
    asked = {"logical_date": None, "conf": {"kafka_conn_id": CONNECTION, "action": "cancel_now"}}
    assert victor.post("/api/v2/dags/kafka_rebalance_cancel/dagRuns", json=asked).status_code == httpx.codes.FORBIDDEN


def test_a_rebalance_goes_from_its_trigger_to_its_verification(
    airflow: TeamsAirflow, waiting: DagRun, cluster: LocalCluster
) -> None:
    uma = airflow.login("uma")
    option = waiting.request()["options"][0]
    waiting.seen_by(uma).answer(option, throttle_bytes_per_second=THROTTLE).raise_for_status()
    assert waiting.wait_for_end(timeout=300) == "success", waiting.failures()
    verified = json.loads((waiting.folder() / "verification.json").read_text())
    assert verified["passed"] is True
    if airflow.workers:
        logs = [sorted(home.glob("logs/**/attempt=*.log")) for home in airflow.workers]
        assert all(logs), "one of the workers has run no task"
