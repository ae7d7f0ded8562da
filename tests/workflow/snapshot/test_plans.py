"""Where a run's own plan comes from: pasted text, or a file that must lie below the plans folder."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.proposals import PROPOSALS_FILE
from kafka_rebalance.errors import KafkaRuleError, SettingsError
from kafka_rebalance.kafka.reassignment_json import parse_reassignment
from kafka_rebalance.planning.tables.result_tables import read_candidate
from kafka_rebalance.rebalance import snapshot
from kafka_rebalance.rebalance.request import offered_digests
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.run_step import run_step
from support.runs.rebalance_run import CONNECTION, POLICY
from support.runs.simulated_cluster import RATE, TOPICS, SimulatedCluster, SimulatedRun, other_dag_run

PLAN = json.dumps({"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [4, 2]}]})
SECRET = "not a plan, and nobody's business"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A plans folder with a plan in it, and secrets beside it."""
    made = tmp_path / "plans"
    (made / "eu").mkdir(parents=True)
    (made / "eu" / "orders.json").write_text(PLAN)
    (tmp_path / "plans-of-others").mkdir()
    for outside in (tmp_path / "secret", tmp_path / "plans-of-others" / "secret"):
        outside.write_text(SECRET)
    (made / "link").symlink_to(tmp_path / "secret")
    (made / "folder").symlink_to(tmp_path, target_is_directory=True)
    (made / "newest").symlink_to("eu/orders.json")
    (made / "latin-1").write_bytes(b"\xe4")
    os.mkfifo(made / "fifo")
    monkeypatch.setenv("AIRFLOW__KAFKA_REBALANCE__PLANS_FOLDER", str(made))
    return made


@pytest.mark.parametrize("params", [{}, {"plan": None, "plan_path": None}, {"plan": " \n", "plan_path": ""}])
def test_a_run_has_no_plan_unless_it_gives_one(params: dict[str, Any]) -> None:
    assert snapshot.given_plan(airflow_deployment(), params) is None


@pytest.mark.parametrize("name", ["eu/orders.json", "./eu/../eu/orders.json", "newest"])
def test_a_file_below_the_plans_folder_is_the_same_plan_as_its_text_pasted(folder: Path, name: str) -> None:
    from_file, pasted = (
        snapshot.given_plan(airflow_deployment(), {"plan_path": name}),
        snapshot.given_plan(airflow_deployment(), {"plan": f"  {PLAN}\n"}),
    )
    assert from_file == pasted
    assert parse_reassignment(from_file or "") == {("orders", 0): (4, 2)}


@pytest.mark.parametrize(
    "name",
    ["../secret", "eu/../../secret", "link", "folder/secret", "../plans-of-others/secret", "{}/../secret", "{}/../x"],
)
def test_a_path_that_leaves_the_plans_folder_is_refused_and_not_read(folder: Path, name: str) -> None:
    with pytest.raises(SettingsError, match="leads out of it") as refused:
        snapshot.given_plan(airflow_deployment(), {"plan_path": name.format(folder)})
    assert SECRET not in str(refused.value)
    assert "Nothing was read from or written to the cluster" in str(refused.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("eu/none.json", "is not a file there"),
        ("eu", "is not a file there"),
        ("fifo", "is not a file there"),
        ("a\0b", "cannot be read"),
        ("latin-1", "is not UTF-8 text: byte 0xe4 at line 1, column 1"),
    ],
)
def test_what_is_no_readable_file_is_said(folder: Path, name: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        snapshot.given_plan(airflow_deployment(), {"plan_path": name})


def test_a_pasted_plan_and_a_path_at_once_are_refused(folder: Path) -> None:
    with pytest.raises(SettingsError, match="Leave one empty"):
        snapshot.given_plan(airflow_deployment(), {"plan": PLAN, "plan_path": "eu/orders.json"})


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"plan": "{"}, "The input string is not a valid JSON"),
        ({"plan_path": "../secret"}, "SettingsError: .*leads out of it"),
        ({"plan": PLAN.replace('"orders"', '"nowhere"')}, "KafkaRuleError: .*non-existent partitions"),
        ({"plan": PLAN.replace("4", "77")}, "KafkaRuleError: .*non-existent brokerIDs"),
        ({"plan": PLAN.replace("}]}", ', "log_dirs": ["/data", "any"]}]}')}, "SettingsError: .*log directories"),
    ],
)
def test_a_plan_that_cannot_be_used_ends_the_snapshot_without_a_retry(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, params: dict[str, Any], words: str
) -> None:
    run = SimulatedRun(tmp_path, SimulatedCluster(monkeypatch, TOPICS), monkeypatch)
    before = run.cluster.tree()
    with pytest.raises(AirflowFailException, match=words):
        run.plan(**params)
    assert run.cluster.tree() == before


