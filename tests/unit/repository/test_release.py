"""`make release` in a clone: what it changes and refuses, and that a failure leaves nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
WHO = {f"GIT_{role}_{key}": "test@example.org" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")}
pytestmark = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="there is no git here")


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


def dated(changelog: str) -> str:
    return changelog.replace(", not released", ", 2026-01-01")


def released_later(changelog: str) -> str:
    return changelog + "\n## 0.9.0, 2026-01-01\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "changelog", "refusal"),
    [
        ("", str, "is no version"),
        ("1.2", str, "is no version"),
        ("v1.2.3", str, "is no version"),
        ("1.2.3rc1", str, "is no version"),
        ("0.2.0", dated, "The newest heading of CHANGELOG.md is 0.1.0, 2026-01-01"),
        ("0.1.0", released_later, "0.1.0 is not above 0.9.0"),
        ("7.0.0", str, "tests/data/upgrades/7.0.0 is missing"),
    ],
)
def test_a_version_that_cannot_come_next_is_refused(
    clone: Clone, version: str, changelog: Callable[[str], str], refusal: str
) -> None:
    path = clone.root / "CHANGELOG.md"
    path.write_text(changelog(path.read_text()))
    clone.git("commit", "--quiet", "--all", "--allow-empty", "--message", "As it is")
    done = clone.run("release", version)
    assert done.returncode != 0
    assert refusal in done.stderr


def test_a_checkout_with_changes_and_a_tag_that_exists_are_refused(clone: Clone) -> None:
    clone.git("tag", "v0.1.0")
    assert "a tag v0.1.0 already" in clone.run("release", "0.1.0").stderr
    (clone.root / "new.txt").write_text("x")
    assert "not committed" in clone.run("release", "0.1.0").stderr
    assert clone.called() == []


@pytest.mark.slow
@pytest.mark.parametrize("fails", ["check", "build"])
def test_a_check_or_a_build_that_fails_leaves_the_checkout_as_it_was(clone: Clone, fails: str) -> None:
    if fails == "check":
        clone.make("exit 2")
    else:
        path = clone.root / "pyproject.toml"
        path.write_text(path.read_text().replace("setuptools.build_meta", "no_such_backend"))
        clone.git("commit", "--quiet", "--all", "--message", "Broken")
    before = clone.state()
    done = clone.run("release", "0.1.0")
    assert done.returncode != 0
    assert ("`make check` fails" if fails == "check" else "Nothing was released") in done.stderr
    assert clone.state() == before
