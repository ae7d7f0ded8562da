"""What holds for the files of this repository: names, pins, commands and who may import whom."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import tomllib
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml
from importlinter.api import read_configuration
from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[3]
INPUTS = ("requirements.in", "requirements-dev.in", "requirements-java.in")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def committed_files() -> list[Path]:
    """What git holds or would take in; without git, everything but hidden and generated folders."""
    if (ROOT / ".git").exists():
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
        return [ROOT / name for name in names if name and (ROOT / name).is_file()]
    generated = re.compile(r"\.(?!ci\b)|__pycache__|.*\.egg-info|build|dist")
    return [
        path
        for path in ROOT.rglob("*")
        if path.is_file() and not any(generated.fullmatch(part) for part in path.relative_to(ROOT).parts[:-1])
    ]


FILES = committed_files()


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def requirements_in(name: str) -> list[Requirement]:
    """Those of the package are in pyproject.toml as well, because an installed one needs them."""
    lines = [line.strip() for line in text_of(ROOT / name).splitlines()]
    if name == "requirements.in":
        lines += [*PROJECT["dependencies"], *chain.from_iterable(PROJECT["optional-dependencies"].values())]
    return [Requirement(line) for line in lines if line and not line.startswith(("#", "-"))]


def pins_in(name: str) -> dict[Any, tuple[str, list[str]]]:
    """By canonical name: the version, and the hashes that pip will accept."""
    entries = re.split(r"\n(?=\S)", text_of(ROOT / name).replace("\\\n", ""))
    pins = {}
    for entry in entries:
        if entry.startswith("#"):
            continue
        found = re.match(r"([A-Za-z0-9._-]+)==([^\s;]+)", entry)
        assert found is not None, f"{name}: not one exact version: {entry[:80]!r}"
        pins[canonicalize_name(found[1])] = (found[2], re.findall(r"--hash=sha256:([0-9a-f]{64})", entry))
    return pins


def make_targets() -> dict[str, str | None]:
    """By name: the target's line of help, None where it has none."""
    lines = re.findall(r"^([a-z][a-z\d-]*):(?!=)[^#\n]*(?:##\s*(.+))?$", text_of(ROOT / "Makefile"), flags=re.MULTILINE)
    return {name: help_text or None for name, help_text in lines}


