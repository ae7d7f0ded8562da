"""What becomes of an answer, without an Airflow: the change of a topic is asked for and answered."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ApprovalError, ApprovalExpiredError
from kafka_rebalance.model.digests import digest_of
from kafka_rebalance.model.topic_change import TopicChange
from kafka_rebalance.run.approval_request import NOTE, EndsHere, Form, RunLinks, ask, end_unanswered, take_answer
from kafka_rebalance.run.approval_rules import Answer, label
from kafka_rebalance.run.inputs import StartedRun, StepInputs
from kafka_rebalance.run.requester import hand_on, requester_of
from kafka_rebalance.run.run_folder import create_run_folder
from kafka_rebalance.topics.request import TopicApproval
from support.documents.as_in_a_file import in_json
from support.runs.plain_deployment import plain_deployment

LINKS = RunLinks("https://airflow.example/run", "https://airflow.example/run.svg")
DELETE = label("delete", "9" * 64)


def change(action: str) -> dict[str, Any]:
    return in_json(TopicChange(action, "orders", "abc", "2.0"))


class Requested:
    """A run of kafka_topics whose first task has written topic.json."""

    def __init__(self, root: Path, **topic: Any) -> None:
        self.told: dict[str, Any] = {}
        run = StartedRun("kafka_topics", "one", "olive")
        self.inputs = StepInputs(run, plain_deployment(root), self.told.__setitem__)
        (root / "policies" / "prod.yaml").write_text("approvers: [uma, olive]\n")
        policy = self.inputs.deployment.read_policy("prod")
        assert policy is not None
        folder, nonce = create_run_folder(self.inputs.deployment, "prod", run)
        self.folder, self.given = Path(str(folder)), (TopicApproval(), str(folder), nonce)
        written = {
            "connection_id": "prod",
            "policy_digest": policy.digest,
            "change": change("delete"),
            "digest": "9" * 64,
            "requested_by": "olive",
            "dry_run": False,
            "needs_approval": True,
            "cluster_id": "abc",
            "nonce": nonce,
            "observed_at": "2026-11-21T00:00:00+00:00",
            "dag_id": "kafka_topics",
            "run_id": "one",
            "reason": "",
            "assignment": "room",
            "replica_bytes": None,
            "costs": [],
            "notes": [],
            "size_bytes": None,
        }
        json_files.write_json(folder, json_files.TOPIC, written | topic)

    def answer(self, option: str, user: str = "uma") -> Form | EndsHere:
        given = Answer(option, user, user, None, note="old", at=datetime(2026, 11, 21, tzinfo=UTC))
        return take_answer(self.inputs, *self.given, given)

    @property
    def decision(self) -> dict[str, Any]:
        return json_files.read_json(self.folder, json_files.DECISION)


def test_an_approval_is_written_down_and_handed_on_with_its_digest(tmp_path: Path) -> None:
    run = Requested(tmp_path)
    assert run.answer(DELETE) == Form((DELETE, "Reject"), (NOTE,))
    assert (run.decision["choice"], run.decision["approved_by"]) == ("delete", {"id": "uma", "name": "uma"})
    assert run.told["decision"]["decision_digest"] == digest_of(run.decision)


def test_a_rejection_ends_the_run_as_a_success(tmp_path: Path) -> None:
    run = Requested(tmp_path)
    assert run.answer("Reject") == EndsHere("Rejected by uma. Nothing was written to the cluster.")


def test_an_answer_of_who_asked_for_it_decides_nothing(tmp_path: Path) -> None:
    run = Requested(tmp_path)
    with pytest.raises(ApprovalError, match="olive does not count"):
        run.answer(DELETE, "olive")
    assert run.told == {}
    assert not (run.folder / json_files.DECISION).exists()


def test_what_needs_no_answer_is_decided_at_once_and_a_dry_run_never(tmp_path: Path) -> None:
    run = Requested(tmp_path, needs_approval=False, change=change("create"))
    assert ask(run.inputs, *run.given, LINKS) is None
    assert (run.decision["approved_by"], run.told["decision"]["choice"]) == (None, "create")
    json_files.write_json(
        run.folder, json_files.TOPIC, json_files.read_json(run.folder, json_files.TOPIC) | {"dry_run": True}
    )
    ends = ask(run.inputs, *run.given, LINKS)
    assert isinstance(ends, EndsHere)
    assert "dry run" in ends.why


def test_a_file_that_says_that_a_deletion_needs_no_approval_is_not_believed(tmp_path: Path) -> None:
    run = Requested(tmp_path, needs_approval=False)
    assert TopicApproval().offer(run.folder).needs_answer


@pytest.mark.parametrize("dag_id", ["kafka_topics", "kafka_rebalance_cancel", "kafka_log_dirs", "kafka_rebalance"])
@pytest.mark.parametrize("kind", ["operator_triggered", "manual", "asset_materialization", "another"])
def test_no_dag_lets_a_run_be_approved_whose_starter_is_unknown(tmp_path: Path, dag_id: str, kind: str) -> None:
    started = StartedRun(dag_id, "one", None, kind)
    found = requester_of(plain_deployment(tmp_path), started, None)
    assert found.unknown


def test_what_the_nightly_check_passed_on_counts_for_no_dag_but_the_rebalance(tmp_path: Path) -> None:
    deployment, night = plain_deployment(tmp_path), StartedRun("kafka_balance_check", "night", None, "scheduled")
    folder, _ = create_run_folder(deployment, "prod", night)
    conf = hand_on(folder, {"kafka_conn_id": "prod", "job": "balance"}, night)
    found = {
        dag_id: requester_of(deployment, StartedRun(dag_id, "one", None, "operator_triggered", conf), None)
        for dag_id in ("kafka_rebalance", "kafka_log_dirs")
    }
    assert {dag_id: one.unknown for dag_id, one in found.items()} == {"kafka_rebalance": False, "kafka_log_dirs": True}


def test_a_person_whom_the_file_names_may_not_approve_either(tmp_path: Path) -> None:
    started = StartedRun("kafka_topics", "one", "olive")
    assert requester_of(plain_deployment(tmp_path), started, "uma").names == {"olive", "uma"}


def test_a_request_that_nobody_answers_leaves_a_decision_for_nothing(tmp_path: Path) -> None:
    run = Requested(tmp_path)
    with pytest.raises(ApprovalExpiredError, match="Nobody answered within 86400 s"):
        end_unanswered(run.inputs, *run.given, "timed out", True)
    assert (run.decision["choice"], run.decision["expired"]) == (None, True)
