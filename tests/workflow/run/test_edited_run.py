"""Somebody edits XComs or files of an approved run: nothing is written, or exactly what was approved."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from airflow.sdk.exceptions import AirflowFailException

from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import RebalanceError
from support.runs.cancel_run import CancelRun, begin, cancellable_cluster
from support.runs.simulated_cluster import TOPICS, SimulatedCluster, SimulatedRun, batched_run

Refused = (AirflowFailException, RebalanceError)


class Approved:
    """An approved run whose throttle and first batch were never written yet."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.cluster = SimulatedCluster(patch, TOPICS)
        self.run: SimulatedRun = batched_run(root, self.cluster, patch)
        self.moves = {move.topic_partition: list(move.after) for move in self.run.candidate.moves}
        self.before = self.cluster.tree()

    def go_on(self) -> None:
        self.run.hold()
        self.run.request()

    def wrote_nothing(self) -> bool:
        return self.cluster.tree() == self.before

    def wrote_as_approved(self) -> bool:
        asked = {tp: replicas for request in self.cluster.requests for tp, replicas in request.items()}
        rates = {
            value for values in self.cluster.throttles().values() for key, value in values.items() if "rate" in key
        }
        return asked.items() <= self.moves.items() and rates <= {"2000000"}


@pytest.fixture
def approved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Approved:
    return Approved(tmp_path, monkeypatch)


def test_what_nobody_has_edited_is_written_as_approved(approved: Approved) -> None:
    approved.go_on()
    assert approved.wrote_as_approved()
    assert not approved.wrote_nothing()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("choice", "leaders_only"),
        ("choice", "../light"),
        ("digest", "0" * 64),
        ("decision_digest", "0" * 64),
        ("nonce", "0" * 32),
        ("run_folder", "/etc"),
        ("run_folder", "{folder}/../1/../../.."),
        ("run_folder", "{folder}/snapshot"),
    ],
)
def test_a_decision_in_an_edited_xcom_is_refused_before_anything_is_written(
    approved: Approved, key: str, value: str
) -> None:
    approved.run.decision = {**approved.run.decision, key: value.replace("{folder}", str(approved.run.folder))}
    with pytest.raises(Refused):
        approved.go_on()
    assert approved.wrote_nothing()


def test_an_xcom_that_names_a_copy_of_the_folder_is_refused(approved: Approved) -> None:
    """The copy holds another throttle, with a digest that fits it."""
    copied = approved.run.folder.parents[1] / "copy" / "1"
    shutil.copytree(approved.run.folder, copied)
    decision = json_files.read_json(copied, json_files.DECISION) | {"throttle_bytes_per_second": 50_000_000}
    decision.pop("format_version")
    digest = json_files.write_json(copied, json_files.DECISION, decision)
    approved.run.decision = {**approved.run.decision, "run_folder": str(copied), "decision_digest": digest}
    with pytest.raises(Refused):
        approved.go_on()
    assert approved.wrote_nothing()


def edit_moves(folder: Path) -> None:
    """Every copy goes to broker 1 and 3, with the sizes and batches that were approved."""
    (path,) = (folder / "moves").glob("*.parquet")
    table = pq.read_table(path)
    rows = [{**row, "after": [1, 3] if row["candidate"] == "light" else row["after"]} for row in table.to_pylist()]
    pq.write_table(table.from_pylist(rows, schema=table.schema), path)


def edit_json(name: str, key: str, value: Any) -> Any:
    def edit(folder: Path) -> None:
        document = json.loads((folder / name).read_text())
        assert document.get(key) != value or key not in document
        (folder / name).write_text(json.dumps(document | {key: value}))

    return edit


EDITS_OF_THE_SNAPSHOT: dict[str, Any] = {
    "cluster_id": "another",
    "cluster_bytes": 10**15,
    "window": {"not_before": "2026-01-01T00:00:00+00:00"},
    "requester": {"automatic": True, "plan_by": None},
    "requested_by": None,
    "policy_digest": "0" * 64,
    "settings": {"job": "drain", "drain": [2], "replace": {}, "disk_headroom": 0.0},
    "automatic_elections": {"brokers": [], "check_seconds": 300},
    "observed_at": "2026-11-21T00:00:00+00:00",
    "more": 1,
}


def edit_table(name: str, column: str) -> Any:
    def edit(folder: Path) -> None:
        path = folder / "snapshot" / name
        table = pq.read_table(path)
        number = table.schema.get_field_index(column)
        more = pc.add(pc.fill_null(table.column(number), 0), 1_000_000)
        pq.write_table(
            table.set_column(number, table.schema.field(column), more.cast(table.schema.field(column).type)), path
        )

    return edit


