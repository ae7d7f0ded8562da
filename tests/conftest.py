"""What all tests share. Markers and groups are given by folder and fixture, so that no test has to carry one.

`make test` runs two processes, which take one group after the other: what is slow to start is started once.
"""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
MARKED_FOLDERS = ("spark", "workflow", "integration", "e2e")
SHARED = ("cluster", "kafka_classes")  # fixtures of which each value is a cluster or a JVM


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not item.path.is_relative_to(TESTS):
            continue
        folder = item.path.relative_to(TESTS).parts[0]
        if folder in MARKED_FOLDERS:
            item.add_marker(folder)
        item.add_marker(pytest.mark.xdist_group(_group(item, folder)))


def _group(item: pytest.Item, folder: str) -> str:
    """Tests of one group run in one process, one after the other."""
    if folder == "e2e":
        return folder  # one Airflow
    given = item.callspec.params if hasattr(item, "callspec") else {}
    for fixture in SHARED:
        if fixture in given:
            return f"{fixture} {given[fixture]}"
    return item.path.name
