"""What an executor must have: the driver's minor version of Python, and what our functions import there."""

from __future__ import annotations

import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from typing import Any

import numpy as np
import pytest

from kafka_rebalance.errors import SparkError
from kafka_rebalance.rebalance import spark_checks
from kafka_rebalance.rebalance.spark_checks import check_one_version
from kafka_rebalance.spark.job_driver import NEEDED, versions_in_words, what_is_lacking

OWN = {"python": platform.python_version(), "numpy": np.__version__, "pyarrow": "26.0.1"}
MINOR = ".".join(OWN["python"].split(".")[:2])
# What tasks of the three jobs run on executors, which PySpark imports by name.
ON_EXECUTORS = (
    "kafka_rebalance.planning.candidates",
    "kafka_rebalance.planning.tables.history",
    "kafka_rebalance.spark.one_file_a_day",
)


def test_an_executor_like_the_driver_lacks_nothing() -> None:
    assert what_is_lacking(OWN, "python3") == ""
    assert what_is_lacking({**OWN, "python": f"{MINOR}.99", "pyarrow": "1.0"}, "python3") == ""


@pytest.mark.parametrize(
    ("differs", "lacks"),
    [
        ({"python": "3.99.1"}, f"python3 is Python 3.99.1, the driver's is {OWN['python']}"),
        ({"numpy": None}, "python3 has no numpy"),
        ({"numpy": None, "pyarrow": None}, "python3 has no numpy, pyarrow"),
        ({"numpy": "1.26.4"}, f"python3 has numpy 1.26.4, the driver has {np.__version__}"),
    ],
)
def test_an_executor_that_differs_is_told_how(differs: dict[str, str | None], lacks: str) -> None:
    assert what_is_lacking({**OWN, **differs}, "python3") == lacks


def test_an_executor_without_python_has_said_nothing() -> None:
    assert what_is_lacking({}, "/opt/python") == "no Python starts as /opt/python"


def test_the_log_gets_one_line() -> None:
    assert (
        versions_in_words([OWN, OWN]) == f"2 executors: numpy {np.__version__}, pyarrow 26.0.1, python {OWN['python']}"
    )


def test_executors_are_asked_for_all_that_our_functions_import_there() -> None:
    imports = "\n".join(f"import {name}" for name in ON_EXECUTORS)
    code = (
        f"import sys\n{imports}\nprint(*{{name.split('.')[0] for name in sys.modules}} - {{*sys.stdlib_module_names}})"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    found = {name for name in said if not name.startswith(("_", "cython"))}
    assert found == {*NEEDED, "kafka_rebalance"}


# Two versions of Spark in one installation are refused by the first task, before anything is read.


INPUTS: Any = None


def installed(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    def version(package: str) -> str:
        try:
            return versions[package.replace("-", "_")]
        except KeyError as missing:
            raise PackageNotFoundError(package) from missing

    monkeypatch.setattr(spark_checks, "version", version)


def test_two_versions_are_refused_with_the_command_that_mends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, pyspark="4.2.1", pyspark_client="4.2.0")
    with pytest.raises(
        SparkError, match=r"pyspark 4\.2\.1 and pyspark-client 4\.2\.0 are installed together"
    ) as refused:
        check_one_version(INPUTS)
    assert "pip install --force-reinstall --no-deps pyspark==4.2.1 pyspark-client==4.2.1" in str(refused.value)


@pytest.mark.parametrize("versions", [{"pyspark": "4.2.1", "pyspark_client": "4.2.1"}, {"pyspark": "4.2.0"}, {}])
def test_one_version_is_no_mixture(monkeypatch: pytest.MonkeyPatch, versions: dict[str, str]) -> None:
    installed(monkeypatch, **versions)
    check_one_version(INPUTS)


def test_this_installation_has_one_version() -> None:
    check_one_version(INPUTS)