# What growth, the limits of the policy and the room on disks are compared with.
edit_sizes = edit_table("partitions.parquet", "size_bytes")
edit_disks = edit_table("brokers.parquet", "disk_capacity_bytes")


@pytest.mark.parametrize(
    "edit",
    [
        edit_moves,
        edit_json("decision.json", "choice", "leaders_only"),
        edit_json("decision.json", "throttle_bytes_per_second", 50_000_000),
        edit_json("decision.json", "policy_digest", "0" * 64),
        edit_json("nonce.json", "nonce", "0" * 32),
        edit_json(
            "nonce.json", "owner", {"dag_id": "kafka_rebalance", "run_id": "two", "connection_id": "x", "attempt": 1}
        ),
        *(edit_json("snapshot.json", key, value) for key, value in EDITS_OF_THE_SNAPSHOT.items()),
        edit_sizes,
        edit_disks,
    ],
)
def test_an_edited_file_of_an_approved_run_is_refused_before_anything_is_written(approved: Approved, edit: Any) -> None:
    edit(approved.run.folder)
    with pytest.raises(Refused):
        approved.go_on()
    assert approved.wrote_nothing()


def test_a_request_of_another_dag_that_was_edited_after_the_approval_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = cancellable_cluster(monkeypatch, "2.8")
    run = batched_run(tmp_path, cluster, monkeypatch)
    begin(run, cluster)
    asked = CancelRun(monkeypatch)
    asked.approved()
    before = cluster.tree()
    edit_json("cancel.json", "target_folder", str(asked.folder))(asked.folder)
    with pytest.raises(Refused, match="is not as it was at the approval"):
        asked.cancel()
    assert cluster.tree() == before


def test_a_refusal_in_mid_plan_says_what_the_run_may_hold_and_before_it_nothing(approved: Approved) -> None:
    decision = approved.run.decision
    approved.run.decision = {**decision, "digest": "0" * 64}
    with pytest.raises(
        Refused, match=r"Start a new Dag run\. This try of the task had changed nothing in the cluster\.$"
    ):
        approved.run.hold()
    approved.run.decision = decision
    approved.go_on()
    edit_json("decision.json", "choice", "leaders_only")(approved.run.folder)
    with pytest.raises(Refused, match=r"had changed nothing in the cluster.*has taken its cluster's lock"):
        approved.run.release()


def edits(path: Path) -> Iterator[bytes]:
    """The file cut in half, and with one value changed after the other."""
    content = path.read_bytes()
    yield content[: len(content) // 2]
    if path.suffix == ".json":
        document = json.loads(content)
        for key, value in document.items() if isinstance(document, dict) else ():
            other = value + 1 if isinstance(value, (int, float)) else [] if isinstance(value, str) else "x"
            yield json.dumps(document | {key: other}).encode()
    elif path.suffix == ".parquet":
        table = pq.read_table(io.BytesIO(content), partitioning=None)
        for number, field in enumerate(table.schema):
            changed = None
            with suppress(Exception):
                changed = pc.add(table.column(number), 1)
            if changed is not None:
                buffer = io.BytesIO()
                pq.write_table(table.set_column(number, field, changed.cast(field.type)), buffer)
                yield buffer.getvalue()
        buffer = io.BytesIO()
        pq.write_table(table.slice(1), buffer)
        yield buffer.getvalue()


def test_whatever_file_is_edited_nothing_is_written_but_what_was_approved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that are only notes may be wrong, and the run goes on as approved."""
    root, kept = tmp_path / "one", tmp_path / "kept"
    root.mkdir()
    approved = Approved(root, monkeypatch)
    shutil.copytree(root, kept)
    znodes = approved.cluster.fake.copied()
    inside = approved.run.folder.relative_to(root)
    names = sorted(
        path.relative_to(kept / inside) for path in (kept / inside).rglob("*") if path.suffix in {".json", ".parquet"}
    )
    assert len(names) > 15
    refused = 0
    for name in names:
        for content in edits(kept / inside / name):
            shutil.rmtree(root)
            shutil.copytree(kept, root)
            approved.cluster.fake.znodes = znodes
            znodes = approved.cluster.fake.copied()
            approved.cluster.requests.clear()
            (root / inside / name).write_bytes(content)
            with suppress(*Refused):
                approved.go_on()
            assert approved.wrote_nothing() or approved.wrote_as_approved(), name
            refused += approved.wrote_nothing()
    assert refused > 20
