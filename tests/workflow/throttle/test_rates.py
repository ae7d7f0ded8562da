"""The rate of a run's throttle: refused, automatic, and changed while the run goes on. The cluster is simulated."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow.sdk.exceptions import AirflowFailException

from kafka_rebalance.cancel.set_throttle import change_rate
from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ThrottleError, ThrottleRateError
from kafka_rebalance.planning.tables.history import HISTORY_SCHEMA, WORST_HOUR_SCHEMA, write_history
from kafka_rebalance.planning.tables.read_problem import write_snapshot
from kafka_rebalance.rebalance.report import read_report
from kafka_rebalance.throttle import lease_files, run_rates
from kafka_rebalance.throttle.rates import free_bytes_per_second
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.zookeeper import config_writes
from support.plans.small_snapshots import broker_rows, partition_rows
from support.runs.rebalance_run import CONNECTION, open_lease
from support.runs.simulated_cluster import RATE, SimulatedCluster, SimulatedRun

CLUSTER = "simulated-cluster-0001"
MB = 1_000_000


def set_rates(cluster: SimulatedCluster) -> set[str]:
    return {v for values in cluster.throttles().values() for k, v in values.items() if k.endswith(".rate")}


def write_much(monkeypatch: pytest.MonkeyPatch, bytes_per_second: float) -> None:
    """As if the ledger said so of every partition."""
    real = run_rates.measured

    def measured(folder: Any) -> Any:
        found = real(folder)
        return found._replace(written=dict.fromkeys(found.replicas, bytes_per_second))

    monkeypatch.setattr(run_rates, "measured", measured)


def test_another_rate_is_in_force_at_once_is_written_down_and_is_put_back_with_the_rest(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    cluster.fake.put_json("/config/brokers/1", {"version": 1, "config": {"leader.replication.throttled.rate": "77"}})
    run.hold()
    run.request()
    cluster.step()
    change_rate(airflow_deployment(), run.folder, 5 * MB, by="olive")
    assert set_rates(cluster) == {str(5 * MB)}
    document = json_files.read_json(run.folder, json_files.THROTTLE)
    assert (document["bytes_per_second"], document["first_bytes_per_second"]) == (5 * MB, RATE)
    assert [(c["bytes_per_second"], c["by"]) for c in document["rate_changes"]] == [(5 * MB, "olive")]
    assert json_files.read_json(run.folder, json_files.DECISION)["throttle_bytes_per_second"] == RATE
    run.hold()  # cleared with reassign: neither the approved rate again, nor ours as what was there before
    assert set_rates(cluster) == {str(5 * MB)}
    while cluster.step():
        pass
    run.reassign()
    run.release()
    assert cluster.throttles() == {"brokers/1": {"leader.replication.throttled.rate": "77"}}


def test_a_change_that_broke_off_half_way_leaves_no_rate_behind(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.hold()
    real, written = config_writes.merge_config, []

    def one_only(client: Any, entity: Any, values: Any, **fence: Any) -> None:
        if written:
            raise KeyboardInterrupt  # the worker is gone
        written.append(entity)
        real(client, entity, values, **fence)

    with monkeypatch.context() as patched:
        patched.setattr(config_writes, "merge_config", one_only)
        with pytest.raises(KeyboardInterrupt):
            change_rate(airflow_deployment(), run.folder, 5 * MB, by="olive")
    assert set_rates(cluster) == {str(5 * MB), str(RATE)}
    assert run.release()["left_alone"] == []
    assert cluster.leftovers() == []


def test_a_change_at_the_moment_of_the_release_is_taken_off_again(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.hold()
    real = lease_files.write

    def then_release(deployment: Any, lease: Any) -> None:
        real(deployment, lease)
        monkeypatch.setattr(lease_files, "write", real)
        run.release()

    monkeypatch.setattr(lease_files, "write", then_release)
    with pytest.raises(ThrottleError, match="gave its throttle back at the same moment"):
        change_rate(airflow_deployment(), run.folder, 5 * MB, by="olive")
    assert cluster.leftovers() == []
    assert open_lease(CLUSTER) is None


def test_what_somebody_else_set_meanwhile_is_not_touched_by_a_change(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    run.hold()
    cluster.fake.put_json("/config/brokers/1", {"version": 1, "config": {"leader.replication.throttled.rate": "123"}})
    change_rate(airflow_deployment(), run.folder, 5 * MB, by="olive")
    assert cluster.config("brokers/1")["leader.replication.throttled.rate"] == "123"


def test_a_run_that_holds_nothing_has_no_rate_to_change(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    with pytest.raises(ThrottleError, match="holds no throttle now"):
        change_rate(airflow_deployment(), run.folder, 5 * MB, by="olive")
    run.hold()
    with pytest.raises(ThrottleRateError, match="outside the policy's 1000000 to 100000000"):
        change_rate(airflow_deployment(), run.folder, 1, by="olive")
    run.release()
    with pytest.raises(ThrottleError, match="holds no throttle now"):
        change_rate(airflow_deployment(), run.folder, 5 * MB, by="olive")


@pytest.mark.parametrize("rate", [5.0 * MB, True, "5000000", None, float("nan")])
def test_a_rate_that_is_no_whole_number_is_refused_and_the_lease_stays_readable(
    run: SimulatedRun, cluster: SimulatedCluster, rate: Any
) -> None:
    run.hold()
    with pytest.raises(ThrottleRateError, match="not a whole number"):
        change_rate(airflow_deployment(), run.folder, rate, by="olive")
    run.release()
    assert cluster.leftovers() == []


def test_a_rate_at_which_no_copy_could_end_is_refused_before_the_first_write_and_while_running(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = json_files.read_json(run.folder, json_files.RATES)
    assert planned["candidates"]["light"]["least_bytes_per_second"] == 1, "nothing was measured"
    write_much(monkeypatch, 3.0 * MB)
    (run.folder / json_files.RATES).unlink()  # of a plan that was made before there was such a file
    with pytest.raises(AirflowFailException, match=r"ThrottleRateError: .*2000000 bytes/s is below the least of"):
        run.hold()
    assert cluster.leftovers() == []
    del planned["format_version"]
    json_files.write_json(run.folder, json_files.RATES, planned)
    run.hold()
    planned["candidates"]["light"]["least_bytes_per_second"] = 3 * MB + 1
    json_files.write_json(run.folder, json_files.RATES, planned)
    with pytest.raises(ThrottleRateError, match="below the least of"):
        change_rate(airflow_deployment(), run.folder, 3 * MB, by="olive")
    assert set_rates(cluster) == {str(RATE)}


def connect(monkeypatch: pytest.MonkeyPatch, capacities: dict[str, dict[str, float]]) -> None:
    connection = json.loads(os.environ[f"AIRFLOW_CONN_{CONNECTION.upper()}"])
    connection["extra"]["broker_capacities"] = capacities
    monkeypatch.setenv(f"AIRFLOW_CONN_{CONNECTION.upper()}", json.dumps(connection))


def test_auto_is_told_from_the_networks_and_kept_with_its_reason(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = SimulatedRun(tmp_path, cluster, monkeypatch)
    with pytest.raises(AirflowFailException, match=r"ThrottleRateError: .*the network capacity of broker 1, 2, 3, 4"):
        made.plan(job="drain", drain=[2], throttle_bytes_per_second="auto")
    nic = {"nic_in_bytes_per_second": 50.0 * MB, "nic_out_bytes_per_second": 50.0 * MB}
    connect(monkeypatch, {str(broker): nic for broker in (1, 2, 3, 4)})
    write_much(monkeypatch, 1.0 * MB)
    made.plan(job="drain", drain=[2], throttle_bytes_per_second="auto")
    found = run_rates.read_rates(made.folder)["light"]
    # Broker 1 leads orders-0 and idle-0, each with one follower and one reader: 4 MB/s out.
    assert found.auto_bytes_per_second == 36 * MB
    assert "80 % of the 47.7 MiB/s its network takes out, less 3.81 MiB/s in use" in (found.why or "")
    assert found.least_bytes_per_second > MB
    network = read_report(made.folder).costs["light"].network
    assert network is not None
    first = network.tightest[0]
    assert (network.brokers, network.known, first.broker, first.way) == (4, 4, 1, "out")
    assert (first.used_bytes_per_second, round(free_bytes_per_second(first))) == (4.0 * MB, 36 * MB)
    assert json_files.read_json(made.folder, json_files.SNAPSHOT)["throttle"] == "auto"


def test_a_throttle_is_for_every_hour_even_if_the_plan_is_for_the_worst_one(tmp_path: Path) -> None:
    """In the cluster's worst hour the partition takes 1 byte a second. At other times it takes 900."""
    (tmp_path / json_files.SNAPSHOT_FOLDER).mkdir()
    write_snapshot(tmp_path / json_files.SNAPSHOT_FOLDER, broker_rows([1, 2]), partition_rows([[1, 2]]))
    then = datetime(2026, 11, 1, tzinfo=UTC)
    row = {"topic": "orders", "partition": 0, "first_at": then, "last_at": then + timedelta(days=20)}
    row |= {"first_size_bytes": 1, "last_size_bytes": 1, "intervals": 480, "measured_seconds": 20 * 86_400.0}
    row |= {"p95_bytes_in_per_second": 900.0, "times_read": 3.0, "worst_hour": 3, "worst_hour_bytes_in_per_second": 1.0}
    schema = pa.schema([*HISTORY_SCHEMA, *WORST_HOUR_SCHEMA])
    write_history(tmp_path, pa.Table.from_pylist([row], schema=schema), 480, [])
    json_files.write_json(tmp_path, json_files.SETTINGS, {"even_at_worst_hour": True})
    found = run_rates.measured(tmp_path)
    assert (found.written, found.read) == ({("orders", 0): 900.0}, {("orders", 0): 2700.0})
