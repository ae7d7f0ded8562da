"""The wheel and the sdist: what is in them, and what an Airflow finds once the wheel is installed beside it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kafka_rebalance.local_cluster.machine.java import java_home
from kafka_rebalance.planning.tables.read_problem import write_snapshot
from support.airflow.airflow_home import REPOSITORY
from support.plans.small_snapshots import broker_rows, partition_rows

SOURCES = ("include", "pyproject.toml", "README.md", "LICENSE")
DAGS = ("kafka_balance_check", "kafka_ledger", "kafka_rebalance", "kafka_rebalance_cancel", "kafka_throttle_janitor")
UV = Path(sysconfig.get_path("scripts")) / "uv"
LOOK = """
import json, sys
from importlib.metadata import distribution
from airflow import plugins_manager
from airflow.dag_processing.dagbag import DagBag
from airflow.providers_manager import ProvidersManager
import kafka_rebalance
plugins, errors = plugins_manager._get_plugins()
bag = DagBag(sys.argv[1])
print(json.dumps({
    "package": kafka_rebalance.__file__,
    "plugins": [str(one.source) for one in plugins if one.name == "kafka_rebalance"],
    "errors": errors | bag.import_errors,
    "forms": sorted(name for name in ProvidersManager().hooks if name.startswith("kafka_")),
    "dags": sorted(bag.dags),
}))
"""


def run(*command: str | Path, **environment: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and with the wheel that is built from the sdist alone."""
    folder = tmp_path_factory.mktemp("built")
    for name in SOURCES:
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(source, folder / name)
    run(
        UV, "build", "--quiet", "--no-build-isolation", "--python", sys.executable, "--out-dir", folder / "dist", folder
    )
    return folder / "dist"


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture
def dag_folder(tmp_path: Path) -> Path:
    """With the one line that docs/install.md gives."""
    _, line = (REPOSITORY / "docs" / "install.md").read_text().split("```python\n")[:2]
    folder = tmp_path / "dags"
    folder.mkdir()
    (folder / "kafka_rebalance_dags.py").write_text(line.partition("```")[0])
    return folder


@pytest.fixture(scope="module")
def beside_the_pins(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has what this one has, and our wheel instead of the checkout."""
    environment = tmp_path_factory.mktemp("environment")
    run(UV, "venv", "--quiet", "--clear", "--python", sys.executable, environment)
    python = environment / "bin" / "python"
    there = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    for package in Path(sysconfig.get_path("purelib")).iterdir():
        if "kafka_rebalance" not in package.name and not (there / package.name).exists():
            (there / package.name).symlink_to(package)
    run(UV, "pip", "install", "--quiet", "--no-deps", "--python", python, wheel)
    return python


def look(python: Path, dag_folder: Path, plugins: Path) -> Mapping[str, Any]:
    folders = {"AIRFLOW__CORE__DAGS_FOLDER": str(dag_folder), "AIRFLOW__CORE__PLUGINS_FOLDER": str(plugins)}
    found: dict[str, Any] = json.loads(run(python, "-c", LOOK, dag_folder, **folders).splitlines()[-1])
    return found


def check(found: Mapping[str, Any], python: Path) -> None:
    assert Path(found["package"]).is_relative_to(python.parents[1])
    assert found["errors"] == {}
    (source,) = found["plugins"]
    assert "kafka-rebalance==" in source
    assert found["forms"] == ["kafka_admin_api", "kafka_zookeeper"]
    assert set(DAGS) < set(found["dags"])


def test_a_wheel_puts_only_the_package_on_the_path(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"kafka_rebalance"}
    sources = [path for path in (REPOSITORY / "include" / "kafka_rebalance").rglob("*") if path.is_file()]
    shipped = {path.relative_to(REPOSITORY / "include").as_posix() for path in sources if path.suffix != ".pyc"}
    assert shipped - set(names) == set(), "files of the package that the wheel lacks"


@pytest.mark.parametrize("has_plugins_file", [True, False])
def test_an_installed_wheel_brings_dags_plugin_and_connection_forms(
    beside_the_pins: Path, dag_folder: Path, tmp_path: Path, has_plugins_file: bool
) -> None:
    plugins = REPOSITORY / "plugins" if has_plugins_file else tmp_path
    check(look(beside_the_pins, dag_folder, plugins), beside_the_pins)


def test_what_the_wheel_requires_is_what_the_pins_have(beside_the_pins: Path) -> None:
    assert "No broken requirements" in run(beside_the_pins, "-m", "pip", "check")


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Path]:
    """The Python of an empty environment."""
    run(UV, "venv", "--quiet", "--python", sys.executable, tmp_path / "environment")
    yield tmp_path / "environment" / "bin" / "python"
    shutil.rmtree(tmp_path / "environment")


@pytest.mark.long
@pytest.mark.parametrize("resolution", ["highest", "lowest-direct"])
def test_one_installation_into_an_empty_environment_is_enough(
    empty: Path, wheel: Path, dag_folder: Path, tmp_path: Path, resolution: str
) -> None:
    run(UV, "pip", "install", "--quiet", "--resolution", resolution, "--python", empty, f"{wheel}[postgres,s3]")
    run(UV, "pip", "check", "--python", empty)
    home = {"AIRFLOW_HOME": str(tmp_path / "home"), "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{tmp_path}/db"}
    run(empty.parent / "airflow", "db", "migrate", **home)
    (tmp_path / "plugins").mkdir()
    found = look(empty, dag_folder, tmp_path / "plugins")
    check(found, empty)
    write_snapshot(tmp_path, broker_rows(range(1, 4)), partition_rows([[1, 2]] * 12))
    job = Path(found["package"]).parent / "spark" / "job.py"
    spark = {"JAVA_HOME": str(java_home()), "PYSPARK_PYTHON": str(empty), "PYSPARK_DRIVER_PYTHON": str(empty)}
    asked = ("--snapshot", tmp_path, "--out", tmp_path / "out")
    run(empty.parent / "spark-submit", "--master", "local[1]", job, *asked, **spark)
    assert json.loads((tmp_path / "out" / "proposals.json").read_text())["recommended"]
