"""A nightly check names brokers that earlier runs and nights have shown to be slow."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from kafka_rebalance import clock
from kafka_rebalance.documents.progress import OftenSlow
from kafka_rebalance.documents.verdict import Verdict
from kafka_rebalance.run import ledger
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from support.runs.rebalance_run import CONNECTION
from support.runs.simulated_cluster import SimulatedCluster, SimulatedRun

UP = [1, 2, 3, 4]


def test_a_broker_that_copied_slowly_in_two_runs_is_named(run: SimulatedRun, written: Callable[[], Verdict]) -> None:
    rows: tuple[dict[str, Any], ...] = (
        {"slow_brokers": [3], "judged_brokers": UP},
        {"slow_brokers": [], "judged_brokers": [1, 2]},
        {"slow_brokers": [3, 2], "judged_brokers": UP},
        {"slow_brokers": None, "judged_brokers": None},  # an earlier version
    )
    for number, row in enumerate(rows):
        at = clock.utc_now() - timedelta(days=number + 1)
        ledger.append(airflow_deployment(), "outcomes", CONNECTION, f"run-{number}", at, [{"run_id": "x", **row}])
    verdict = written()
    assert verdict.slow_brokers == (OftenSlow(3, 2, 2, 0, 1),)
    assert "broker 3 copied slowly in 2 of the last 2 runs that judged it" in verdict.text


def test_a_broker_that_is_behind_in_three_nights_is_named(
    run: SimulatedRun, cluster: SimulatedCluster, written: Callable[[], Verdict]
) -> None:
    for number, behind in enumerate(([2], [2])):
        at = clock.utc_now() - timedelta(days=number + 1)
        row = {"run_id": "x", "brokers_up": UP, "brokers_behind": behind}
        ledger.append(airflow_deployment(), "balance", CONNECTION, f"night-{number}", at, [row])
    state = "/brokers/topics/orders/partitions/0/state"
    cluster.fake.put_json(state, cluster.fake.json(state) | {"isr": [1]})
    verdict = written()
    assert verdict.slow_brokers == (OftenSlow(2, 0, 0, 3, 3),)
    assert "broker 2 had replicas out of the ISR in 3 of the last 3 checks" in verdict.text
