"""`make demo` without ZooKeeper: what a newcomer sees of it, from the trigger to the verification."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
MINUTES = 10


def demo(**variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "demo"],
        cwd=REPOSITORY,
        env=os.environ | {"APPROVE": "auto", **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=MINUTES * 60,
        check=False,
    )


@pytest.mark.long
@pytest.mark.parametrize(
    "variables", [{"VERSION": "4.4.0"}, {"VERSION": "3.9.2", "KRAFT": "1"}], ids=["4.4.0", "3.9.2"]
)
def test_the_demo_moves_and_verifies_without_zookeeper(variables: dict[str, str]) -> None:
    ended = demo(**variables)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "three of them controllers too" in ended.stdout
    assert "The run ended as success" in ended.stdout
    assert "kafka-balance shows the cluster" in ended.stdout
    assert ended.stdout.count("off their share on the worst broker") == 2, "one check before the move, one after it"
    assert "failed" not in ended.stdout.partition("\nVerification\n")[2]


def test_the_demo_without_zookeeper_needs_a_version_that_has_it() -> None:
    ended = demo(VERSION="2.8.2", KRAFT="1")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "Nothing was started" in ended.stderr
