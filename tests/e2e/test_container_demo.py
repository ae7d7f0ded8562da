"""The containers' demo as processes of this machine: commands, healthchecks, passwords and memory limits."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest

from demo.__main__ import recommended_option
from demo.local_airflow import PROCESSES, LocalAirflow, log_in
from demo.runs import DagRun
from demo.settings import APPROVER, CONNECTION, POLICIES, REQUESTER, THROTTLE
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.local_cluster.machine.ports import free_port
from support.compose import BROKERS, COMPOSE, PATH, ROOT, SERVICES, is_healthy, mebibytes
from support.spark_standalone import Standalone

PASSWORDS = {"ADMIN_PASSWORD": "a" * 16, "OLIVE_PASSWORD": "b" * 16, "UMA_PASSWORD": "c" * 16}
ADDRESS = "http://localhost:8080"
LOOK_SECONDS = 1


def healthcheck_address(service: str) -> str:
    return ADDRESS if service == "api-server" else "http://api-server:8080"


def test_the_commands_are_those_of_the_airflow_that_these_tests_start() -> None:
    assert [SERVICES[name]["command"] for name in PROCESSES] == [["airflow", name] for name in PROCESSES]


@pytest.mark.parametrize("service", PROCESSES)
def test_the_healthcheck_of_an_airflow_process_tells_the_truth(airflow: LocalAirflow, service: str) -> None:
    address = healthcheck_address(service)
    assert is_healthy(service, {address: airflow.url})
    assert not is_healthy(service, {address: f"http://localhost:{free_port()}"})


def tree_bytes(process_id: int) -> int:
    """Proportional set size of a process and all that it has started."""
    try:
        parent = psutil.Process(process_id)
        processes = [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    found = 0
    for process in processes:
        try:
            found += process.memory_full_info().pss
        except (psutil.NoSuchProcess, psutil.AccessDenied):  # it has ended meanwhile
            continue
    return found


@contextmanager
def most_memory(process_ids: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """The most MiB that each service has taken, seen once a second."""
    most: dict[str, int] = defaultdict(int)
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(LOOK_SECONDS):
            for service, process_id in process_ids.items():
                most[service] = max(most[service], tree_bytes(process_id) >> 20)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield most
    finally:
        ended.set()
        looking.join()


def container_airflow(home: Path, cluster: LocalCluster, spark_port: int) -> LocalAirflow:
    """With the settings of docker-compose.yaml that are not addresses."""
    passwords = home / "container-passwords.json"
    text = COMPOSE["configs"]["passwords"]["content"]
    for name, value in PASSWORDS.items():
        text = text.replace(f"${{{name}:?run sh scripts/make-env.sh}}", value)
    home.mkdir()
    passwords.write_text(text)
    passwords.chmod(SERVICES["api-server"]["configs"][0]["mode"])
    kept = ("AIRFLOW__CORE__EXECUTOR", "AIRFLOW__CORE__PARALLELISM", "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS")
    env = {name: SERVICES["scheduler"]["environment"][name] for name in kept} | {
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
        "AIRFLOW__KAFKA_REBALANCE__POLICIES_FOLDER": str(POLICIES),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(
            {"conn_type": "spark", "host": "spark://127.0.0.1", "port": spark_port}
        ),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    extra = {"bootstrap_servers": cluster.bootstrap_servers}
    connection = {"conn_type": "kafka_zookeeper", "host": cluster.zookeeper, "extra": extra}
    return LocalAirflow(home, connections={CONNECTION: connection}, env=env)


def run_demo(url: str, cluster: LocalCluster) -> str:
    """What the service `demo` prints."""
    program, *arguments = SERVICES["demo"]["command"]
    given = {
        "ADDRESS": ADDRESS,
        "AIRFLOW_URL": url,
        "BOOTSTRAP_SERVERS": cluster.bootstrap_servers,
        "OLIVE_PASSWORD": PASSWORDS["OLIVE_PASSWORD"],
    }
    assert set(given) == set(SERVICES["demo"]["environment"])
    inherited = {name: os.environ[name] for name in ("PYTHONPATH", "HOME") if name in os.environ}
    ended = subprocess.run(
        [program, *arguments],
        cwd=ROOT,
        env={"PATH": PATH, **inherited, **given},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_demo_ends_in_a_request_that_uma_approves_and_no_service_needs_more_than_its_limit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ExitStack() as stack:
        cluster = stack.enter_context(LocalCluster(brokers=len(BROKERS), racks=2))
        (tmp_path / "spark").mkdir()
        airflow_home = tmp_path / "airflow"
        spark_ports = Standalone({}, tmp_path).ports
        airflow = container_airflow(airflow_home, cluster, spark_ports[0])
        spark = Standalone({**airflow.env, "PATH": PATH}, tmp_path / "spark", spark_ports)
        ids = {name: stack.enter_context(spark.running(name)).pid for name in ("spark-master", "spark-worker")}
        stack.callback(airflow.stop)
        airflow.start()
        with most_memory({**ids, **airflow.process_ids}) as most:
            said = run_demo(airflow.url, cluster)
            uma = stack.enter_context(log_in(airflow.url, APPROVER, PASSWORDS["UMA_PASSWORD"]))
            (found,) = uma.get("/api/v2/dags/kafka_rebalance/dagRuns").raise_for_status().json()["dag_runs"]
            run = DagRun(uma, "kafka_rebalance", found["dag_run_id"])
            assert f"{ADDRESS}{run.page}/tasks/approve/required_actions" in said
            assert (APPROVER in said, REQUESTER in said) == (True, True)
            assert not any(password in said for password in PASSWORDS.values())
            paused = {dag["dag_id"] for dag in uma.get("/api/v2/dags").json()["dags"] if dag["is_paused"]}
            assert paused == set()
            proposals = json.loads((run.folder() / "proposals.json").read_text())
            choice = recommended_option(run.request()["options"], proposals)
            assert "waits for no answer" not in said
            run.answer(choice, throttle_bytes_per_second=THROTTLE, note="a test").raise_for_status()
            assert run.wait_for_end(timeout=400) == "success", run.failures()
            again = run_demo(airflow.url, cluster)
        assert "Nothing was produced" in again
        assert "waits for no answer" in again
        logs = {path.name: path.read_text(errors="replace") for path in airflow_home.glob("*.log")}
    assert [name for name, text in logs.items() if "Password for user" in text] == []
    limits = {service: mebibytes(SERVICES[service]["mem_limit"]) for service in most}
    with capsys.disabled():
        for service in most:
            print(f"\n{service}: {most[service]} of {limits[service]} MiB", end="")
    assert set(most) == {*PROCESSES, "spark-master", "spark-worker"}
    assert [service for service in most if most[service] > limits[service]] == []
