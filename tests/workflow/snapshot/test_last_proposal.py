"""A run knows what its cluster's last run of the same job has proposed. The cluster is simulated."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.proposals import PROPOSALS_FILE
from kafka_rebalance.documents.snapshot import SNAPSHOT_FILE, LastProposal
from kafka_rebalance.model.candidate import candidate_digest
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.planning.tables.parquet_files import read_rows
from kafka_rebalance.planning.tables.read_problem import PARTITIONS, PROPOSED, SNAPSHOT_SCHEMAS
from kafka_rebalance.planning.tables.result_tables import move_of, read_candidate
from kafka_rebalance.rebalance.report import read_report
from kafka_rebalance.rebalance.request import approval_body
from kafka_rebalance.run import ledger
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from support.runs.rebalance_run import CONNECTION
from support.runs.simulated_cluster import SimulatedCluster, SimulatedRun

UNEVEN = {"orders": {number: (1, 2) if number % 2 else (2, 3) for number in range(12)}, "audit": {0: (2, 1)}}
Lists = dict[TopicPartition, list[int]]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    return SimulatedCluster(monkeypatch, UNEVEN)


@pytest.fixture
def first(tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> SimulatedRun:
    return planned(tmp_path, cluster, monkeypatch, "first")


def planned(
    folder: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch, run_id: str, **params: object
) -> SimulatedRun:
    run = SimulatedRun(folder, cluster, monkeypatch, run_id)
    run.plan(**params)
    return run


def proposed(run: SimulatedRun, name: str = "balanced") -> Lists:
    """What the run's snapshot says that the last run proposed; {} if it has no such column."""
    snapshot, column = run.folder / json_files.SNAPSHOT_FOLDER, PROPOSED[name]
    if column not in pq.read_schema(snapshot / PARTITIONS).names:
        return {}
    rows = read_rows(snapshot, PARTITIONS, SNAPSHOT_SCHEMAS[PARTITIONS], ["topic", "partition", column])
    return {TopicPartition(row["topic"], row["partition"]): row[column] for row in rows if row[column]}


def moves(run: SimulatedRun, name: str = "balanced") -> Lists:
    return {move.topic_partition: list(move.after) for move in read_candidate(run.folder, name).moves}


def last(run: SimulatedRun) -> LastProposal | None:
    return SNAPSHOT_FILE.read(run.folder).last_proposal


def test_the_next_run_of_the_job_has_the_same_lists_and_says_so(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch, first: SimulatedRun
) -> None:
    assert last(first) is None
    assert moves(first)
    second = planned(tmp_path, cluster, monkeypatch, "second")
    found = last(second)
    assert found is not None
    assert (found.run_id, found.unread) == ("first", None)
    assert found.observed_at == SNAPSHOT_FILE.read(first.folder).observed_at
    for name in ("light", "balanced"):
        assert proposed(second, name) == moves(first, name) == moves(second, name)
    (balanced,) = [one for one in PROPOSALS_FILE.read(second.folder).candidates if one.name == "balanced"]
    assert balanced.since_last is not None
    assert (balanced.since_last.same, balanced.since_last.dropped) == (len(moves(first)), 0)
    said = approval_body(read_report(second.folder))
    assert "Since the plan of " in said
    assert "moves are the same\n" in said


def test_a_run_whose_first_task_is_cleared_is_near_its_own_earlier_attempt(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch, first: SimulatedRun
) -> None:
    earlier = moves(first)
    again = planned(tmp_path, cluster, monkeypatch, "first")
    assert again.folder.name == "2"
    assert proposed(again) == earlier


