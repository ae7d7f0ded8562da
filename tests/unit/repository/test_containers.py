"""docker-compose.yaml, Dockerfile and the secrets' script, as far as they can be checked without a container engine."""

from __future__ import annotations

import json
import re
import shutil
import stat
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from jsonschema import Draft7Validator

from demo.settings import APPROVER, CONNECTION, POLICIES, REQUESTER
from support.compose import BROKERS, COMPOSE, ROOT, SERVICES, TEXT

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


# --- the image ---

DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
CHECK = """
import importlib.metadata, pathlib, sys
import kafka_rebalance, demo.in_containers
installed = pathlib.Path(kafka_rebalance.__file__)
print(installed)
[package] = importlib.metadata.distributions(name="kafka-rebalance", path=[str(installed.parents[1])])
for point in package.entry_points:
    print(point.group, point.value)
"""


def instructions(name: str) -> list[str]:
    joined = re.sub(r"\\\n(?:\s*#.*\n)*", " ", DOCKERFILE)
    return [line.split(None, 1)[1] for line in joined.splitlines() if line.startswith(f"{name} ")]


def copied() -> list[str]:
    return [source.removeprefix("./") for copy in instructions("COPY") for source in copy.split()[:-1]]


def is_let_through(name: str) -> bool:
    """Whether .dockerignore lets this path of the repository into the build. The last line that matches decides."""
    through = True
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").split():
        pattern = line.removeprefix("!")
        parts = Path(name).parts
        ways = ["/".join(parts[: end + 1]) for end in range(len(parts))]
        if pattern.startswith("**/"):
            ways, pattern = list(parts), pattern.removeprefix("**/")
        if any(fnmatch(way, pattern) for way in ways):
            through = line.startswith("!")
    return through


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the image's build sees, and of them those that it copies."""
    folder = tmp_path_factory.mktemp("image")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, names):
        wanted = any(name == source or name.startswith(f"{source}/") for source in copied())
        if wanted and is_let_through(name) and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def test_the_image_copies_what_is_in_the_repository_and_let_through(context: Path) -> None:
    assert "include" in copied()
    for source in copied():
        assert (context / source).exists(), f"COPY {source}: not in the repository, or .dockerignore keeps it out"


@pytest.mark.parametrize("name", [".env", ".git/config", "include/kafka_rebalance/__pycache__/errors.cpython-311.pyc"])
def test_secrets_history_and_leftovers_are_kept_out_of_the_image(name: str) -> None:
    assert not is_let_through(name)


@pytest.mark.slow
def test_the_package_installs_from_these_files_alone(context: Path, tmp_path: Path) -> None:
    (command,) = re.findall(r"pip (install [^&]*--no-build-isolation \.) ", instructions("RUN")[2])
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", *command.split(), "--quiet", "--no-index", "--target", str(site)]
    subprocess.run(pip, cwd=context, check=True, timeout=120)
    shutil.rmtree(context / "include")  # as the image does
    environment = {"PYTHONPATH": str(site), "PYTHONSAFEPATH": ""}
    said = subprocess.run(
        [sys.executable, "-c", CHECK], cwd=context, env=environment, capture_output=True, text=True, check=True
    )
    first, *points = said.stdout.splitlines()
    assert first == str(site / "kafka_rebalance" / "__init__.py")
    assert "apache_airflow_provider kafka_rebalance.workflow.connection_form:get_provider_info" in points
    assert (site / "kafka_rebalance" / "pages" / "templates").is_dir()
    # The user of the image may not write beside the modules.
    assert (site / "kafka_rebalance" / "__pycache__").is_dir()


def test_the_image_installs_the_pins_by_hash_and_runs_as_nobody_special() -> None:
    installs = [run for run in instructions("RUN") if "pip install" in run]
    assert ["--require-hashes -r requirements.txt" in run for run in installs] == [True, False]
    assert "--no-deps --no-build-isolation" in installs[1]
    assert instructions("USER") == ["airflow"]


def test_the_base_image_is_named_by_digest_and_can_be_replaced() -> None:
    assert instructions("FROM") == ["${PYTHON_IMAGE}"]
    (default,) = instructions("ARG")
    assert re.fullmatch(r"PYTHON_IMAGE=python:3\.11-slim-bookworm@sha256:[0-9a-f]{64}", default)


# --- the secrets ---

# What is on PATH here: POSIX's tools and base64, no Python and no openssl.
TOOLS = ("base64", "dd", "dirname", "od", "tr")


def make_env(checkout: Path, shell: str = "sh") -> subprocess.CompletedProcess[str]:
    tools = checkout / "tools"
    if not tools.exists():
        tools.mkdir()
        for tool in TOOLS:
            (tools / tool).symlink_to(shutil.which(tool))
        (checkout / "scripts").mkdir()
        shutil.copy(ROOT / "scripts" / "make-env.sh", checkout / "scripts")
    command = [shutil.which(shell), str(checkout / "scripts" / "make-env.sh")]
    return subprocess.run(command, env={"PATH": str(tools)}, capture_output=True, text=True, timeout=60, check=False)


def read_env(checkout: Path) -> dict[str, str]:
    return dict(re.findall(r"^([A-Z_]+)=(.*)$", (checkout / ".env").read_text(), flags=re.MULTILINE))


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_shell_alone_makes_every_secret_that_the_compose_file_asks_for(tmp_path: Path, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    ended = make_env(tmp_path, shell)
    assert (ended.returncode, ended.stderr) == (0, "")
    env = read_env(tmp_path)
    assert set(env) == set(re.findall(r"\$\{([A-Z_]+):", TEXT))
    Fernet(env.pop("AIRFLOW_FERNET_KEY"))
    # No character that a URL, JSON or the .env file itself would take for its own.
    assert [name for name, value in env.items() if not re.fullmatch(r"[0-9a-f]{16,}", value)] == []
    assert len(set(env.values())) == len(env)
    assert stat.S_IMODE((tmp_path / ".env").stat().st_mode) == 0o600
    assert not any(value in ended.stdout for value in env.values())


def test_an_env_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("POSTGRES_PASSWORD=mine\n")
    ended = make_env(tmp_path)
    assert ended.returncode == 1
    assert "Nothing was changed" in ended.stderr
    assert (tmp_path / ".env").read_text() == "POSTGRES_PASSWORD=mine\n"
