"""Somebody edits a file that an approver has read, between the question and the answer, or after the answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk.exceptions import AirflowFailException, DownstreamTasksSkipped

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.proposals import REJECTION_FILE, LastAnswer
from kafka_rebalance.errors import ApprovalError, ArtifactError
from kafka_rebalance.model.digests import digest_of
from kafka_rebalance.rebalance.report import render_report
from kafka_rebalance.rebalance.request import CandidateApproval
from kafka_rebalance.run import ledger
from kafka_rebalance.run.approved_plan import read_approved
from kafka_rebalance.run.ledger import ESTIMATE_FILE, Estimate
from kafka_rebalance.run.run_folder import digests_of_files
from kafka_rebalance.segments.audit_io import read_configs_of, write_audit
from kafka_rebalance.throttle.rates import RATES_FILE, Rates
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.run_step import run_step, step_inputs
from support.airflow.approval_requests import SKEWED, Asked, World
from support.runs.rebalance_run import CONNECTION
from support.runs.simulated_cluster import TOPICS, SimulatedCluster, batched_run

FILES = CandidateApproval.shown
CONFIGS = f"{json_files.SNAPSHOT_FOLDER}/{json_files.CONFIGS}"
Edit = Callable[[Path], None]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    def park(self: HITLOperator, context: Any) -> None:
        raise Asked

    monkeypatch.setattr(HITLOperator, "execute", park)
    made = World(tmp_path, monkeypatch, SKEWED, {})
    RATES_FILE.write(made.folder, Rates({}))
    ESTIMATE_FILE.write(made.folder, Estimate((), (), ()))
    REJECTION_FILE.write(made.folder, LastAnswer(None))
    made.ask()
    return made


def edit(path: Path) -> None:
    """One more key, which readers pass over: so only the bytes tell."""
    path.write_text(json.dumps({**json.loads(path.read_text()), "more": 1}))


def remove(path: Path) -> None:
    path.unlink()


def test_the_request_has_every_file_that_decides() -> None:
    assert {"snapshot.json", "settings.json", "proposals.json", "segments.json", "rates.json", CONFIGS} <= {*FILES}


@pytest.mark.parametrize("name", FILES)
def test_an_answer_to_what_somebody_has_edited_since_the_question_does_not_count(world: World, name: str) -> None:
    edit(world.folder / name)
    with pytest.raises(AirflowFailException, match=r"ApprovalError|ArtifactError") as refused:
        world.answer(world.option("light"))
    assert Path(name).stem in str(refused.value)
    assert "decision" not in world.xcom
    assert not (world.folder / json_files.DECISION).exists()


@pytest.mark.parametrize("name", [json_files.RATES, json_files.ESTIMATE, json_files.REJECTION])
def test_an_answer_does_not_count_if_a_file_is_gone_that_was_shown(world: World, name: str) -> None:
    remove(world.folder / name)
    with pytest.raises(AirflowFailException, match=f"{name} is not as it was when people were asked"):
        world.answer(world.option("light"))


def test_whoever_asks_again_shows_what_is_there_then(world: World) -> None:
    edit(world.folder / json_files.RATES)
    world.ask()
    world.answer(world.option("light"))
    assert world.decision["choice"] == "light"


def test_a_rejection_counts_whatever_was_shown(world: World) -> None:
    edit(world.folder / json_files.RATES)
    with pytest.raises(DownstreamTasksSkipped):
        world.answer("Reject")


def test_a_request_of_an_earlier_version_has_no_digests_and_counts(world: World) -> None:
    world.xcom.clear()
    world.answer(world.option("light"))
    assert world.decision["choice"] == "light"


@pytest.mark.parametrize("act", [edit, remove])
@pytest.mark.parametrize("name", FILES)
def test_an_approved_run_does_not_go_on_with_a_file_that_somebody_has_edited_since(
    world: World, name: str, act: Edit
) -> None:
    world.answer(world.option("light"))
    read_approved(step_inputs(world.dag_run), world.xcom["decision"])
    act(world.folder / name)
    with pytest.raises((ApprovalError, ArtifactError), match=Path(name).name):
        read_approved(step_inputs(world.dag_run), world.xcom["decision"])


def test_a_decision_of_an_earlier_version_goes_on(world: World) -> None:
    world.answer(world.option("light"))
    given = {key: value for key, value in world.decision.items() if key not in ("shown_files", "format_version")}
    digest = json_files.write_json(world.folder, json_files.DECISION, given)
    edit(world.folder / json_files.RATES)
    read_approved(step_inputs(world.dag_run), world.xcom["decision"] | {"decision_digest": digest})


def test_a_report_that_is_rendered_anew_in_mid_plan_leaves_the_files_that_were_approved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Meanwhile another run of the cluster has ended, from which a new plan would estimate its time."""
    cluster = SimulatedCluster(monkeypatch, TOPICS)
    run = batched_run(tmp_path, cluster, monkeypatch)
    shown = {"shown_files": digests_of_files(run.folder, FILES)}
    decision = json_files.read_json(run.folder, json_files.DECISION)
    run.decision["decision_digest"] = json_files.write_json(run.folder, json_files.DECISION, {**decision, **shown})
    run.hold()
    assert run.request() == 1
    now, ended = datetime.now(UTC), {"run_id": "another", "candidate": "light", "verified": True, "copied_bytes": 1}
    ledger.append(airflow_deployment(), "outcomes", CONNECTION, "another", now, [ended])
    run_step(render_report, run.dag_run, str(run.folder))
    cluster.controller.run()
    run.reassign()
    assert run.finish()["passed"]


def test_configs_that_somebody_has_edited_before_the_question_are_not_audited(world: World) -> None:
    configs = json_files.read_json(world.folder / json_files.SNAPSHOT_FOLDER, json_files.CONFIGS)
    snapshot = json_files.read_json(world.folder, json_files.SNAPSHOT)
    json_files.write_json(world.folder, json_files.SNAPSHOT, {**snapshot, "configs_digest": digest_of(configs)})
    read_configs_of(world.folder)
    edit(world.folder / CONFIGS)
    with pytest.raises(ArtifactError, match=r"configs\.json is not as the snapshot wrote it"):
        write_audit(world.folder, None)
