"""Two versions of Spark in one installation are refused by the first task, before anything is read."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from typing import Any

import pytest

from kafka_rebalance.errors import SparkError
from kafka_rebalance.rebalance import spark_checks
from kafka_rebalance.rebalance.spark_checks import check_one_version

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
