"""`make release` and `make update` in a clone: what they change and refuse, and that a failure leaves nothing."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]
WHO = {f"GIT_{role}_{key}": "test@example.org" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")}
pytestmark = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="there is no git here")


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def as_it_stands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone of this repository with what is not committed yet."""
    root = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "clone", "--quiet", "--no-tags", ROOT, root], check=True)
    for name in ("scripts", "include", "CHANGELOG.md", "pyproject.toml"):
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, root / name, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.pyc"))
        else:
            shutil.copy(path, root / name)
    for command in (["add", "--all"], ["commit", "--quiet", "--allow-empty", "--message", "As it stands"]):
        subprocess.run(["git", "-C", root, *command], check=True, env={**os.environ, **WHO})
    return root


class Clone:
    """The repository as it stands, with a `make` that notes its calls and ends as the test says."""

    def __init__(self, repository: Path, folder: Path) -> None:
        self.root, self.tools = folder / "clone", folder / "bin"
        subprocess.run(["git", "clone", "--quiet", "--no-tags", repository, self.root], check=True)
        self.tools.mkdir()
        self.make("exit 0")

    def make(self, body: str) -> None:
        path = self.tools / "make"
        path.write_text(f'#!/bin/sh\necho "$@" >>{self.tools}/called\n{body}\n')
        path.chmod(0o755)

    def called(self) -> list[str]:
        noted = self.tools / "called"
        return noted.read_text().splitlines() if noted.exists() else []

    def git(self, *arguments: str) -> str:
        command = ["git", "-C", str(self.root), *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, check=True, env={**os.environ, **WHO}
        ).stdout.strip()

    def state(self) -> tuple[str, str, str]:
        return self.git("rev-parse", "HEAD"), self.git("status", "--porcelain"), self.git("tag", "--list")

    def run(self, name: str, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, **WHO, **more, "PATH": f"{self.tools}:{os.environ['PATH']}"}
        command = [sys.executable, f"scripts/{name}.py", *arguments]
        return subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=False, env=environment)


@pytest.fixture
def clone(as_it_stands: Path, tmp_path: Path) -> Clone:
    return Clone(as_it_stands, tmp_path)


@pytest.mark.slow
def test_a_release_sets_the_version_dates_the_changelog_tags_and_builds(clone: Clone) -> None:
    before = clone.git("rev-parse", "HEAD")
    done = clone.run("release", "0.1.0")
    assert done.returncode == 0, done.stderr
    assert clone.called() == ["check"]
    assert clone.git("status", "--porcelain") == ""
    assert clone.git("tag", "--points-at", "HEAD") == "v0.1.0"
    assert clone.git("rev-parse", "HEAD~1") == before
    assert clone.git("show", "HEAD:include/kafka_rebalance/__init__.py").endswith('__version__ = "0.1.0"')
    changelog = clone.git("show", "HEAD:CHANGELOG.md")
    assert "not released" not in changelog.split("\n## ", 2)[1].splitlines()[0]
    assert changelog.count("\n## ") == (ROOT / "CHANGELOG.md").read_text().count("\n## ")
    assert {path.name for path in (clone.root / "dist").iterdir()} >= {
        "kafka_rebalance-0.1.0-py3-none-any.whl",
        "kafka_rebalance-0.1.0.tar.gz",
    }
    with zipfile.ZipFile(clone.root / "dist/kafka_rebalance-0.1.0-py3-none-any.whl") as wheel:
        assert b'"0.1.0"' in wheel.read("kafka_rebalance/__init__.py")
    assert "git push origin HEAD v0.1.0" in done.stdout
    assert "Nothing was published" in done.stdout


def test_a_dry_run_checks_everything_and_changes_nothing(clone: Clone) -> None:
    before = clone.state()
    done = clone.run("release", "0.1.0", DRY="1")
    assert done.returncode == 0, done.stderr
    assert clone.called() == ["check"]
    assert "tag v0.1.0" in done.stdout
    assert clone.state() == before
    assert not (clone.root / "dist").exists()