@pytest.mark.usefixtures("first")
def test_a_run_of_another_job_has_no_last_proposal(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = planned(tmp_path, cluster, monkeypatch, "drains", job="drain", drain=[2])
    assert last(other) is None
    assert proposed(other) == {}


def test_what_lies_elsewhere_by_now_or_has_been_made_is_not_proposed(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch, first: SimulatedRun
) -> None:
    wanted = moves(first)
    (made, elsewhere, *_) = sorted(wanted)
    lists = {number: tuple(replicas) for number, replicas in enumerate(cluster.replicas(made.topic).values())}
    lists[made.partition] = tuple(wanted[made])
    lists[elsewhere.partition] = tuple(reversed(lists[elsewhere.partition]))
    later = planned(tmp_path, SimulatedCluster(monkeypatch, UNEVEN | {made.topic: lists}), monkeypatch, "second")
    assert proposed(later) == {key: after for key, after in wanted.items() if key not in (made, elsewhere)}


def test_after_an_approval_the_other_candidates_are_over(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch, first: SimulatedRun
) -> None:
    first.approve("light", 10_000_000)
    later = planned(tmp_path, cluster, monkeypatch, "second")
    assert proposed(later, "light") == moves(first, "light")
    assert proposed(later) == {}
    topics = {topic: {number: tuple(lists) for number, lists in held.items()} for topic, held in UNEVEN.items()}
    for (topic, number), after in moves(first, "light").items():
        topics[topic][number] = tuple(after)
    shutil.rmtree(later.folder.parent)
    after_it = planned(tmp_path, SimulatedCluster(monkeypatch, topics), monkeypatch, "third")
    assert last(after_it) is None, "it has run to its end"


@pytest.mark.parametrize("broken", ["parquet", "digest", "texts", "snapshot", "proposals"])
def test_a_broken_or_forged_last_proposal_does_not_count_and_the_run_says_so(
    broken: str,
    tmp_path: Path,
    cluster: SimulatedCluster,
    monkeypatch: pytest.MonkeyPatch,
    first: SimulatedRun,
    caplog: pytest.LogCaptureFixture,
) -> None:
    table = first.folder / "moves" / "part-0.parquet"
    if broken == "parquet":
        table.write_bytes(b"no parquet")
    elif broken == "snapshot":
        (first.folder / json_files.SNAPSHOT).write_bytes(b"{")
    elif broken == "proposals":
        (first.folder / json_files.PROPOSALS).write_bytes(b'{"format_version": 1}')
    else:
        forge(first, texts=broken == "texts")
    later = planned(tmp_path, cluster, monkeypatch, "second")
    assert proposed(later) == {}
    found = last(later)
    assert found is not None
    assert found.run_id == "first"
    assert found.unread
    assert "Run first made the last proposal, which cannot be read and does not count" in caplog.text
    assert "The plan of run `first` cannot be read, so this one was searched" in approval_body(
        read_report(later.folder)
    )
    assert moves(later)


def forge(run: SimulatedRun, *, texts: bool) -> None:
    """Another list in the table of moves; with `texts` no broker's id, and the digest that belongs to it."""
    path = run.folder / "moves" / "part-0.parquet"
    rows = pq.read_table(path).to_pylist()
    for row in rows:
        row["after"] = ["four", "two"] if texts else [4, 2]
    schema = pq.read_schema(path)
    if texts:
        at = schema.get_field_index("after")
        schema = schema.set(at, pa.field("after", pa.list_(pa.string())))
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
    if not texts:
        return
    document = json.loads((run.folder / json_files.PROPOSALS).read_bytes())
    for candidate in document["candidates"]:
        made = [move_of(row) for row in rows if row["candidate"] == candidate["name"]]
        candidate["digest"] = candidate_digest(
            candidate["name"], document["snapshot_digest"], document["settings"], made
        )
    (run.folder / json_files.PROPOSALS).write_text(json.dumps(document))


def test_a_ledger_that_cannot_be_read_is_not_taken_for_one_without_plans(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch, first: SimulatedRun
) -> None:
    (file,) = Path(str(ledger.folder_of(airflow_deployment(), "plans", CONNECTION))).glob("*/*.parquet")
    file.write_bytes(b"no parquet")
    found = last(planned(tmp_path, cluster, monkeypatch, "second"))
    assert found is not None
    assert found.run_id is None
    assert "files that cannot be read" in (found.unread or "")


def test_a_run_whose_folder_is_gone_is_no_proposal_any_more(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch, first: SimulatedRun
) -> None:
    shutil.rmtree(first.folder.parent)
    assert last(planned(tmp_path, cluster, monkeypatch, "second")) is None
