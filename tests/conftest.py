"""What all tests share. Markers are given by folder, so that no test has to carry one."""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
MARKED_FOLDERS = ("spark", "workflow", "integration", "e2e")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not item.path.is_relative_to(TESTS):
            continue
        folder = item.path.relative_to(TESTS).parts[0]
        if folder in MARKED_FOLDERS:
            item.add_marker(folder)