def commands_in(path: Path) -> set[str]:
    """The targets of the make commands that a page shows as code: in a block, or between backquotes."""
    text = text_of(path)
    blocks = re.findall(r"^```.*?^```", text, flags=re.MULTILINE | re.DOTALL)
    spans = re.findall(r"`[^`\n]+`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))
    return {target for code in (*blocks, *spans) for target in re.findall(r"(?:^|[\s`&;])make ([a-z][a-z0-9-]*)", code)}


# Put together here, so that this file is not the one that names them.
REGISTRIES = tuple(
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("maven", "org"),
        ("maven", "apache", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("yarnpkg", "com"),
        ("anaconda", "org"),
        ("docker", "io"),
        ("docker", "com"),
        ("ghcr", "io"),
        ("quay", "io"),
        ("jsdelivr", "net"),
        ("unpkg", "com"),
        ("cdnjs", "com"),
    )
)
MACHINE_PATH = re.compile(r"(?<![\w.$}])/(?:" + "home" + r"/\w|" + "Users" + r"/\w|" + "root" + r"/|" + "work" + "/)")


@pytest.mark.slow
def test_no_file_names_a_package_registry() -> None:
    named = [f"{path.relative_to(ROOT)}: {host}" for path in FILES for host in REGISTRIES if host in text_of(path)]
    assert named == []


def test_no_file_holds_a_path_of_one_machine() -> None:
    held = [
        f"{path.relative_to(ROOT)}: {found[0]}"
        for path in FILES
        if (found := MACHINE_PATH.search(text_of(path))) is not None
    ]
    assert held == []


def test_no_secret_file_is_committed() -> None:
    assert [path.name for path in FILES if path.name == ".env" or path.suffix in {".pem", ".key", ".jks"}] == []


def test_no_unit_test_can_import_airflow() -> None:
    with pytest.raises(ModuleNotFoundError, match="airflow"):
        importlib.import_module("airflow")


def test_plugins_are_named_like_no_package() -> None:
    """Airflow runs every file of plugins/ under its bare name: one named like a package would take its place."""
    plugins = [path.stem for path in (ROOT / "plugins").glob("*.py")]
    packages = {path.parent.name for path in (ROOT / "include").glob("*/__init__.py")} | set(packages_distributions())
    assert plugins, "there is no plugin"
    assert set(plugins) & packages == set()


@pytest.mark.parametrize("name", INPUTS)
def test_every_requirement_is_pinned_with_hashes(name: str) -> None:
    pins = pins_in(name.replace(".in", ".txt")) | (pins_in("requirements.txt") if "-dev" in name else {})
    assert {package for package, (_, hashes) in pins.items() if not hashes} == set()
    for wanted in requirements_in(name):
        version, _ = pins[canonicalize_name(wanted.name)]
        assert wanted.specifier.contains(version, prereleases=True), f"{wanted} is pinned to {version}: make lock"
    assert "://" not in text_of(ROOT / name.replace(".in", ".txt"))


def test_the_pins_for_running_and_for_testing_agree() -> None:
    running, testing = pins_in("requirements.txt"), pins_in("requirements-dev.txt")
    both = running.keys() & testing.keys()
    assert {name: running[name][0] for name in both} == {name: testing[name][0] for name in both}


def test_pyspark_and_its_client_have_one_version() -> None:
    """pyspark-client, which the Spark provider brings along, writes files of the same names as pyspark's."""
    pins = pins_in("requirements.txt")
    assert pins["pyspark"][0] == pins["pyspark-client"][0]
    project = tomllib.loads(text_of(ROOT / "pyproject.toml"))["project"]["dependencies"]
    required = {one.name: str(one.specifier) for one in map(Requirement, project)}
    assert required["pyspark"] == required["pyspark-client"] == f"=={pins['pyspark'][0]}", "by construction"


def test_every_direct_dependency_has_its_reason() -> None:
    wanted = {canonicalize_name(requirement.name) for name in INPUTS for requirement in requirements_in(name)}
    rows = re.findall(r"^\| `([A-Za-z0-9._-]+)` \|(.*)\|$", text_of(ROOT / "docs/dependencies.md"), flags=re.MULTILINE)
    assert sorted(canonicalize_name(name) for name, _ in rows) == sorted(wanted)
    for name, row in rows:
        cells = [cell.strip() for cell in row.split(" | ")]
        assert len(cells) == 3, f"{name}: the row has {len(cells) + 1} columns"
        assert all(cells), f"{name}: a column is empty"


def test_the_import_contracts_hold(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    status = lint_imports(config_filename="pyproject.toml", no_cache=True, no_logo=True)
    assert status == EXIT_STATUS_SUCCESS, capsys.readouterr().out


@pytest.mark.slow
def test_the_pure_rooms_are_kept_from_every_library_we_install() -> None:
    """A new dependency has to be named in the contract, else the pure rooms could import it."""
    contracts = {
        contract["id"]: contract for contract in read_configuration(str(ROOT / "pyproject.toml"))["contracts_options"]
    }
    kept_from = set(contracts["pure"]["forbidden_modules"])
    wanted = {canonicalize_name(requirement.name) for requirement in requirements_in("requirements.in")}
    importable = {
        module
        for module, distributions in packages_distributions().items()
        if wanted & {canonicalize_name(name) for name in distributions} and re.fullmatch(r"[a-z]\w*", module)
    }
    second_names = {"pkg_resources", "mpl_toolkits", "pylab"}  # of setuptools and matplotlib
    assert importable - kept_from - second_names == set()
    assert {"numpy", "airflow", "kazoo"} <= importable
    assert set(contracts["planner"]["forbidden_modules"]) == kept_from - {"numpy"}


def test_every_make_command_that_a_page_shows_exists() -> None:
    pages = [path for path in FILES if path.suffix == ".md"]
    missing = {
        str(page.relative_to(ROOT)): sorted(unknown)
        for page in pages
        if (unknown := commands_in(page) - make_targets().keys())
    }
    assert missing == {}
    assert {"demo", "test", "check"} <= commands_in(ROOT / "README.md")


def test_the_version_of_the_package_is_the_newest_of_the_changelog() -> None:
    import kafka_rebalance

    headings = re.findall(r"^## (\d+\.\d+\.\d+)", text_of(ROOT / "CHANGELOG.md"), flags=re.MULTILINE)
    assert headings[0] == kafka_rebalance.__version__
    project = tomllib.loads(text_of(ROOT / "pyproject.toml"))["project"]
    assert project["license"] == "Apache-2.0"
    assert text_of(ROOT / "LICENSE").split("\n", 2)[0].strip() == "Apache License"


def test_the_sample_policy_is_one_that_is_accepted() -> None:
    from kafka_rebalance.model.policy import Policy

    folder = ROOT / "include/policies"
    sample = yaml.safe_load(text_of(folder / "example.yaml.sample"))
    policy = Policy.from_mapping(sample, "the sample")
    assert [approver.id for approver in policy.approvers] == ["olive", "3"]
    # A committed policy would make its cluster writable for everyone who copies this repository.
    assert sorted(folder.glob("*.yaml")) == []


RAW = {"read_json", "read_json_if_there", "write_json"}  # of documents/json_files.py
KNOW_NO_TYPE = {  # why a module takes a run's JSON as it is
    "command.main": "--json prints proposals.json, with keys of later versions",
    "documents.snapshot": "settings.json: Settings has its own form, which is part of each digest",
    "run.run_folder": "digests count whole files, with keys of later versions",
}


def test_a_file_of_a_run_is_read_and_written_by_its_type() -> None:
    """A module that goes past the type needs a reason here."""
    package = ROOT / "include/kafka_rebalance"
    past_a_type = set()
    for path in package.rglob("*.py"):
        names = {getattr(node, "attr", getattr(node, "id", None)) for node in ast.walk(ast.parse(text_of(path)))}
        if names & RAW and path != package / "documents/json_files.py":
            past_a_type.add(".".join(path.relative_to(package).with_suffix("").parts))
    assert past_a_type == KNOW_NO_TYPE.keys()
