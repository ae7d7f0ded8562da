"""The nightly check in the worst hour of the week, if the policy says so. The cluster is simulated."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kafka_rebalance.nightly import check_cluster
from kafka_rebalance.run import ledger
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.run_step import run_step
from support.runs.rebalance_run import CONNECTION, POLICY
from support.runs.simulated_cluster import SimulatedCluster, SimulatedRun


@pytest.mark.parametrize(("key", "skew"), [("", 0.0), ("even_at_worst_hour: true\n", 1.0)])
def test_the_worst_hour_counts_if_the_policy_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, skew: float
) -> None:
    """All partitions take the same, but in one hour of the week the first takes more: too short for a percentile."""
    cluster = SimulatedCluster(monkeypatch, {"orders": {0: (1, 2), 1: (2, 3), 2: (3, 4), 3: (4, 1)}})
    run = SimulatedRun(tmp_path, cluster, monkeypatch, run_id="scheduled__hours")
    czxid = cluster.fake.znodes["/brokers/topics/orders"].czxid
    now, ends, rows = datetime.now(UTC), [0, 0, 0, 0], []
    for hour in range(15 * 24, 0, -1):
        for partition in range(4):
            ends[partition] += 1_000_000 if partition == 0 and hour % 168 == 30 else 100
            row = {"topic": "orders", "partition": partition, "size_bytes": ends[partition], "start_offset": 0}
            at = now - timedelta(hours=hour)
            rows.append({**row, "end_offset": ends[partition], "topic_czxid": czxid, "observed_at": at})
    ledger.append(airflow_deployment(), "metrics", CONNECTION, "hours", now, rows)
    run.policy_file.write_text(POLICY + key)
    verdict = run_step(check_cluster.check, run.dag_run, CONNECTION)
    assert verdict["skew"]["bytes_in"] == pytest.approx(skew, abs=0.01)
