"""The ledger's nightly Dag, through the real spark-submit."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from demo.local_airflow import LocalAirflow
from demo.runs import trigger
from kafka_rebalance.run.ledger import TABLES


@pytest.mark.long
def test_a_day_that_is_over_becomes_one_file_with_the_rows_of_all(
    airflow: LocalAirflow, requester: httpx.Client
) -> None:
    yesterday = datetime.now(UTC) - timedelta(days=1)
    day = airflow.runs / "ledger" / "outcomes" / "cluster=kafka_of_old" / f"day={yesterday:%Y-%m-%d}"
    day.mkdir(parents=True)
    for run_id in ("first", "second"):
        row = {"observed_at": yesterday, "run_id": run_id, "verified": True}
        pq.write_table(pa.Table.from_pylist([row], schema=TABLES["outcomes"]), day / f"{run_id}.parquet")
    run = trigger(requester, "kafka_ledger", {})
    assert run.wait_for_end() == "success", run.failures()
    (compacted,) = day.iterdir()
    assert sorted(pq.read_table(compacted).column("run_id").to_pylist()) == ["first", "second"]
