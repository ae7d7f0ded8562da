"""The ledger: partitioned Parquet that any reader understands, one file a run, and what a run's row says."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow
import pyarrow.dataset
import pyarrow.parquet
import pytest
from airflow.sdk.exceptions import AirflowFailException

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.ledger_files import SOURCE_FILE, compacted_name
from kafka_rebalance.errors import NothingToDoError, StorageError
from kafka_rebalance.moves.eta import with_controller
from kafka_rebalance.nightly import check_cluster
from kafka_rebalance.nightly.remove_old import remove_old
from kafka_rebalance.rebalance.verify import record
from kafka_rebalance.run import ledger
from kafka_rebalance.run.inputs import StartedRun, StepInputs
from kafka_rebalance.run.running_rebalance import find_moved
from kafka_rebalance.workflow import airflow_state
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.run_step import run_step
from support.runs.rebalance_run import CONNECTION
from support.runs.simulated_cluster import (
    FEWER_TOPICS,
    RACKS,
    RATE,
    SIZE_BYTES,
    TOPICS,
    SimulatedCluster,
    SimulatedRun,
    approved_run,
)
from support.runs.topic_run import TopicRun

DAY = datetime(2026, 11, 21, 23, 59, tzinfo=UTC)
ROW = {"topic": "orders", "partition": 0, "size_bytes": 5, "end_offset": None}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AIRFLOW__KAFKA_REBALANCE__RUNS_URL", str(tmp_path))
    return tmp_path / "ledger"


def read_all(root: Path, table: str) -> pyarrow.Table:
    return pyarrow.dataset.dataset(root / table, partitioning="hive").to_table()


def test_rows_are_found_by_cluster_and_day(root: Path) -> None:
    ledger.append(airflow_deployment(), "metrics", "kafka_eu", "one", DAY, [ROW])
    ledger.append(airflow_deployment(), "metrics", "kafka_us", "one", DAY.replace(day=22), [ROW, ROW])
    found = read_all(root, "metrics")
    assert sorted(zip(found["cluster"].to_pylist(), map(str, found["day"].to_pylist()), strict=True)) == [
        ("kafka_eu", "2026-11-21"),
        ("kafka_us", "2026-11-22"),
        ("kafka_us", "2026-11-22"),
    ]
    assert found["observed_at"].to_pylist()[0] == DAY
    only = pyarrow.dataset.dataset(root / "metrics", partitioning="hive").to_table(
        filter=pyarrow.dataset.field("cluster") == "kafka_us"
    )
    assert only.num_rows == 2


def test_a_task_that_is_cleared_counts_once_and_another_run_beside_it(root: Path) -> None:
    for _ in range(2):
        ledger.append(airflow_deployment(), "metrics", "kafka_eu", "manual__2026-11-21T00:00:00+00:00", DAY, [ROW])
    ledger.append(airflow_deployment(), "metrics", "kafka_eu", "manual__2026-11-21T00:00:00-00:00", DAY, [ROW])
    assert read_all(root, "metrics").num_rows == 2


@pytest.mark.parametrize("table", list(ledger.TABLES))
def test_a_table_keeps_its_columns_when_a_run_has_nothing_to_say(root: Path, table: str) -> None:
    path = ledger.append(airflow_deployment(), table, "kafka_eu", "one", DAY, [])
    found = pyarrow.dataset.dataset(str(path)).to_table()
    assert found.schema.equals(ledger.TABLES[table])
    assert found.num_rows == 0


def add(run_id: str, at: datetime, size: int, connection: str = "kafka_eu") -> Path:
    return Path(
        str(ledger.append(airflow_deployment(), "metrics", connection, run_id, at, [{**ROW, "size_bytes": size}]))
    )


def sizes(days: float = 28) -> list[int]:
    found = ledger.read(airflow_deployment(), "metrics", "kafka_eu", days, now=DAY)
    assert found.unreadable == ()
    return [row["size_bytes"] for row in found.rows]


def test_a_clusters_rows_of_the_last_days_come_newest_first(root: Path) -> None:
    for age in (3, 0, 40, 1):
        add(f"run-{age}", DAY - timedelta(days=age), age)
    add("other", DAY, 99, connection="kafka_us")
    assert sizes() == [0, 1, 3]
    assert sizes(days=2) == [0, 1]
    assert sizes(days=2.999) == [0, 1], "the day's folder is read, and what is older in it is left out"
    row = ledger.read(airflow_deployment(), "metrics", "kafka_eu", 1, now=DAY).rows[0]
    assert (list(row), row["observed_at"]) == (ledger.TABLES["metrics"].names, DAY)


def test_a_cluster_of_which_nothing_was_written_has_no_rows(root: Path) -> None:
    assert ledger.read(airflow_deployment(), "outcomes", "kafka_eu", 28) == ([], ())


def test_a_file_that_cannot_be_read_is_named_and_takes_no_other_with_it(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = add("sound", DAY, 1).parent
    (folder / "cut.parquet").write_bytes(b"PAR1")
    pyarrow.parquet.write_table(pyarrow.table({"topic": ["orders"]}), folder / "foreign.parquet")
    pyarrow.parquet.write_table(
        pyarrow.table({"observed_at": [DAY], "size_bytes": ["much"]}), folder / "text-for-a-number.parquet"
    )
    (folder / ".sound.parquet.part").write_bytes(b"half")
    found = ledger.read(airflow_deployment(), "metrics", "kafka_eu", 1, now=DAY)
    assert [row["size_bytes"] for row in found.rows] == [1]
    assert found.unreadable == tuple(
        f"day=2026-11-21/{name}.parquet" for name in ("cut", "foreign", "text-for-a-number")
    )
    assert "cut.parquet cannot be read and is left out" in caplog.text


def test_a_folder_that_cannot_be_listed_is_an_error_and_not_nothing(root: Path) -> None:
    place = Path(str(ledger.folder_of(airflow_deployment(), "balance", "kafka_eu")))
    place.parent.mkdir(parents=True)
    place.write_bytes(b"a file where the cluster's folder should be")
    with pytest.raises(StorageError, match="cannot be listed"):
        ledger.read(airflow_deployment(), "balance", "kafka_eu", 28)


def test_columns_that_an_earlier_version_did_not_write_are_null(root: Path) -> None:
    path = add("old", DAY, 7)
    pyarrow.parquet.write_table(pyarrow.parquet.read_table(path).drop_columns(["topic_czxid"]), path)
    (row,) = ledger.read(airflow_deployment(), "metrics", "kafka_eu", 1, now=DAY).rows
    assert (row["size_bytes"], row["topic_czxid"]) == (7, None)


def test_the_job_is_told_where_the_ledger_is_and_nothing_where_there_is_none(root: Path) -> None:
    told: dict[str, str] = {}
    inputs = StepInputs(StartedRun("kafka_ledger", "night"), airflow_deployment(), told.__setitem__)
    with pytest.raises(NothingToDoError):
        ledger.locate(inputs)
    assert told == {}
    add("a", DAY, 1)
    ledger.locate(inputs)
    assert told == {"ledger": str(root)}


def compacted(folder: Path, number: int, sizes_by_file: dict[str, int]) -> None:
    schema = ledger.TABLES["metrics"].append(pyarrow.field(SOURCE_FILE, pyarrow.string()))
    rows = [{**ROW, "observed_at": DAY, "size_bytes": size, SOURCE_FILE: name} for name, size in sizes_by_file.items()]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema=schema), folder / compacted_name(number))


def test_wherever_compaction_stopped_a_row_counts_once(root: Path) -> None:
    folder = add("a", DAY, 1).parent
    add("b", DAY, 2)
    compacted(folder, 1, {"a.parquet": 1, "b.parquet": 2})
    assert sorted(sizes()) == [1, 2], "before any of them is removed"
    (folder / "a.parquet").unlink()
    assert sorted(sizes()) == [1, 2], "after one of them"
    (folder / "b.parquet").unlink()
    assert sorted(sizes()) == [1, 2]
    add("c", DAY, 3)
    compacted(folder, 10, {"a.parquet": 1, "b.parquet": 2, "c.parquet": 3})
    assert sorted(sizes()) == [1, 2, 3], "the newer one has all of the older one, by number and not by name"
    add("a", DAY, 100)
    assert sorted(sizes()) == [2, 3, 100], "a cleared task has written its file again"


def test_rows_that_compaction_takes_away_while_the_day_is_read_are_found_in_its_file(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = add("a", DAY, 1).parent
    add("b", DAY, 2)
    listed = ledger.names_in
    looks = []

    def compacts_after_the_first_look(place: Path) -> list[str]:
        names = listed(place)
        if place == folder:
            looks.append(names)
            if len(looks) == 1:
                compacted(folder, 1, {"a.parquet": 1, "b.parquet": 2})
                (folder / "b.parquet").unlink()
        return names

    monkeypatch.setattr(ledger, "names_in", compacts_after_the_first_look)
    assert sorted(sizes()) == [1, 2]
    assert len(looks) == 2


def only_row(tmp_path: Path, table: str) -> dict[str, Any]:
    (row,) = read_all(tmp_path / "runs" / "ledger", table).to_pylist()
    return dict(row)


def test_a_run_leaves_what_was_measured_proposed_and_reached(run: SimulatedRun, tmp_path: Path) -> None:
    run.hold()
    run.reassign()
    run.finish()
    measured = read_all(tmp_path / "runs" / "ledger", "metrics").to_pylist()
    assert {
        (row["topic"], row["partition"], row["size_bytes"], row["start_offset"], row["end_offset"]) for row in measured
    } == {(topic, partition, SIZE_BYTES, 0, 1) for topic, partitions in TOPICS.items() for partition in partitions}
    assert all(row["topic_czxid"] is not None for row in measured)
    proposals = json_files.read_json(run.folder, json_files.PROPOSALS)
    planned = {row["candidate"]: row for row in read_all(tmp_path / "runs" / "ledger", "plans").to_pylist()}
    assert {name: row["digest"] for name, row in planned.items()} == {
        candidate["name"]: candidate["digest"] for candidate in proposals["candidates"]
    }
    assert [name for name, row in planned.items() if row["recommended"]] == [proposals["recommended"]]
    assert planned["light"]["moved_bytes"] == 4 * SIZE_BYTES
    outcome = only_row(tmp_path, "outcomes")
    assert outcome["verified"] is True
    assert outcome["predicted_bytes"] == outcome["copied_bytes"] == 4 * SIZE_BYTES
    assert (outcome["partitions"], outcome["batches"]) == (4, 2)
    assert (outcome["approved_by"], outcome["throttle_bytes_per_second"]) == ("3", RATE)
    assert run_step(record, run.dag_run, run.decision)["approver"] == "uma"
    assert outcome["digest"] == planned["light"]["digest"]
    assert outcome["cluster"] == CONNECTION


def outcome(run_id: str, **changes: Any) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "candidate": "light",
        "verified": True,
        "predicted_seconds": 600.0,
        "actual_seconds": 900.0,
        **changes,
    }


def test_a_plan_is_estimated_by_the_clusters_earlier_runs_and_names_what_it_could_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: SimulatedCluster
) -> None:
    made = SimulatedRun(tmp_path, cluster, monkeypatch)
    now = datetime.now(UTC)

    def ended(connection: str, run_id: str, ago: timedelta, **changes: Any) -> None:
        ledger.append(airflow_deployment(), "outcomes", connection, run_id, now - ago, [outcome(run_id, **changes)])

    for age in range(1, 8):
        ended(CONNECTION, f"run-{age}", timedelta(days=30 * age))
    ended(CONNECTION, "one", timedelta(hours=1), actual_seconds=9e9)
    ended("other", "other", timedelta(), actual_seconds=9e9)
    today = Path(str(ledger.folder_of(airflow_deployment(), "outcomes", CONNECTION))) / f"day={now:%Y-%m-%d}"
    today.mkdir(exist_ok=True)
    (today / "cut.parquet").write_bytes(b"")
    made.plan(job="drain", drain=[2], topics_out=["idle"])
    found = json_files.read_json(made.folder, json_files.ESTIMATE)
    assert found["ratios"] == [1.5] * 7, "neither this run's own, before it was cleared, nor another cluster's"
    assert [run["run_id"] for run in found["last"]] == [f"run-{age}" for age in range(1, 6)]
    assert found["problems"] == [f"day={now:%Y-%m-%d}/cut.parquet of the ledger's outcomes cannot be read"]
    assert "Last runs here" in (made.folder / json_files.REPORT).read_text()


def test_a_ledger_that_cannot_be_listed_stops_no_plan_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__KAFKA_REBALANCE__RUNS_URL", str(tmp_path))
    place = Path(str(ledger.folder_of(airflow_deployment(), "outcomes", CONNECTION)))
    place.parent.mkdir(parents=True)
    place.write_bytes(b"no folder")
    ledger.write_estimate(airflow_deployment(), tmp_path, CONNECTION, "one", DAY)
    found = json_files.read_json(tmp_path, json_files.ESTIMATE)
    assert (found["ratios"], found["last"]) == ([], [])
    assert "cannot be listed" in found["problems"][0]


def test_a_lower_throttle_than_planned_is_predicted_to_take_longer(
    run: SimulatedRun, tmp_path: Path, cluster: SimulatedCluster
) -> None:
    planned_at = json_files.read_json(run.folder, json_files.SNAPSHOT)["settings"]["throttle_bytes_per_second"]
    makespan = run.candidate.summary["makespan_seconds"]
    run.hold()
    run.reassign()
    run.finish()
    copying = makespan * planned_at / RATE
    assert only_row(tmp_path, "outcomes")["predicted_seconds"] == pytest.approx(with_controller(copying, 2))


def test_a_run_that_stopped_after_its_first_batch_is_recorded_as_that(run: SimulatedRun, tmp_path: Path) -> None:
    run.hold()
    run.request()
    run.cluster.controller.run()
    run.request()  # notes the first as done and requests the second, which nobody follows
    with pytest.raises(AirflowFailException, match="did not reach the approved end"):
        run_step(record, run.dag_run, run.decision)
    outcome = only_row(tmp_path, "outcomes")
    assert outcome["verified"] is False
    assert outcome["copied_bytes"] == outcome["unmeasured_bytes"] == 2 * SIZE_BYTES
    assert outcome["predicted_bytes"] == 4 * SIZE_BYTES


def test_what_was_measured_is_recorded_as_copied_and_what_was_not_as_planned(
    run: SimulatedRun, tmp_path: Path, cluster: SimulatedCluster
) -> None:
    run.hold()
    cluster.size_bytes = SIZE_BYTES + 1000  # grown since the plan
    batch = run.request()
    assert batch is not None
    run.resume(run.follow(batch, until=lambda: not (cluster.step() or True))[0] or {})
    cluster.controller.run()  # the second one is seen by nobody
    run.request()
    run.finish()
    outcome = only_row(tmp_path, "outcomes")
    assert (outcome["copied_bytes"], outcome["unmeasured_bytes"]) == (4 * SIZE_BYTES + 2000, 2 * SIZE_BYTES)


def test_a_run_that_never_began_has_no_duration(run: SimulatedRun, tmp_path: Path) -> None:
    with pytest.raises(AirflowFailException, match="did not reach the approved end"):
        run_step(record, run.dag_run, run.decision)
    outcome = only_row(tmp_path, "outcomes")
    assert (outcome["actual_seconds"], outcome["copied_bytes"], outcome["verified"]) == (None, 0, False)


def test_the_run_that_roll_back_would_undo_is_kept_whatever_its_age(
    run: SimulatedRun, cluster: SimulatedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def age(folder: Path) -> None:
        for file in folder.rglob("*"):
            os.utime(file, (0, 0))

    run.hold()
    run.reassign()
    run.finish()
    only_planned = SimulatedRun(tmp_path, cluster, monkeypatch, "two")
    run.policy_file.write_text(run.policy_file.read_text() + "keep_runs_days: 30\n")
    only_planned.plan(candidates=["light"])
    age(run.folder)
    age(only_planned.folder)
    monkeypatch.setattr(airflow_state, "is_active", lambda *_: False)
    tonight = {"dag_id": "kafka_ledger", "run_id": "tonight", "triggering_user_name": None, "run_type": "scheduled"}
    removed = run_step(remove_old, SimpleNamespace(**tonight))
    assert removed == {CONNECTION: [str(only_planned.folder.parent)]}
    moved = find_moved(airflow_deployment(), CONNECTION, None)
    assert moved is not None
    assert moved.folder == run.folder


# A damaged file of the ledger is named, and takes no other file, no plan and no page with it.


def damage(path: Path) -> None:
    """Overwrites a part of the first page; the footer stays whole. Arrow then raises a plain OSError."""
    data = bytearray(path.read_bytes())
    data[60:76] = b"\xff" * 16
    path.write_bytes(bytes(data))


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("table", sorted(ledger.TABLES))
def test_a_file_with_damaged_bytes_is_named_and_takes_no_other_with_it(table: str) -> None:
    sound, damaged = (
        Path(str(ledger.append(airflow_deployment(), table, "kafka_eu", run, DAY, [{}] * 50)))
        for run in ("sound", "damaged")
    )
    damage(damaged)
    found = ledger.read(airflow_deployment(), table, "kafka_eu", 1, now=DAY)
    assert len(found.rows) == 50
    assert found.unreadable == ("day=2026-11-21/damaged.parquet",)
    changed = bytearray(sound.read_bytes())
    changed[len(changed) // 4] ^= 1  # one bit of a value
    sound.write_bytes(bytes(changed))
    assert ledger.read(airflow_deployment(), table, "kafka_eu", 1, now=DAY).rows == []


@pytest.mark.usefixtures("root")
def test_times_and_columns_that_python_does_not_have_are_of_an_unreadable_file() -> None:
    sound = ledger.append(airflow_deployment(), "metrics", "kafka_eu", "sound", DAY, [{"topic": "orders"}])
    folder = Path(str(sound)).parent
    late = pyarrow.array([2**62], pyarrow.timestamp("us", tz="UTC"))
    pyarrow.parquet.write_table(pyarrow.table({"observed_at": late}), folder / "late.parquet")
    twice = pyarrow.Table.from_arrays([late.cast("int64"), late], names=["topic", "observed_at"])
    twice = twice.append_column("topic", pyarrow.array(["orders"]))
    pyarrow.parquet.write_table(twice, folder / "twice.parquet")
    found = ledger.read(airflow_deployment(), "metrics", "kafka_eu", 1, now=DAY)
    assert len(found.rows) == 1
    assert found.unreadable == ("day=2026-11-21/late.parquet", "day=2026-11-21/twice.parquet")


def test_a_damaged_file_stops_no_plan_and_the_report_names_it(run: SimulatedRun) -> None:
    row = {"run_id": "x", "candidate": "light", "verified": True, "predicted_seconds": 1.0}
    now = datetime.now(UTC)
    damage(Path(str(ledger.append(airflow_deployment(), "outcomes", CONNECTION, "damaged", now, [row] * 50))))
    run.plan(job="drain", drain=[2], topics_out=["idle"])
    assert "damaged.parquet" in str(json_files.read_json(run.folder, json_files.ESTIMATE)["problems"])


# Run ids as long as Airflow allows them.


LONGEST = 250  # of a run id of Airflow's


@pytest.mark.parametrize("mark", ["x", "+"])
def test_a_run_with_the_longest_id_comes_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: str) -> None:
    cluster = SimulatedCluster(monkeypatch, FEWER_TOPICS)
    run_id = "manual__" + mark + "y" * (LONGEST - 9)
    assert len(run_id) == LONGEST
    run = approved_run(tmp_path, cluster, monkeypatch, run_id)
    run.hold()
    run.reassign()
    assert run.finish()["passed"]


def test_a_request_for_a_topic_with_the_longest_id_comes_to_its_end(
    tmp_path: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.broker_settings = {broker: {"delete.topic.enable": "true"} for broker in RACKS}
    run = TopicRun(tmp_path, cluster, monkeypatch)
    run.dag_run.run_id = "y" * LONGEST
    run.request(action="alter", topic="orders", config=["retention.ms=1000"])
    run.answer("alter")
    assert run.write()["configs"] == 1


# Runs of two Dags may have one id: each keeps its rows.


def test_the_samples_of_a_check_and_of_a_rebalance_of_one_id_are_both_kept(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(airflow_state, "is_active", lambda *_: False)
    run = SimulatedRun(tmp_path, cluster, monkeypatch)
    run.plan(job="drain", drain=[2])
    of_the_run = ledger.read(airflow_deployment(), "metrics", CONNECTION, 1).rows
    checking = SimpleNamespace(**{**vars(run.dag_run), "dag_id": "kafka_balance_check"})
    for _ in range(2):  # a second try of the check replaces the rows of the first
        run_step(check_cluster.check, checking, CONNECTION)
    rows = ledger.read(airflow_deployment(), "metrics", CONNECTION, 1).rows
    assert len(of_the_run) > 0
    assert len(rows) == 2 * len(of_the_run)
