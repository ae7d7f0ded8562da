"""What all tests share. Markers are given by folder, so that no test has to carry one."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Generator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from kafka_rebalance.local_cluster.jars.locked_jars import VERSIONS

TESTS = Path(__file__).parent
# How long an example takes depends on what else the machine does: Hypothesis' 0.2 seconds fail tests that are right.
# Each run draws anew: half of the usual 100 examples find in two runs what 100 find in one.
settings.register_profile("patient", parent=settings(), deadline=None, max_examples=50)
settings.load_profile("patient")
MARKED_FOLDERS = ("spark", "workflow", "integration", "e2e")
WITH_SERVERS = ("tests/integration", "tests/e2e")  # folders whose tests share clusters, and an Airflow


gc.disable()  # until the tests are collected: hundreds of thousands of objects, of which none is garbage


def pytest_collection_finish() -> None:
    """The collector passes over what stays to the end. Otherwise it takes a seventh of the processor's time, also of
    each process that a test forks.
    """
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(10_000, 20, 20)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not item.path.is_relative_to(TESTS):
            continue
        folder = item.path.relative_to(TESTS).parts[0]
        if folder in MARKED_FOLDERS:
            item.add_marker(folder)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call() -> None:
    """Alembic's logging set-up, at Airflow's `initdb` and in its api-server, disables every logger made before it, also
    for the tests that come later in this process; and what a logger remembers of its levels goes back to that time.
    """
    logging.disable(logging.NOTSET)  # which forgets that as well
    for name, logger in logging.root.manager.loggerDict.items():
        if name.startswith("kafka_rebalance") and isinstance(logger, logging.Logger):
            logger.disabled = False


@pytest.fixture(scope="session", autouse=True)
def no_sync() -> Iterator[None]:
    """No file of a test has to survive a crash of its machine, and each would wait for the disk twice."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("os.fsync", lambda opened: None)
        yield


def group_of(nodeid: str) -> str:
    """The group of a test. A group runs in one process, one test after the other: what its tests share starts once.

    By name, since pytest-xdist's own mark for groups does nothing with pytest 9.2 (it changes names that pytest has
    already kept elsewhere).
    """
    path = nodeid.partition("::")[0]
    if path.startswith("tests/e2e/"):
        return "e2e"  # one Airflow
    parameters = nodeid.partition("[")[2].rstrip("]").split("-")
    if "kraft" in parameters:
        return f"{path} {parameters[0]}"
    versions = [version for version in VERSIONS if version in parameters]
    return versions[0] if versions and path.startswith("tests/integration/") else path


class Groups(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Groups:
    return Groups(config, log)


class ServersOfAGroup:
    """Servers that the tests of a group share, end with it. pytest would keep them, and what they take of memory and
    processors, until this process has run the last of its groups.
    """

    def __init__(self) -> None:
        self._ends: list[Callable[[], None]] = []

    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any], request: Any) -> None:
        if fixturedef.scope == "session" and fixturedef.baseid in WITH_SERVERS:
            self._ends.append(partial(fixturedef.finish, request))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
        try:
            return (yield)
        finally:
            if nextitem is not None and group_of(item.nodeid) != group_of(nextitem.nodeid):
                while self._ends:
                    self._ends.pop()()


def pytest_configure(config: pytest.Config) -> None:
    """Without pytest-xdist the tests of a group do not follow each other, so their servers run on."""
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(ServersOfAGroup())
