"""Dockerfile and .dockerignore, as far as they can be checked without a container engine."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

from support.compose import ROOT

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
    assert "apache_airflow_provider kafka_rebalance.workflow.provider_info:get_provider_info" in points
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