@pytest.mark.parametrize("version", ["", "1.2", "v1.2.3", "1.2.3rc1"])
def test_what_is_no_version_is_refused(clone: Clone, version: str) -> None:
    done = clone.run("release", version)
    assert done.returncode != 0
    assert "is no version" in done.stderr


def test_a_checkout_with_changes_is_refused(clone: Clone) -> None:
    (clone.root / "new.txt").write_text("x")
    assert "not committed" in clone.run("release", "0.1.0").stderr
    assert clone.called() == []


@pytest.mark.slow
def test_a_tag_that_exists_is_refused(clone: Clone) -> None:
    clone.git("tag", "v0.1.0")
    assert "a tag v0.1.0 already" in clone.run("release", "0.1.0").stderr


@pytest.mark.slow
def test_a_changelog_without_a_heading_for_the_release_is_refused(clone: Clone) -> None:
    path = clone.root / "CHANGELOG.md"
    path.write_text(path.read_text().replace(", not released", ", 2026-01-01"))
    clone.git("commit", "--quiet", "--all", "--message", "Dated")
    assert "The newest heading of CHANGELOG.md is 0.1.0, 2026-01-01" in clone.run("release", "0.2.0").stderr


@pytest.mark.slow
def test_a_version_below_an_earlier_one_is_refused(clone: Clone) -> None:
    path = clone.root / "CHANGELOG.md"
    path.write_text(path.read_text() + "\n## 0.9.0, 2026-01-01\n")
    clone.git("commit", "--quiet", "--all", "--message", "Later")
    assert "0.1.0 is not above 0.9.0" in clone.run("release", "0.1.0").stderr


@pytest.mark.slow
def test_a_version_from_which_no_later_one_is_tested_to_go_on_is_refused(clone: Clone) -> None:
    assert "tests/data/upgrades/7.0.0 is missing" in clone.run("release", "7.0.0").stderr


@pytest.mark.slow
def test_a_red_check_is_refused(clone: Clone) -> None:
    before = clone.state()
    clone.make("exit 2")
    done = clone.run("release", "0.1.0")
    assert done.returncode != 0
    assert "`make check` fails" in done.stderr
    assert clone.state() == before


@pytest.mark.slow
def test_a_build_that_fails_leaves_the_checkout_as_it_was(clone: Clone) -> None:
    path = clone.root / "pyproject.toml"
    path.write_text(path.read_text().replace("setuptools.build_meta", "no_such_backend"))
    clone.git("commit", "--quiet", "--all", "--message", "Broken")
    before = clone.state()
    done = clone.run("release", "0.1.0")
    assert done.returncode != 0
    assert "Nothing was released" in done.stderr
    assert clone.state() == before


def test_an_update_says_what_changed_and_what_to_run(clone: Clone) -> None:
    """`make lock` is played: it raises one pin, adds one and takes one away."""
    clone.make(
        'if [ "$1" = lock ]; then\n'
        "sed -i -e 's/^kazoo==.*/kazoo==99.0 \\\\/' -e 's/^pure-sasl==[^ ]*/another==1.0/' requirements.txt\nfi"
    )
    pins = script("update").pins(ROOT)
    done = clone.run("update")
    assert done.returncode == 0, done.stderr
    assert clone.called() == ["lock UPGRADE=1", "setup"]
    assert f"kazoo: {pins['kazoo']} → 99.0" in done.stdout
    assert f"pure-sasl: {pins['pure-sasl']} → gone" in done.stdout
    assert "another: new → 1.0" in done.stdout
    assert "apache-airflow==" in done.stdout.partition("Held by")[2]
    assert "make test" in done.stdout


def test_an_update_without_anything_newer_says_so(clone: Clone) -> None:
    done = clone.run("update")
    assert "All packages are the newest" in done.stdout
    assert "→" not in done.stdout


def test_an_update_that_fails_says_how_to_take_it_back(clone: Clone) -> None:
    clone.make("exit 2")
    done = clone.run("update")
    assert done.returncode != 0
    assert "git checkout requirements*.txt" in done.stderr
    assert clone.called() == ["lock UPGRADE=1"]
