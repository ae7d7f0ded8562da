"""The command, what it writes, and what reads it back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.model.digests import digest_of_bytes
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.settings import SEARCHED, Settings
from kafka_rebalance.pages.tables import broker_changes
from kafka_rebalance.planning.__main__ import main
from kafka_rebalance.planning.planner import run
from kafka_rebalance.planning.tables.read_problem import BROKERS, PARTITIONS, write_snapshot
from kafka_rebalance.planning.tables.result_tables import read_candidate, read_fullest_disks, read_loads
from kafka_rebalance.throttle.rates import traffic
from support.plans.small_snapshots import as_written, broker_rows, partition_rows

WRITTEN = {TopicPartition("orders", number): 10.0 for number in range(6)}
RESULTS = [f"{table}/part-0.parquet" for table in ("moves", "scores", "candidates", "loads", "disk")] + [
    "proposals.json"
]


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    folder = tmp_path / "snapshot"
    folder.mkdir()
    rates = [float(number) for number in range(24)]
    rows = partition_rows([[1, 2], [2, 3], [3, 1]] * 8, bytes_in_per_second=rates)
    write_snapshot(folder, broker_rows([1, 2, 3, 4], {1: "a", 2: "b", 3: "c", 4: "a"}), rows)
    return folder


def test_the_command_writes_every_table_and_says_what_it_does(
    snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "settings.json").write_text('{"tolerance": 0.05, "throttle_bytes_per_second": 1000}')
    arguments = ["--snapshot", str(snapshot), "--out", (tmp_path / "out").as_uri()]
    assert main([*arguments, "--settings", str(tmp_path / "settings.json")]) == 0
    assert all((tmp_path / "out" / name).is_file() for name in [*RESULTS, "timings.json"])
    assert "24 partitions of 1 topics, 48 replicas on 4 brokers" in capsys.readouterr().err
    proposals = json.loads((tmp_path / "out" / "proposals.json").read_bytes())
    assert proposals["format_version"] == 1
    assert proposals["snapshot_digest"] == digest_of_bytes(
        *((snapshot / name).read_bytes() for name in (BROKERS, PARTITIONS))
    )
    assert proposals["settings"]["tolerance"] == 0.05
    assert proposals["recommended"] == proposals["recommendation"]["candidate"] != "leaders_only"
    assert [entry["name"] for entry in proposals["candidates"]] == list(SEARCHED)
    balanced = proposals["candidates"][2]
    assert balanced["moved_replicas"] == 12
    assert balanced["scores"]["before"]["replicas"]["min_over_mean"] == 0
    assert balanced["scores"]["after"]["replicas"]["max_over_mean"] <= 1.09
    assert balanced["makespan_seconds"] >= balanced["makespan_bound_seconds"] > 0


def test_two_runs_leave_the_same_bytes(snapshot: Path, tmp_path: Path) -> None:
    for out in ("one", "two"):
        run(snapshot, tmp_path / out, Settings())
    for name in RESULTS:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name


@pytest.mark.slow
def test_another_seed_or_another_snapshot_is_another_digest(snapshot: Path, tmp_path: Path) -> None:
    run(snapshot, tmp_path / "one", Settings())
    run(snapshot, tmp_path / "two", Settings(seed=1))
    write_snapshot(snapshot, broker_rows([1, 2, 3, 4]), partition_rows([[1, 2], [2, 3], [3, 1]] * 8))
    run(snapshot, tmp_path / "three", Settings())
    digests = {read_candidate(tmp_path / out, "balanced").digest for out in ("one", "two", "three")}
    assert len(digests) == 3


def test_the_rows_of_a_snapshot_are_written_in_one_order(tmp_path: Path) -> None:
    brokers, partitions = broker_rows([1, 2, 3]), partition_rows([[1, 2], [2, 3]])
    assert write_snapshot(tmp_path, brokers, partitions) == write_snapshot(tmp_path, brokers[::-1], partitions[::-1])


def test_a_candidate_is_read_back_as_it_was_proposed(snapshot: Path, tmp_path: Path) -> None:
    plans = run(snapshot, tmp_path / "out", Settings())
    for plan in plans:
        assert read_candidate(tmp_path / "out", plan.candidate.name) == as_written(plan)
    before, after = (
        [row["replicas"] for row in read_loads(tmp_path / "out", "balanced") if row["phase"] == phase]
        for phase in ("before", "after")
    )
    assert before == [16, 16, 16, 0]
    assert after == plans[SEARCHED.index("balanced")].loads_after[:, 0].tolist() != before


def test_loads_have_each_network_that_is_known_beside_what_it_carries(tmp_path: Path) -> None:
    brokers = broker_rows([1, 2, 3], nic_in_bytes_per_second={1: 500.0}, nic_out_bytes_per_second={1: 400.0, 2: 800.0})
    lists = [[1, 2]] * 6
    rates: dict[str, Any] = {"bytes_in_per_second": [10.0] * 6}
    write_snapshot(tmp_path, brokers, partition_rows(lists, **rates))
    run(tmp_path, tmp_path, Settings())
    rows = [row for row in read_loads(tmp_path, "balanced") if row["phase"] == "before"]
    assert [row["nic_in_bytes_per_second"] for row in rows] == [500.0, None, None]
    assert [row["nic_out_bytes_per_second"] for row in rows] == [400.0, 800.0, None]
    assert [row["bytes_in_per_second"] for row in rows] == [60.0, 60.0, 0.0]
    now = traffic({TopicPartition("orders", number): replicas for number, replicas in enumerate(lists)}, WRITTEN, {})
    assert (
        [row["bytes_out_per_second"] for row in rows] == [now[1].bytes_out, now[2].bytes_out, 0.0] == [120.0, 0.0, 0.0]
    )
    after = [row for row in read_loads(tmp_path, "balanced") if row["phase"] == "after"]
    assert sum(row["bytes_out_per_second"] for row in after) == 120.0
    assert after[0]["bytes_out_per_second"] < 120.0
    write_snapshot(tmp_path, brokers, partition_rows(lists, bytes_out_per_second=[50.0] * 6, **rates))
    run(tmp_path, tmp_path / "read", Settings())
    assert read_loads(tmp_path / "read", "balanced")[0]["bytes_out_per_second"] == 6 * 60.0, "read five times"


def test_loads_of_an_older_version_are_read_without_what_they_lack(snapshot: Path, tmp_path: Path) -> None:
    run(snapshot, tmp_path, Settings())
    path = tmp_path / "loads" / "part-0.parquet"
    later = ["bytes_out_per_second", "nic_in_bytes_per_second", "nic_out_bytes_per_second"]
    pq.write_table(pq.read_table(path).drop_columns(later), path)
    found = broker_changes("balanced", read_loads(tmp_path, "balanced"))
    assert [one.before.bytes_out_per_second for one in found] == [None] * 4
    assert [one.nic_in_bytes_per_second for one in found] == [None] * 4
    assert found[0].before.replicas == 16
    pq.write_table(pq.read_table(path).drop_columns(["leaders"]), path)
    with pytest.raises(ArtifactError, match=r"Field \"leaders\" does not exist"):
        read_loads(tmp_path, "balanced")


def test_moves_that_were_changed_after_planning_are_refused(snapshot: Path, tmp_path: Path) -> None:
    run(snapshot, tmp_path / "out", Settings())
    path = tmp_path / "out" / "moves" / "part-0.parquet"
    table = pq.read_table(path)
    pq.write_table(table.slice(0, table.num_rows - 1), path)
    with pytest.raises(ArtifactError, match="somebody changed one of the files"):
        read_candidate(tmp_path / "out", table["candidate"][-1].as_py())


def test_a_candidate_that_is_not_there_is_named_with_those_that_are(snapshot: Path, tmp_path: Path) -> None:
    run(snapshot, tmp_path / "out", Settings(candidates=("light",)))
    with pytest.raises(ArtifactError, match=r"no candidate 'balanced'; there are light"):
        read_candidate(tmp_path / "out", "balanced")


@pytest.mark.parametrize(
    ("settings", "texts"),
    [
        ('{"tolerence": 0.1}', ["SettingsError", "'tolerence' is not a setting"]),
        ('{"max_bytes": -1}', ["SettingsError", "max_bytes must be an integer"]),
        ("[]", ["SettingsError", "not a JSON object"]),
        ("{", ["SettingsError", "cannot be read"]),
        ('{"drain": ' + "[" * 100_000, ["SettingsError", "cannot be read", "recursion"]),
        ('{"throttle_bytes_per_second": 1' + "0" * 400 + "}", ["SettingsError", "at most 9223372036854775807"]),
        ('{"format_version": 2}', ["FormatVersionError", "settings.json has format_version 2"]),
        ('{"job": "drain", "drain": [9]}', ["PlanningError", "broker 9 does not exist"]),
    ],
)
def test_what_cannot_be_used_ends_the_command_with_its_text(
    snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], settings: str, texts: list[str]
) -> None:
    (tmp_path / "settings.json").write_text(settings)
    arguments = ["--snapshot", str(snapshot), "--out", str(tmp_path / "out")]
    assert main([*arguments, "--settings", str(tmp_path / "settings.json")]) == 2
    said = capsys.readouterr().err
    assert all(text in said for text in texts)
    assert "Traceback" not in said
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_not_there_or_cannot_be_opened_ends_the_command_with_its_text(
    snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--snapshot", str(tmp_path / "none"), "--out", str(tmp_path)]) == 2
    assert "brokers.parquet cannot be read" in capsys.readouterr().err
    assert main(["--snapshot", "unheardof://bucket/snapshot", "--out", str(tmp_path)]) == 2
    assert "unheardof://bucket/snapshot cannot be opened" in capsys.readouterr().err
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert main(["--snapshot", str(snapshot), "--out", str(blocked)]) == 2
    assert "cannot be" in capsys.readouterr().err


def test_the_fullest_disks_are_read_by_candidate_fullest_first(tmp_path: Path) -> None:
    capacity = {1: 10_000, 2: 10_000, 3: 100_000}
    write_snapshot(tmp_path, broker_rows([1, 2, 3], disk_capacity_bytes=capacity), partition_rows([[1]] * 8))
    run(tmp_path, tmp_path, Settings())
    rows = read_fullest_disks(tmp_path, "balanced", most=2)
    assert list(dict.fromkeys(row["broker"] for row in rows)) == [1, 2]
    assert rows[0] == {"candidate": "balanced", "batch": 0, "broker": 1, "peak_bytes": 8000, "after_bytes": 8000}
    assert read_fullest_disks(tmp_path / "elsewhere", "balanced") == []
