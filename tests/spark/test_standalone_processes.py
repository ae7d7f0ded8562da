"""Spark's master and worker in containers, as far as their commands and healthchecks go without one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from support.spark_standalone import Standalone


@pytest.mark.long
def test_a_worker_registers_at_the_master_and_both_healthchecks_tell_the_truth(
    spark_environment: Mapping[str, str], tmp_path: Path
) -> None:
    spark = Standalone(spark_environment, tmp_path)
    assert not spark.is_healthy("spark-master")
    with spark.running("spark-master"):
        assert not spark.is_healthy("spark-worker"), "the master answers, and has no worker yet"
        with spark.running("spark-worker"):
            assert (tmp_path / "work").is_dir()
    assert not spark.is_healthy("spark-worker")
