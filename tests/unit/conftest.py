"""Tests of this folder run where there is no Airflow: whatever imports it while they are collected or run, fails.

A process that has collected tests of other folders before has Airflow's modules already. So the guard is whole where
these tests run alone, as in `make check` and `make test-fast`.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@contextmanager
def no_airflow() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "airflow", None)  # Python refuses to import what is None here
        yield


# pytest calls both hooks for the tests of other folders too, once this file is known.
@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, object, object]:
    with no_airflow() if HERE in (collector.path, *collector.path.parents) else nullcontext():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    with no_airflow() if HERE in item.path.parents else nullcontext():
        return (yield)
