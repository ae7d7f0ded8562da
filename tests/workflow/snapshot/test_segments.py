"""Segment settings over a run's life: what the snapshot keeps, what stops the first write, what verification says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from kafka_rebalance.documents import json_files
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.run.snapshot_reader import append_bytes
from kafka_rebalance.segments import audit_io
from support.runs.simulated_cluster import SimulatedCluster, SimulatedRun, batched_run

THROTTLED = "follower.replication.throttled.replicas"


def configure(cluster: SimulatedCluster, topic: str, **config: str) -> None:
    values = {key.replace("_", "."): value for key, value in config.items()}
    cluster.fake.put_json(
        f"/config/topics/{topic}", {"version": 1, "config": cluster.config(f"topics/{topic}") | values}
    )


def checks(run: SimulatedRun, name: str, subject: str) -> list[dict[str, Any]]:
    found = json_files.read_json(run.folder, json_files.VERIFICATION)["checks"]
    return [check for check in found if (check["name"], check["subject"]) == (name, subject)]


def test_settings_lowered_after_the_approval_stop_the_run_before_its_first_write(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = batched_run(tmp_path, cluster, monkeypatch)
    configure(cluster, "orders", segment_bytes="100000")
    before = cluster.tree()
    with pytest.raises(
        AirflowFailException, match=r"StaleProposalError.*segment\.bytes is 100000.*changed nothing in the cluster"
    ):
        run.hold()
    assert cluster.tree() == before


def test_what_was_shown_before_the_approval_does_not_fail_the_verification(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(cluster, "orders", segment_ms="5", segment_jitter_ms="9")
    run = batched_run(tmp_path, cluster, monkeypatch)
    run.hold()
    run.reassign()
    assert run.finish()["passed"] is True
    (check,) = checks(run, "segment_settings_sound", "orders")
    assert (check["passed"], check["severity"]) == (True, "warning")
    assert check["finding"].startswith("as shown before the approval: segment.jitter.ms 9 reaches segment.ms 5")
    assert checks(run, "throttle_left", f"topics/orders {THROTTLED}") == []


def test_what_became_wrong_during_the_run_fails_the_verification(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = batched_run(tmp_path, cluster, monkeypatch)
    run.hold()
    run.reassign()
    configure(cluster, "orders", segment_ms="5", segment_jitter_ms="9")
    with pytest.raises(AirflowFailException, match="VerificationError"):
        run.finish()
    assert [check["passed"] for check in checks(run, "segment_settings_sound", "orders")] == [False]
    assert [check["passed"] for check in checks(run, "segment_settings_unchanged", "orders")] == [False]


def test_a_throttle_that_somebody_left_is_a_warning_of_the_verification(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.fake.put_json("/config/topics/orders", {"version": 1, "config": {THROTTLED: "9:9"}})
    run = batched_run(tmp_path, cluster, monkeypatch)
    audit = json_files.read_json(run.folder, json_files.SEGMENTS)
    assert [finding["rule"] for finding in audit["findings"]] == ["throttle_left"]
    run.hold()
    run.reassign()
    assert run.finish()["passed"] is True
    (check,) = checks(run, "throttle_left", f"topics/orders {THROTTLED}")
    assert (check["passed"], check["severity"]) == (True, "warning")
    assert cluster.config("topics/orders") == {THROTTLED: "9:9"}


def test_a_stored_value_that_brokers_cannot_load_stops_the_candidates_that_copy_the_topic(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(cluster, "orders", segment_bytes="3000000000")
    with pytest.raises(KeyError):
        batched_run(tmp_path, cluster, monkeypatch)
    folder = next((tmp_path / "runs").rglob(json_files.SEGMENTS)).parent
    audit = json_files.read_json(folder, json_files.SEGMENTS)
    (stop,) = audit["candidates"]["light"]["stops"]
    assert (stop["rule"], stop["topics"], stop["severity"]) == ("unloadable", ["orders"], "error")
    assert "Not a number of type INT" in stop["text"]


def test_an_append_is_at_least_a_record_of_what_is_left() -> None:
    rows = [
        {"topic": "a", "partition": 0, "size_bytes": 1000},
        {"topic": "a", "partition": 1, "size_bytes": 900},
        {"topic": "b", "partition": 0, "size_bytes": 0},
        {"topic": "c", "partition": 0, "size_bytes": 10},
    ]
    ends = {TopicPartition("a", 0): 10, TopicPartition("a", 1): 100, TopicPartition("b", 0): 5}
    starts = dict.fromkeys(ends, 0)
    assert append_bytes(rows, starts, ends) == {"a": 9}
    assert append_bytes(rows, {**starts, TopicPartition("a", 1): 98}, ends) == {"a": 100}, "the others are gone"
    assert append_bytes(rows, {TopicPartition("a", 0): 0}, ends) == {"a": 100}, "where the log begins is unknown"


def test_the_snapshot_keeps_who_holds_the_cluster(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = batched_run(tmp_path, cluster, monkeypatch)
    first.hold()
    second = SimulatedRun(tmp_path, cluster, monkeypatch, run_id="two")
    second.plan(job="drain", drain=[2], topics_out=["idle"])
    configs = json_files.read_json(second.folder / json_files.SNAPSHOT_FOLDER, json_files.CONFIGS)
    assert configs["lock_holder"] == "kafka_rebalance/one"
    remedies = {f["remedy"] for f in json_files.read_json(second.folder, json_files.SEGMENTS)["findings"]}
    assert any("The run kafka_rebalance/one holds the cluster" in remedy for remedy in remedies)


def test_the_audit_says_when_segments_roll_where_the_ledger_knows_what_is_written(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = batched_run(tmp_path, cluster, monkeypatch)
    assert json_files.read_json(run.folder, json_files.SEGMENTS)["rolls"] is None
    rates = {TopicPartition("orders", 0): 2.0**20, TopicPartition("orders", 1): 2.0**21}
    audit_io.write_audit(run.folder, rates)
    found = json_files.read_json(run.folder, json_files.SEGMENTS)["rolls"]
    assert (found["topics"], found["idle"]) == ({"size": 1}, 2)
    assert found["soonest"] == [
        {
            "topic": "orders",
            "partition": 1,
            "reason": "size",
            "after_seconds": pytest.approx(512, abs=1),
            "segment_bytes": pytest.approx(2**30, abs=2**20),
        }
    ]
