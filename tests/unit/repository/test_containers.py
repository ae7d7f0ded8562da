"""docker-compose.yaml, as far as a file can be checked without a container engine."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from jsonschema import Draft7Validator

from demo.settings import APPROVER, CONNECTION, POLICIES, REQUESTER
from support.compose import BROKERS, COMPOSE, ROOT, SERVICES, TEXT, mebibytes

AIRFLOW = ("api-server", "scheduler", "dag-processor", "triggerer")
ONE_SHOT = {"airflow-init": "no", "demo": "on-failure:3"}
BUILDER = "airflow-init"
SCHEMA = ROOT / "tests" / "data" / "compose-spec" / "compose-spec.json"
DEMO = [name for name, service in SERVICES.items() if service.get("profiles") == ["demo"]]
OURS = [name for name, service in SERVICES.items() if service["image"] == SERVICES[BUILDER]["image"]]
# The healthchecks of an image start nothing else: these are in it.
PROGRAMS = {
    "kafka-rebalance": "python",
    "confluentinc/cp-kafka": "bash",
    "confluentinc/cp-zookeeper": "bash",
    "postgres": "pg_isready",
}


def waits_for(name: str) -> set[str]:
    """All services that start before this one."""
    direct = set(SERVICES[name].get("depends_on", {}))
    return direct.union(*(waits_for(other) for other in direct))


def test_the_file_is_one_of_the_compose_specification() -> None:
    errors = Draft7Validator(json.loads(SCHEMA.read_text(encoding="utf-8"))).iter_errors(COMPOSE)
    assert [f"{error.json_path}: {error.message}" for error in errors] == []


def test_the_schema_refuses_a_key_that_compose_does_not_know() -> None:
    wrong = {"services": {"one": {"image": "one:1.0", "mem_limits": "1g"}}}
    assert not Draft7Validator(json.loads(SCHEMA.read_text(encoding="utf-8"))).is_valid(wrong)


def test_the_services_are_those_of_the_product_and_its_demo() -> None:
    product = {"postgres", "airflow-init", *AIRFLOW, "spark-master", "spark-worker"}
    assert set(SERVICES) - set(DEMO) == product
    assert set(DEMO) == {"zookeeper", *BROKERS, "demo"}


def test_one_service_builds_the_image_and_all_its_users_start_afterwards() -> None:
    assert [name for name, service in SERVICES.items() if "build" in service] == [BUILDER]
    assert SERVICES[BUILDER]["pull_policy"] == "build"
    for name in set(OURS) - {BUILDER}:
        assert SERVICES[name]["pull_policy"] == "never", f"{name} may take a stranger's image of that name"
        assert BUILDER in waits_for(name), f"{name} may start before its image is built"


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_waits_for_services_that_exist_and_can_be_waited_for(name: str) -> None:
    for other, wait in SERVICES[name].get("depends_on", {}).items():
        assert other in SERVICES
        assert other not in DEMO or name in DEMO, f"{name} cannot start without the profile of {other}"
        if wait["condition"] == "service_healthy":
            assert "healthcheck" in SERVICES[other], f"{name} waits for {other}, which has no healthcheck"
        else:
            assert (other, wait["condition"]) == (BUILDER, "service_completed_successfully")


@pytest.mark.parametrize("name", SERVICES)
def test_an_image_has_an_exact_tag(name: str) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9/-]*:\d+\.\d+(\.\d+)?", SERVICES[name]["image"])


def test_what_keeps_running_is_started_again_and_has_a_healthcheck_that_its_image_can_run() -> None:
    for name, service in SERVICES.items():
        if name in ONE_SHOT:
            assert service["restart"] == ONE_SHOT[name]
            continue
        assert service["restart"] == "unless-stopped"
        kind, program, *_ = service["healthcheck"]["test"]
        assert (kind, program) == ("CMD", PROGRAMS[service["image"].split(":")[0]])


def test_the_file_and_the_page_say_how_much_memory_all_services_may_take() -> None:
    limits = {name: mebibytes(service["mem_limit"]) for name, service in SERVICES.items()}
    total = sum(limits.values()) / 1024
    without_demo = sum(limit for name, limit in limits.items() if name not in DEMO) / 1024
    assert f"{total:g} GiB, and {without_demo:g} GiB without the demo" in TEXT.replace("\n# ", " ")
    page = (ROOT / "docs" / "hosts.md").read_text(encoding="utf-8")
    assert f"{total:g} GiB" in page
    assert f"{without_demo:g} GiB" in page
    row = re.compile(r"^\| ([a-z-]+)[^|]*\| (\d+) \| (\d+) \|$", flags=re.MULTILINE)
    rows = {name: (int(limit), int(seen)) for name, limit, seen in row.findall(page)}
    brokers_once = {name.removesuffix("-1"): limit for name, limit in limits.items() if name not in BROKERS[1:]}
    assert {name: limit for name, (limit, _) in rows.items()} == brokers_once
    assert [name for name, (limit, seen) in rows.items() if seen > limit] == []


def test_the_four_airflow_processes_differ_in_their_command_alone() -> None:
    first = SERVICES[AIRFLOW[0]]
    for name in AIRFLOW:
        service = SERVICES[name]
        assert service["command"] == ["airflow", name]
        for key in ("image", "environment", "volumes"):
            assert service[key] == first[key], f"{name} has another {key} than {AIRFLOW[0]}"


def test_airflow_and_spark_share_the_runs() -> None:
    for name in (*AIRFLOW, "spark-master", "spark-worker"):
        assert "runs:/opt/runs" in SERVICES[name]["volumes"]
    assert SERVICES["scheduler"]["environment"]["AIRFLOW__KAFKA_REBALANCE__RUNS_URL"] == "/opt/runs"


def test_volumes_are_declared_and_nothing_of_the_checkout_is_mounted() -> None:
    used = {volume.split(":")[0] for service in SERVICES.values() for volume in service.get("volumes", ())}
    assert used == set(COMPOSE["volumes"])


def test_connections_lead_to_services() -> None:
    environment = SERVICES["scheduler"]["environment"]
    kafka = json.loads(environment[f"AIRFLOW_CONN_{CONNECTION.upper()}"])
    assert (kafka["conn_type"], kafka["host"]) == ("kafka_zookeeper", "zookeeper:2181")
    brokers = kafka["extra"]["bootstrap_servers"]
    assert brokers == ",".join(f"{name}:9092" for name in BROKERS)
    assert SERVICES["demo"]["environment"]["BOOTSTRAP_SERVERS"] == brokers
    spark = json.loads(environment["AIRFLOW_CONN_SPARK_DEFAULT"])
    assert f"{spark['host']}:{spark['port']}" == SERVICES["spark-worker"]["command"][-1]


def test_four_brokers_stand_in_two_racks_of_one_zookeeper() -> None:
    environments = [SERVICES[name]["environment"] for name in BROKERS]
    assert {environment["KAFKA_ZOOKEEPER_CONNECT"] for environment in environments} == {"zookeeper:2181"}
    assert [environment["KAFKA_BROKER_ID"] for environment in environments] == ["1", "2", "3", "4"]
    assert [environment["KAFKA_BROKER_RACK"] for environment in environments] == ["rack-0", "rack-1"] * 2
    for name, environment in zip(BROKERS, environments, strict=True):
        assert environment["KAFKA_ADVERTISED_LISTENERS"] == f"PLAINTEXT://{name}:9092"
        assert environment["KAFKA_AUTO_LEADER_REBALANCE_ENABLE"] == "false"


def test_the_users_are_those_of_the_demo_and_each_has_a_password_in_the_file_that_airflow_reads() -> None:
    environment = SERVICES["api-server"]["environment"]
    roles = dict(user.split(":") for user in environment["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS"].split(","))
    assert roles == {"admin": "admin", REQUESTER: "op", APPROVER: "user"}
    assert set(json.loads(COMPOSE["configs"]["passwords"]["content"])) == set(roles)
    (mounted,) = SERVICES["api-server"]["configs"]
    assert mounted["target"] == environment["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"]
    # Airflow opens the file for writing, too: it belongs to the image's user.
    assert (mounted["uid"], mounted["gid"], mounted["mode"]) == ("50000", "0", 0o600)


def test_the_policies_folder_is_the_one_of_the_demo() -> None:
    folder = SERVICES["scheduler"]["environment"]["AIRFLOW__KAFKA_REBALANCE__POLICIES_FOLDER"]
    assert folder == f"/opt/kafka-rebalance/{POLICIES.relative_to(ROOT)}"
    assert (POLICIES / f"{CONNECTION}.yaml").is_file()


def test_secrets_come_from_the_environment_and_have_no_default() -> None:
    asked = re.findall(r"\$\{([^}]+)\}", TEXT)
    assert asked
    assert {variable.partition(":")[2] for variable in asked} == {"?run sh scripts/make-env.sh"}
    written = {key for service in SERVICES.values() for key, value in service.get("environment", {}).items()
               if re.search(r"PASSWORD$|SECRET|_KEY$", key) and not str(value).startswith("${")}  # fmt: skip
    assert written == set()


def anchored(value: Any) -> list[str]:
    return [key for key in value if key.startswith("x-")]


def test_a_template_is_used() -> None:
    """A key that a service repeats replaces the template's, and a template that nobody takes is dead text."""
    names = re.findall(r"&([a-z-]+)", TEXT)
    assert len(anchored(COMPOSE)) == 3
    assert [name for name in names if f"*{name}" not in TEXT] == []