def test_a_given_plan_is_approved_executed_and_verified_like_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = SimulatedRun(tmp_path, SimulatedCluster(monkeypatch, TOPICS), monkeypatch)
    proposals = run.plan(plan=PLAN, candidates=["light", "as_kafka"])
    assert [candidate["name"] for candidate in proposals["candidates"]] == ["light", "as_kafka", "given"]
    written = json_files.read_json(run.folder, json_files.SETTINGS)["plan"]
    assert parse_reassignment(written) == {("orders", 0): (4, 2)}
    run.approve("given", RATE)
    run.hold()
    run.reassign()
    assert run.finish()["passed"] is True
    assert run.cluster.requests == [{("orders", 0): [4, 2]}]
    assert run.cluster.replicas("orders") == {0: [4, 2], 1: [3, 2], 2: [2, 3]}
    assert run.cluster.leaders("orders")[0] == 4
    assert run.cluster.leftovers() == []


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ("max_bytes: 999999", "1,000,000 against max_bytes 999,999"),
        ("topics_out: [ord*]", "1 partitions may not be changed"),
        ("brokers_out: [4]", "brokers_out keeps out broker 4"),
        ("internal_topics: true", None),
    ],
)
def test_a_given_plan_beyond_the_policy_is_shown_with_its_figures_and_not_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, words: str | None
) -> None:
    run = SimulatedRun(tmp_path, SimulatedCluster(monkeypatch, TOPICS), monkeypatch)
    run.policy_file.write_text(f"{POLICY}{limit}\n")
    proposals = run.plan(plan=PLAN)
    given = next(candidate for candidate in proposals["candidates"] if candidate["name"] == "given")
    assert ("given" in offered_digests(PROPOSALS_FILE.decode(proposals), ())) is (words is None)
    assert words is None or words in given["note"]
    assert read_candidate(run.folder, "given").moves == () or words is None
    assert (run.folder / "reassignments" / "given.json").exists() is (words is None)


def test_every_candidate_and_its_way_back_are_files_of_the_runs_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = SimulatedRun(tmp_path, SimulatedCluster(monkeypatch, TOPICS), monkeypatch)
    proposals = run.plan(plan=PLAN, candidates=["balanced", "as_kafka"])
    expected = {}
    for name in (candidate["name"] for candidate in proposals["candidates"]):
        moves = read_candidate(run.folder, name).moves
        expected[f"{name}.json"] = {move.topic_partition: move.after for move in moves}
        expected[f"{name}-rollback.json"] = {move.topic_partition: move.before for move in moves}
    files = {path.name: parse_reassignment(path.read_text()) for path in (run.folder / "reassignments").iterdir()}
    assert files == {name: lists for name, lists in expected.items() if lists}
    assert {"given.json", "given-rollback.json", "as_kafka.json"} <= set(files)
    page = (run.folder / json_files.REPORT).read_text()
    assert 'href="reassignments/given-rollback.json"' in page


TOPICS_TO_MOVE = json.dumps({"version": 1, "topics": [{"topic": "orders"}]})


def test_a_topics_to_move_file_names_the_topics_that_may_be_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 001, row 2, as a run takes it: the file is pasted, and no other topic moves."""
    run = SimulatedRun(tmp_path, SimulatedCluster(monkeypatch, TOPICS), monkeypatch)
    drained = {"job": "drain", "drain": [1, 2]}  # what is left is the broker list
    proposals = run.plan(topics_to_move=TOPICS_TO_MOVE, topics_in=["*"], candidates=["as_kafka"], **drained)
    assert json_files.read_json(run.folder, json_files.SETTINGS)["topics_in"] == ["orders"]
    moves = read_candidate(run.folder, "as_kafka").moves
    assert [candidate["name"] for candidate in proposals["candidates"]] == ["as_kafka"]
    assert {move.topic_partition.topic for move in moves} == {"orders"}
    assert {broker for move in moves for broker in move.after} == {3, 4}


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"topics_to_move": "{"}, "The input string is not a valid JSON"),
        ({"topics_to_move": '{"version":2}'}, "Not supported version field value 2"),
        ({"topics_to_move": '{"topics":[]}'}, "names no topic"),
        (
            {"topics_to_move": '{"topics":[{"topic":"orders"},{"topic":"orders"}]}'},
            "List of topics to reassign contains duplicate entries: orders",
        ),
        ({"topics_to_move": '{"topics":[{"topic":"ord*"}]}'}, "contains a character other than ASCII alphanumerics"),
        (
            {"topics_to_move": '{"topics":[{"topic":"nowhere"}]}'},
            "topics_in ['nowhere'] less topics_out [] matches none of 3 topics",
        ),
        ({"topics_to_move": TOPICS_TO_MOVE, "topics_in": ["orders"]}, "Leave one of them at its default"),
    ],
)
def test_a_topics_to_move_file_that_cannot_be_used_ends_the_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, params: dict[str, Any], words: str
) -> None:
    run = SimulatedRun(tmp_path, SimulatedCluster(monkeypatch, TOPICS), monkeypatch)
    with pytest.raises(AirflowFailException, match=re.escape(words)):
        run.plan(**params)


def test_a_rule_of_kafka_is_no_reason_to_try_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "given_plan", lambda *_: parse_reassignment("{"))
    with pytest.raises(AirflowFailException, match=KafkaRuleError.__name__):
        run_step(
            snapshot.take_snapshot,
            other_dag_run("one"),
            {"kafka_conn_id": CONNECTION},
            ti=SimpleNamespace(xcom_push=None),
        )
