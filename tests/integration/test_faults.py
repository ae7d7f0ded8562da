"""A fixed part of the fault matrix (`make faults` has all of it): one cluster of separate JVMs, real records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from faults.cases import Case, Fault, Moment
from faults.cluster import FaultCluster, running
from faults.processes import Processes
from faults.run import prepare_airflow, run_case

VERSION = "2.0.1"  # starts fastest, and its controller tells the least about what it does


@dataclass(frozen=True, slots=True)
class Struck:
    """The cluster of these tests, and what our processes are told of it."""

    cluster: FaultCluster
    environment: dict[str, str]


@pytest.fixture(scope="module")
def struck(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Struck]:
    folder = tmp_path_factory.mktemp("faults")
    with running(VERSION, folder / "cluster") as cluster:
        yield Struck(cluster, prepare_airflow(folder / "airflow", cluster))


@pytest.mark.parametrize(
    ("fault", "moment"),
    [(Fault.TARGET, Moment.MID_COPY), (Fault.WORKER, Moment.SUBMIT)],
)
def test_nothing_acknowledged_is_lost_and_the_run_says_what_is_true(
    struck: Struck, tmp_path: Path, fault: Fault, moment: Moment
) -> None:
    case = Case(VERSION, fault, moment, seed=6)
    result = run_case(struck.cluster, Processes(tmp_path, struck.environment), case, tmp_path)
    assert result.problems == [], result.line()
    assert result.state == "success", result.line()
