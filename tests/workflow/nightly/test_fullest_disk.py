"""How full disks are, and which is full first, as the nightly check keeps it. The cluster is simulated."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kafka_rebalance.admin.log_dirs import BrokerDisks, LogDir
from kafka_rebalance.documents.proposals import FirstFull, FullestDisk
from kafka_rebalance.documents.snapshot import Disks
from kafka_rebalance.documents.verdict import Verdict
from kafka_rebalance.pages.fleet import CHECK_FILE
from kafka_rebalance.run import ledger, snapshot_reader
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from support.documents.as_in_a_file import in_json
from support.runs.rebalance_run import CONNECTION, connection_fields
from support.runs.simulated_cluster import SIZE_BYTES, SimulatedCluster

CAPACITIES = {1: 16 * SIZE_BYTES, 2: 8 * SIZE_BYTES, 3: 8 * SIZE_BYTES, 4: 8 * SIZE_BYTES}
USED = {1: 12 * SIZE_BYTES, 2: 5 * SIZE_BYTES, 3: SIZE_BYTES, 4: 0}
Written = Callable[[], Verdict]
COLUMNS = ("fullest_disk_broker", "fullest_disk_share", "first_full_broker", "first_full_days")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    """All of it on brokers 1 and 2 of four, whose disks hold other files too."""
    made = SimulatedCluster(monkeypatch, {"orders": dict.fromkeys(range(4), (1, 2))})
    read_log_dirs = snapshot_reader.sizes.read_log_dirs

    def told(*arguments: Any, **options: Any) -> BrokerDisks:
        found = read_log_dirs(*arguments, **options)
        dirs = {b: (LogDir("/data", CAPACITIES[b], CAPACITIES[b] - USED[b]),) for b in found.log_dirs}
        return replace(found, log_dirs=dirs)

    monkeypatch.setattr("kafka_rebalance.admin.log_dirs.read_log_dirs", told)
    return made


def balance_row() -> list[Any]:
    """The row of a check in the ledger's table `balance`."""
    ((row,), _) = ledger.read(airflow_deployment(), "balance", CONNECTION, 1)
    return [row[name] for name in COLUMNS]


def grown(cluster: SimulatedCluster, bytes_a_day: int) -> None:
    """Every partition has grown by this over eight nights, up to its size of today."""
    czxid, now = cluster.fake.znodes["/brokers/topics/orders"].czxid, datetime.now(UTC)
    for night in range(8, 0, -1):
        size = SIZE_BYTES - night * bytes_a_day
        rows = [
            {"topic": "orders", "partition": number, "size_bytes": size, "end_offset": 1, "start_offset": 0}
            | {"topic_czxid": czxid}
            for number in range(4)
        ]
        at = now - timedelta(days=night)
        ledger.append(airflow_deployment(), "metrics", CONNECTION, f"night-{night}", at, rows)


def test_a_check_keeps_the_fullest_disk_and_the_one_that_is_full_first(
    cluster: SimulatedCluster, written: Written
) -> None:
    """Brokers 1 and 2 grow by the same. Broker 1 has less of its disk free, and broker 2 fewer bytes."""
    grown(cluster, SIZE_BYTES // 20)
    assert written().disks == Disks(
        fullest=FullestDisk(1, USED[1], CAPACITIES[1]),
        first_full=FirstFull(2, 15.0, SIZE_BYTES // 5),
        growth_is_known=True,
    )
    assert balance_row() == [1, 0.75, 2, 15.0]


def test_where_nothing_grows_no_disk_is_full_first_and_the_fleets_page_says_so(
    cluster: SimulatedCluster, written: Written
) -> None:
    grown(cluster, 0)
    verdict = written()
    disks, shown = verdict.disks, CHECK_FILE.decode(in_json(verdict))
    assert disks is not None
    assert (disks.first_full, disks.growth_is_known) == (None, True)
    assert balance_row() == [1, 0.75, None, None]
    words = shown.fullest_words, shown.until_full_words, shown.read_only_words
    assert words == ("75 %, broker 1", "no disk fills up", "")


def test_the_growth_of_a_first_night_is_unknown_and_not_none(written: Written) -> None:
    assert written().disks == Disks(FullestDisk(1, USED[1], CAPACITIES[1]), None, growth_is_known=False)


def test_the_disk_of_a_broker_that_does_not_tell_it_does_not_count(
    cluster: SimulatedCluster, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection states its size, so by the replicas of others it would be full. Its other files are unknown."""
    stated = connection_fields(cluster)  # type: ignore[arg-type]
    stated["extra"]["broker_capacities"] = {1: {"disk_bytes": 4 * SIZE_BYTES}}
    monkeypatch.setenv(f"AIRFLOW_CONN_{CONNECTION.upper()}", json.dumps(stated))
    cluster.silent = {1}
    disks = written().disks
    assert disks is not None
    assert disks.fullest == FullestDisk(2, USED[2], CAPACITIES[2])
    assert balance_row()[:2] == [2, USED[2] / CAPACITIES[2]]


def test_disks_are_unknown_where_no_replica_in_sync_tells_the_size_of_a_partition(
    cluster: SimulatedCluster, written: Written
) -> None:
    cluster.silent = {1}
    for partition in range(4):
        path = f"/brokers/topics/orders/partitions/{partition}/state"
        cluster.fake.put_json(path, {**cluster.fake.json(path), "isr": [1]})
    assert written().disks == Disks()
    assert balance_row() == [None] * 4
