"""Dockerfile and docker-compose.yaml, as far as files can be checked without a container engine."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
AIRFLOW = ("api-server", "scheduler", "dag-processor", "triggerer")
BROKERS = ("broker-1", "broker-2", "broker-3")


def instructions(name: str) -> list[str]:
    joined = re.sub(r"\\\n(?:\s*#.*\n)*", " ", DOCKERFILE)
    return [line.split(None, 1)[1] for line in joined.splitlines() if line.startswith(f"{name} ")]


def dotenv_names(text: str) -> set[str]:
    return set(re.findall(r"^([A-Z_]+)=", text, flags=re.MULTILINE))


def test_the_services_are_those_of_the_product() -> None:
    expected = {"postgres", "airflow-init", *AIRFLOW, "spark-master", "spark-worker", "zookeeper", *BROKERS}
    assert set(SERVICES) == expected


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_waits_for_services_that_exist_and_can_be_waited_for(name: str) -> None:
    for other, wait in SERVICES[name].get("depends_on", {}).items():
        assert other in SERVICES
        if wait["condition"] == "service_healthy":
            assert "healthcheck" in SERVICES[other], f"{name} waits for {other}, which has no healthcheck"
        else:
            assert (other, wait["condition"]) == ("airflow-init", "service_completed_successfully")


@pytest.mark.parametrize("name", SERVICES)
def test_an_image_has_an_exact_tag(name: str) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9/-]*:\d+\.\d+(\.\d+)?", SERVICES[name]["image"])


def test_what_keeps_running_has_a_healthcheck() -> None:
    assert [name for name in SERVICES if name != "airflow-init" and "healthcheck" not in SERVICES[name]] == []


def test_the_four_airflow_processes_differ_in_their_command_alone() -> None:
    first = SERVICES[AIRFLOW[0]]
    for name in AIRFLOW:
        service = SERVICES[name]
        assert service["command"] == ["airflow", name]
        for key in ("image", "build", "environment", "volumes"):
            assert service[key] == first[key], f"{name} has another {key} than {AIRFLOW[0]}"
        assert service["depends_on"]["airflow-init"]["condition"] == "service_completed_successfully"


def test_airflow_and_spark_share_image_code_and_runs() -> None:
    for name in ("spark-master", "spark-worker"):
        assert SERVICES[name]["image"] == SERVICES["scheduler"]["image"]
        assert set(SERVICES[name]["volumes"]) <= set(SERVICES["scheduler"]["volumes"])
        assert "runs:/opt/runs" in SERVICES[name]["volumes"]
    assert SERVICES["scheduler"]["environment"]["AIRFLOW__KAFKA_REBALANCE__RUNS_URL"] == "/opt/runs"


def test_volumes_are_declared_or_folders_of_the_repository() -> None:
    used = set()
    for service in SERVICES.values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            if source.startswith("."):
                assert (ROOT / source).is_dir(), f"{source} is mounted and not in the repository"
                assert volume.endswith(":ro")
            else:
                used.add(source)
    assert used == set(COMPOSE["volumes"])


def test_connections_lead_to_services() -> None:
    environment = SERVICES["scheduler"]["environment"]
    kafka = json.loads(environment["AIRFLOW_CONN_KAFKA_DEFAULT"])
    assert kafka["conn_type"] == "kafka_zookeeper"
    addresses = [kafka["host"], *kafka["extra"]["bootstrap_servers"].split(",")]
    assert [address.split(":")[0] for address in addresses] == ["zookeeper", *BROKERS]
    spark = json.loads(environment["AIRFLOW_CONN_SPARK_DEFAULT"])
    assert f"{spark['host']}:{spark['port']}" == SERVICES["spark-worker"]["command"][-1]


def test_three_brokers_stand_in_three_racks_of_one_zookeeper() -> None:
    environments = [SERVICES[name]["environment"] for name in BROKERS]
    assert {environment["KAFKA_ZOOKEEPER_CONNECT"] for environment in environments} == {"zookeeper:2181"}
    assert [environment["KAFKA_BROKER_ID"] for environment in environments] == ["1", "2", "3"]
    assert len({environment["KAFKA_BROKER_RACK"] for environment in environments}) == 3
    for name, environment in zip(BROKERS, environments, strict=True):
        assert environment["KAFKA_ADVERTISED_LISTENERS"] == f"PLAINTEXT://{name}:9092"
        assert environment["KAFKA_AUTO_LEADER_REBALANCE_ENABLE"] == "false"


def test_secrets_come_from_the_environment_and_have_no_default() -> None:
    text = (ROOT / "docker-compose.yaml").read_text(encoding="utf-8")
    asked = re.findall(r"\$\{([^}]+)\}", text)
    assert asked
    assert all(re.fullmatch(r"[A-Z_]+:\?.+", variable) for variable in asked), asked
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    assert dotenv_names(example) == {variable.split(":?")[0] for variable in asked}
    assert re.findall(r"^[A-Z_]+=(.+)$", example, flags=re.MULTILINE) == []
    written = {key for service in SERVICES.values() for key, value in service.get("environment", {}).items()
               if re.search(r"PASSWORD|SECRET|_KEY$", key) and not str(value).startswith("${")}  # fmt: skip
    assert written == set()


def test_the_image_copies_what_is_in_the_repository_and_let_through() -> None:
    let_through = {
        line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line.startswith("!")
    }
    sources = [source.removeprefix("./") for copy in instructions("COPY") for source in copy.split()[:-1]]
    assert "include" in sources
    for source in sources:
        assert (ROOT / source).exists(), f"COPY {source}: not in the repository"
        assert source in let_through, f"COPY {source}: .dockerignore keeps it out"


def test_the_image_installs_the_pins_by_hash_and_runs_as_nobody_special() -> None:
    installs = [run for run in instructions("RUN") if "pip install" in run]
    assert ["--require-hashes -r requirements.txt" in run for run in installs] == [True, False]
    assert "--no-deps --no-build-isolation" in installs[1]
    assert instructions("USER") == ["airflow"]
    assert re.fullmatch(r"python:3\.11-[a-z-]+", instructions("FROM")[0])
